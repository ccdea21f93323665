"""Every request of `recorded/`, as its client sent it, is answered in the shape of its API.

The files hold what seventeen real clients sent, one version of each, with long texts shortened; the
rules below are what those clients need of an answer.
"""

from __future__ import annotations

import json
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.clients.conftest import KEY, Live

pytestmark = pytest.mark.clients
FOLDER = Path(__file__).parent / "recorded"


class Sent(msgspec.Struct, frozen=True):
    """One request as it was on the wire."""

    name: str
    method: str
    target: str
    headers: list[tuple[str, str]]
    body: dict[str, object] | None = None


class _File(msgspec.Struct, frozen=True):
    client: str
    version: str
    requests: list[Sent]


def recorded() -> list[tuple[str, Sent]]:
    """List all requests, each with the name of its client."""
    files = [msgspec.json.decode(p.read_bytes(), type=_File) for p in sorted(FOLDER.glob("*.json"))]
    return [(f"{one.client} {one.version}", sent) for one in files for sent in one.requests]


ALL = recorded()


def ask(live: Live, sent: Sent) -> tuple[int, str, str]:
    """Send it with its own headers; return status, content type and body."""
    body = None
    if sent.body is not None:
        body = json.dumps({**sent.body, **({"model": live.model} if "model" in sent.body else {})})
    parts = urlsplit(live.url)
    with closing(HTTPConnection(parts.hostname or "", parts.port, timeout=30)) as connection:
        connection.putrequest(sent.method, sent.target, skip_accept_encoding=True)
        for name, value in sent.headers:
            connection.putheader(name, value.replace("KEY", KEY))
        if not any(name.lower() in {"authorization", "x-api-key"} for name, _ in sent.headers):
            connection.putheader("x-api-key", KEY)
        connection.putheader("Content-Length", str(len((body or "").encode())))
        connection.endheaders((body or "").encode())
        reply = connection.getresponse()
        return reply.status, reply.getheader("content-type", ""), reply.read().decode()


def check_stream(target: str, text: str) -> None:
    """Check that a stream has the marks by which its clients know its end."""
    if "/messages" in target:
        assert text.startswith("event: message_start\n")
        assert text.endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
    elif "/responses" in target:
        assert text.startswith("event: response.created\n")
        assert text.rstrip().splitlines()[-2] == "event: response.completed"
    else:
        assert text.endswith("data: [DONE]\n\n")
        chunks = [line[6:] for line in text.splitlines() if line.startswith("data: {")]
        assert any('"finish_reason":"' in chunk for chunk in chunks)


def check_body(target: str, body: dict[str, object]) -> None:
    """Check that a whole answer is in the shape of its API."""
    if "count_tokens" in target:
        assert body["input_tokens"]
    elif "/messages" in target:
        assert (body["type"], body["role"]) == ("message", "assistant")
    elif "/responses" in target:
        assert (body["object"], body["status"]) == ("response", "completed")
    elif "/chat/completions" in target:
        assert body["object"] == "chat.completion"
    elif "/completions" in target:
        assert body["object"] == "text_completion"
    elif target.startswith("/v1/models"):
        assert body["object"] in {"list", "model"}


@pytest.mark.parametrize(("client", "sent"), ALL, ids=[f"{c} {s.name}" for c, s in ALL])
def test_a_recorded_request_is_answered(client: str, sent: Sent, scripted: Live) -> None:
    """With 200 and a whole answer, or one of the few refusals that its client can deal with."""
    status, kind, text = ask(scripted, sent)
    target, asked = sent.target, sent.body or {}
    if "org%2F" in target:
        assert (status, json.loads(text)["error"]["code"]) == (404, "model_not_found")
        return
    if "/embeddings" in target:
        # The model that answers here makes no vectors, and says so.
        assert (status, json.loads(text)["error"]["type"]) == (400, "invalid_request_error")
        return
    if status == 400:
        assert target.endswith("/v1/completions"), text
        assert json.loads(text)["error"]["param"] in {"best_of", "echo", "logprobs", "n"}
        return
    if asked.get("tool_choice") in ("required", {"type": "any"}) and status == 502:
        assert "bad_tool_call" in text or "api_error" in text
        return
    assert status in range(200, 300), f"{client}: {text}"
    if sent.method == "HEAD":
        return
    if asked.get("stream"):
        assert kind.startswith(("text/event-stream", "application/x-ndjson"))
        if kind.startswith("text/event-stream"):
            check_stream(target, text)
    else:
        assert kind.startswith("application/json")
        check_body(target, json.loads(text))


def test_there_are_as_many_as_were_recorded() -> None:
    """Seventeen files, and nobody has left one out."""
    assert len(list(FOLDER.glob("*.json"))) == 17
    assert len(ALL) == 68
