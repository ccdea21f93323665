"""What anybody can do to a WebSocket is no unformatted line on stderr."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from roost.gateway.assemble import open_gateway
from roost.gateway.front.asgi import Receive, Scope, Send
from roost.gateway.front.foreign_logs import quieten
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.front.server import open_front
from roost.observe import logs
from tests.conftest import Eventually
from tests.gateway.conftest import SETTINGS
from tests.gateway.front.test_websocket import deaf, dial, open_link, token

Capture = pytest.CaptureFixture[str]


def notes(capture: Capture) -> list[dict[str, object]]:
    """Read stderr, of which every line has to be one of ours."""
    return [json.loads(line) for line in capture.readouterr().err.splitlines()]


async def raw(port: int, *lines: str) -> bytes:
    """Send a head of these lines and read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write("\r\n".join([*lines, "", ""]).encode())
    async with asyncio.timeout(5):
        answer = await reader.read(-1)
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("host", "key", "status"),
    [("localhost", "", 401), ("evil.example", "join", 403), ("localhost", "join", 403)],
)
async def test_a_refused_handshake_is_a_whole_reply_and_no_complaint(
    host: str, key: str, status: int, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a token, under a wrong Host and at a wrong path: one reply, and nothing logged."""
    logs.configure("debug", "json")
    gateway = await open_gateway(SETTINGS, admit=token)
    assert gateway.front is not None
    url, keys = f"ws://{host}:{gateway.front.port}/", {"Authorization": f"Bearer {key}"}
    try:
        with pytest.raises(InvalidStatus) as refused:
            async with connect(url, host="127.0.0.1", additional_headers=keys, proxy=None):
                raise AssertionError("must not connect")
    finally:
        await gateway.close(0)
    assert refused.value.response.status_code == status
    assert {note["event"] for note in notes(capsys)} <= {"listening"}
    assert caplog.records == []


async def test_closing_cancels_a_link_without_a_traceback(
    capsys: Capture, caplog: pytest.LogCaptureFixture, eventually: Eventually
) -> None:
    """A handler that waits for ever is cancelled by the close, and that is nobody's defect."""
    logs.configure("debug", "json")
    front = await open_link(deaf)
    async with dial(front, Authorization="Bearer join") as link:
        await eventually(lambda: front.connections == 1)
        await front.close(0)
        with pytest.raises(ConnectionClosed):
            await link.recv()
    assert notes(capsys) == []
    assert caplog.records == []


async def silent(scope: Scope, receive: Receive, send: Send) -> None:
    """Return without a word."""


@pytest.mark.parametrize(
    ("key", "start", "said"),
    [("dGhlIHNhbXBsZSBub25jZQ==", b"HTTP/1.1 500 ", 1), ("secret", b"HTTP/1.1 400 ", 0)],
)
async def test_what_the_library_says_is_a_debug_line(
    key: str, start: bytes, said: int, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    """An unanswered or broken handshake is at most a line of ours, with nothing of the client's."""
    logs.configure("debug", "json")
    front = await open_front(silent, Listener(port=0), FrontLimits())
    head = ("GET /secret HTTP/1.1", "Host: localhost", "Connection: Upgrade")
    offer = ("Upgrade: websocket", "Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {key}")
    answer = await raw(front.port, *head, *offer)
    await front.close(0)
    assert answer.startswith(start)
    seen = notes(capsys)
    assert [(note["event"], note["level"]) for note in seen] == [("websocket_note", "debug")] * said
    assert "secret" not in str(seen)
    assert caplog.records == []


def test_a_traceback_becomes_the_name_of_its_error(capsys: Capture) -> None:
    """Arguments and messages of errors stay out of the line: they may quote a peer."""
    quieten(["roost-test-of-a-library"])
    logger = logging.getLogger("roost-test-of-a-library")
    logs.configure("debug", "json")
    try:
        raise ValueError("secret")
    except ValueError:
        logger.exception("handshake of %s failed\n", "secret")
    logger.info("no more than noise")
    (note,) = notes(capsys)
    assert (note["note"], note["error"]) == ("handshake of %s failed", "ValueError")
    assert (note["severity"], note["level"]) == ("error", "debug")
    assert "secret" not in str(note)
