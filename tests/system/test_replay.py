"""Answers whose machine dies, in real processes: another one goes on with them, exactly."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import msgspec
import psutil
import pytest
from openai import OpenAI
from openai.types.chat import ChatCompletionChunk

from roost.store.home import Home
from roost.store.models.registry import ModelStore
from tests.smollm2 import smollm2_path
from tests.system.conftest import MODEL, Start
from tests.system.processes import Roost, fetch, wait

pytestmark = pytest.mark.slow
REAL = "smollm2-135m-instruct"
REPLAY = {"x-roost-on-loss": "replay"}
Client = Callable[[str], OpenAI]


class Fleet:
    """A gateway and two nodes over one ROOST_HOME."""

    def __init__(self, start: Start, *options: str) -> None:
        self.url = start("gateway", "--port", "0").url()
        token = start("token", "--json")
        assert token.ends() == 0
        self.nodes: dict[str, Roost] = {}
        join = ("node", "--join", self.url, "--token", json.loads(token.output)["token"])
        for _ in range(2):
            node = start(*join, *options, "--slots", "2")
            wait(lambda: len(self.listed()) > len(self.nodes), "the node is listed")
            (name,) = self.listed() - set(self.nodes)
            self.nodes[name] = node

    def listed(self) -> set[str]:
        """Name the nodes that are alive and have said what they have."""
        nodes = msgspec.json.decode(fetch(self.url, "/roost/v1/fleet"))["nodes"]
        return {n["id"] for n in nodes if n["state"] == "alive" and n["models"]}

    def at_rest(self) -> bool:
        """Whether nothing is leased, runs or waits."""
        counts = msgspec.json.decode(fetch(self.url, "/roost/v1/fleet"))["statistics"]
        return not (counts["leases"] or counts["running"] or counts["waiting"])

    def receipt(self, reply_id: str) -> dict[str, object]:
        """What became of a request."""
        path = f"/roost/v1/requests/{reply_id.removeprefix('chatcmpl-')}"
        return cast("dict[str, object]", msgspec.json.decode(fetch(self.url, path)))


class Heard:
    """One streamed answer as its client got it; `kill` is called with the node after `after`."""

    def __init__(
        self,
        client: OpenAI,
        asked: dict[str, object],
        kill: Callable[[str], None] | None = None,
        after: int = 0,
    ) -> None:
        reply = client.chat.completions.with_raw_response.create(
            **asked,  # type: ignore[call-overload]
            stream=True,
            stream_options={"include_usage": True},
            extra_headers=REPLAY,
        )
        self.first_node = str(reply.headers["x-roost-node"])
        self.chunks: list[ChatCompletionChunk] = []
        self.texts: list[str] = []
        for chunk in cast("Iterator[ChatCompletionChunk]", reply.parse()):
            self.chunks.append(chunk)
            if chunk.choices and chunk.choices[0].delta.content:
                self.texts.append(chunk.choices[0].delta.content)
            if kill is not None and len(self.texts) == after:
                kill(self.first_node)
                kill = None
        assert kill is None, f"it was over after {len(self.texts)} pieces"

    @property
    def text(self) -> str:
        """The whole answer."""
        return "".join(self.texts)

    @property
    def facts(self) -> dict[str, object]:
        """What the last chunk says of how it was served."""
        return cast("dict[str, object]", (self.chunks[-1].model_extra or {})["roost"])

    @property
    def counts(self) -> tuple[int, int]:
        """Tokens of the prompt and of the answer."""
        usage = self.chunks[-1].usage
        assert usage is not None
        return usage.prompt_tokens, usage.completion_tokens


def test_a_node_killed_in_mid_stream_is_gone_on_with(start: Start, openai: Client) -> None:
    """Kill -9 of a whole node: the client's text is whole, and it is told that there was a seam."""
    fleet = Fleet(start, "--backend", "scripted", "--ctx", "32768")
    pieces = [f"w{n} ü " for n in range(150)]
    script = "@script " + json.dumps({"pieces": pieces, "delay_ms": 20})
    asked: dict[str, object] = {"model": MODEL, "messages": [{"role": "user", "content": script}]}
    heard = Heard(
        openai(fleet.url), asked, lambda node: fleet.nodes[node].signal(signal.SIGKILL), after=15
    )
    assert heard.text == "".join(pieces)
    assert heard.facts["replayed_after"] == "node_lost"
    assert heard.facts["node"] != heard.first_node
    assert heard.counts[1] == len("".join(pieces).encode())
    attempts = cast("list[dict[str, int]]", fleet.receipt(heard.chunks[0].id)["attempts"])
    assert [one["resumes_at"] for one in attempts] == [0, heard.facts["replayed_at"]]
    wait(fleet.at_rest, "nothing is left of it")


def test_a_node_that_is_told_to_end_hands_its_answers_over(start: Start, openai: Client) -> None:
    """TERM, and a grace that is too short for an answer: somebody else says the rest of it."""
    fleet = Fleet(start, "--backend", "scripted", "--ctx", "32768", "--drain-grace-s", "0.2")
    pieces = [f"w{n} " for n in range(150)]
    script = "@script " + json.dumps({"pieces": pieces, "delay_ms": 20})
    asked: dict[str, object] = {"model": MODEL, "messages": [{"role": "user", "content": script}]}
    heard = Heard(
        openai(fleet.url), asked, lambda node: fleet.nodes[node].signal(signal.SIGTERM), after=5
    )
    assert heard.text == "".join(pieces)
    assert heard.facts["replayed_after"] in {"draining", "node_lost"}
    wait(fleet.at_rest, "nothing is left of it")


@pytest.fixture
def real(tmp_path: Path) -> Iterator[Start]:
    """Start `roost` over a home with the real model."""
    home = tmp_path / "real"
    ModelStore(Home.open(home)).add_file(smollm2_path(), link=True)
    with ExitStack() as running:
        logs = iter(range(9))
        yield lambda *arguments: running.enter_context(
            Roost(tmp_path / f"real-{next(logs)}.log", *arguments, home=home)
        )


@pytest.mark.engine
@pytest.mark.long
@pytest.mark.timeout(200)
def test_a_greedy_answer_of_a_real_model_is_the_one_of_an_unfailed_run(
    real: Start, openai: Client
) -> None:
    """Kill -9 of a llama.cpp server in mid-decode: text, counts and ending as if nothing was."""
    fleet = Fleet(real, "--ctx", "1024", "--threads", "1")
    client = openai(fleet.url)
    asked: dict[str, object] = {
        "model": REAL,
        "messages": [{"role": "user", "content": "Tell a story about a lighthouse in a storm."}],
        "temperature": 0.0,
        "max_tokens": 96,
        "stop": ["\n\nThe end"],
    }
    unfailed = Heard(client, asked)
    assert len(unfailed.texts) > 60
    for after in (7, 40):
        heard = Heard(client, asked, lambda node: kill_server(fleet.nodes[node]), after)
        assert heard.text == unfailed.text
        assert heard.counts == unfailed.counts
        assert heard.facts["replayed_after"] == "runtime_died"
        assert cast("int", heard.facts["replayed_at"]) >= after
        wait(fleet.at_rest, "nothing is left of it")


def kill_server(node: Roost) -> None:
    """Kill -9 the model's process of a node."""
    found = [one for one in node.descendants() if "llama.child" in " ".join(one.cmdline())]
    assert found
    for process in found:
        process.kill()
    psutil.wait_procs(found, 5)
