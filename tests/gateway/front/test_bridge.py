"""The ASGI side of an exchange, with a connection that is a list."""

from __future__ import annotations

import asyncio

import pytest

from roost.core.ids import RequestId
from roost.errors import Failure
from roost.gateway.front.asgi import Receive, Scope, Send
from roost.gateway.front.bridge import Bridge
from roost.gateway.front.exchange import Exchange
from roost.gateway.front.heads import Head
from roost.gateway.front.shared import openai_errors


class Wire:
    """A connection that keeps what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.blocked = self.ending = False
        self.broken: bool | None = None
        self.common = b""
        self.local = self.remote = "127.0.0.1"
        self.errors = openai_errors

    def put(self, data: bytes) -> None:
        """Keep it."""
        self.written.append(data)

    def on_reply_done(self, exchange: Exchange, *, broken: bool) -> None:
        """Note how it ended."""
        self.broken = broken

    def on_body_dropped(self, count: int) -> None:
        """Nothing is counted here."""

    def on_defect(self, exchange: Exchange, error: Exception) -> None:
        """Raise it, as the test's own."""
        raise error


def exchange_of(wire: Wire, method: str = "POST", version: str = "1.1") -> Exchange:
    """Build an exchange whose request is not complete."""
    head = Head(method, b"/x?y=%20", version, [(b"host", b"h")], {b"host": b"h"})
    return Exchange(wire, head, RequestId("0" * 32))


async def test_body_comes_in_pieces() -> None:
    """Pieces come as they arrive; the last one says so, also when it is empty."""
    exchange = exchange_of(Wire())
    bridge = Bridge(exchange)
    exchange.add_body(b"ab")
    exchange.add_body(b"c")
    assert await bridge.receive() == {"type": "http.request", "body": b"abc", "more_body": True}
    waiting = asyncio.ensure_future(bridge.receive())
    await asyncio.sleep(0)
    assert not waiting.done()
    exchange.on_complete()
    assert await waiting == {"type": "http.request", "body": b"", "more_body": False}
    waiting = asyncio.ensure_future(bridge.receive())
    await asyncio.sleep(0)
    exchange.on_gone()
    assert await waiting == {"type": "http.disconnect"}
    assert exchange.gone


async def test_send_waits_on_a_connection_that_was_blocked_before() -> None:
    """A reply on a connection that is already full waits, though nobody says again that it is."""
    wire = Wire()
    wire.blocked = True
    exchange = exchange_of(wire)
    bridge = Bridge(exchange)
    await bridge.send({"type": "http.response.start", "status": 200, "headers": []})
    sending = asyncio.ensure_future(
        bridge.send({"type": "http.response.body", "body": b"x", "more_body": True})
    )
    await asyncio.sleep(0)
    assert not sending.done()
    wire.blocked = False
    bridge.on_writable()
    await sending
    assert wire.written[0].endswith(b"\r\n\r\n1\r\nx\r\n")


async def test_send_ends_when_the_client_leaves() -> None:
    """Who waits for a reader is woken when the reader leaves, and later sends do nothing."""
    wire = Wire()
    wire.blocked = True
    exchange = exchange_of(wire)
    bridge = Bridge(exchange)
    await bridge.send({"type": "http.response.start", "status": 200, "headers": []})
    sending = asyncio.ensure_future(
        bridge.send({"type": "http.response.body", "body": b"x", "more_body": True})
    )
    await asyncio.sleep(0)
    exchange.on_gone()
    await sending
    before = list(wire.written)
    await bridge.send({"type": "http.response.body", "body": b"y"})
    assert wire.written == before


async def test_header_with_a_line_end_is_refused() -> None:
    """A value that would begin another header is a defect of the application, not of the wire."""
    wire = Wire()
    bridge = Bridge(exchange_of(wire))
    with pytest.raises(ValueError, match="line end"):
        await bridge.send(
            {"type": "http.response.start", "status": 200, "headers": [(b"x", b"a\r\nb: c")]}
        )
    assert wire.written == []


async def test_wrong_length_breaks_the_connection() -> None:
    """A body shorter than announced must not be followed by another reply."""
    wire = Wire()
    exchange = exchange_of(wire)
    exchange.start(200, [], length=5)
    exchange.finish(b"abc")
    assert wire.broken is True


async def test_application_that_forgets_to_answer() -> None:
    """It is answered for: 500, once."""

    async def forgetful(scope: Scope, receive: Receive, send: Send) -> None:
        """Return without a word."""

    wire = Wire()
    await Bridge(exchange_of(wire)).run(forgetful, {"type": "http"})
    assert wire.written[0].startswith(b"HTTP/1.1 500 ")


def test_failure_before_the_head_has_left() -> None:
    """A reply that was only planned becomes the failure; one on its way is broken off."""
    wire = Wire()
    exchange = exchange_of(wire)
    exchange.start(200, [])
    exchange.fail(Failure("upstream_error", "Lost."))
    assert wire.written[0].startswith(b"HTTP/1.1 502 ")
    assert b"content-length" in wire.written[0]
    assert wire.broken is False
    begun = exchange_of(wire)
    begun.start(200, [])
    begun.write(b"x")
    begun.fail(Failure("upstream_error", "Lost."))
    assert wire.broken is True
    assert len(wire.written) == 2


@pytest.mark.parametrize("status", [204, 304])
async def test_bodiless_statuses(status: int) -> None:
    """No length and no body where there must be none."""
    wire = Wire()
    exchange_of(wire).reply(status, [], b"")
    assert b"content-length" not in wire.written[0]
    assert wire.written[0].endswith(b"\r\n\r\n")


def test_paths_are_decoded() -> None:
    """The path is decoded, the raw one and the query are as sent."""
    exchange = exchange_of(Wire())
    assert (exchange.path, exchange.raw_path, exchange.query) == ("/x", b"/x", b"y=%20")
    exchange.start(200, [])
    with pytest.raises(RuntimeError, match="starts once"):
        exchange.start(200, [])
