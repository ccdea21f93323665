"""`roost runtime`: the control plane of a gateway, as a person and a script see it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import msgspec
import pytest

from roost.cli import main
from roost.core.about import BackendAbout, NodeAbout
from roost.core.ids import ModelId, NodeId
from roost.core.machine import Memory, Processor
from roost.core.snapshots import ModelOffer
from roost.errors import REASONS
from roost.fleet.watching.memory_views import memory_of
from roost.fleet.watching.promises import promises_of
from roost.fleet.watching.views import NodeView

NODE = NodeView(
    id=NodeId("n1"),
    name="n1",
    state="alive",
    in_flight=0,
    draining=False,
    models=(ModelOffer(ModelId("tiny\x1b[2J"), 2, 64, backend="llama"),),
    about=NodeAbout(
        Processor("cpu", 2, 2),
        Memory(2_000_000, 1_000_000),
        backends=(BackendAbout("llama", usable=True, claims=("chat",)),),
    ),
)
ANSWERS: dict[str, object] = {
    "info": {"service": "roost", "backends": ["llama"], "limits": {"max_page_size": 100}},
    "capabilities": {"nodes": [promises_of(NODE)]},
    "memory": {"nodes": [memory_of(NODE, None)]},
    "runtimes": {
        "runtimes": [
            {"node": "n1", "model": "tiny", "state": "ready", "kv_tokens": 7, "load_s": 16.05356}
        ]
    },
    "observability": {"totals": {"started": 3}, "requests": []},
}


class Gateway(BaseHTTPRequestHandler):
    """Answers with what is written above."""

    def do_GET(self) -> None:
        """Find the answer by the last part of the path."""
        odd = self.path.startswith("/odd/")
        found = None if odd else ANSWERS.get(self.path.rpartition("/")[2])
        body = msgspec.json.encode({"data": found} if found else {"data": 1})
        status = {"shut": 401, "bare": 404}.get(self.path.split("/")[1], 200)
        refusal = {"error": {"message": REASONS["not_found"].meaning}}
        self.send_response(status)
        self.end_headers()
        self.wfile.write(msgspec.json.encode(refusal) if status == 404 else body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    """Where such a gateway listens."""
    server = HTTPServer(("127.0.0.1", 0), Gateway)
    thread = Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize(
    ("action", "words"),
    [
        ("info", ["service          roost", "backends         llama", "max_page_size 100"]),
        ("capabilities", ["n1 (alive)", "generation.chat                      supported"]),
        ("memory", ["n1: normal pressure, unknown memory", "2.0 MB in all, 1.0 MB free"]),
        ("list", ["n1  tiny  -  ready  7  16.054  -"]),
        ("requests", ["totals     started 3", "no request is known there"]),
    ],
)
def test_each_view_is_told_in_lines(
    action: str, words: list[str], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is not known is a dash or the word for it, and nothing reaches the terminal raw."""
    assert main.run(["runtime", action, "--url", url]) == 0
    told = capsys.readouterr().out
    assert all(word in told for word in words)
    assert "\x1b" not in told
    assert main.run(["runtime", action, "--url", url, "--json"]) == 0
    assert "data" in json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    "verb",
    [
        ("runtime", "info"),
        ("models", "load", "tiny"),
        ("pull", "hf:org/tiny", "--node", "all"),
    ],
)
def test_an_answer_of_another_kind_is_said_to_be_one(
    verb: tuple[str, ...], url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gateway of another release, or no roost at all."""
    # Under another base the handler knows no answer for what is asked.
    assert main.run([*verb, "--url", url + "/odd"]) == 1
    assert "is it of another version?" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["", "a..b", "x" * 64])
def test_an_address_that_can_have_nobody_is_refused(
    host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong `--url` says what a right one looks like."""
    assert main.run(["runtime", "info", "--url", f"http://{host}"]) == 2
    assert "--url needs http://HOST:PORT" in capsys.readouterr().err


def test_a_missing_key_is_said_with_where_to_put_it(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A header is of no use to who types a verb."""
    assert main.run(["runtime", "info", "--url", url + "/shut"]) == 2
    assert "Here that is ROOST_API_KEY or --api-key." in capsys.readouterr().err


def test_a_gateway_that_lacks_a_view_is_said_to(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One in front of other servers knows no runtimes; its 404 alone would not say so."""
    assert main.run(["runtime", "list", "--url", url + "/bare"]) == 2
    assert "A gateway with --upstream" in capsys.readouterr().err
