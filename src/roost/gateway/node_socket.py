"""SHELL: the gateway's end of a node's WebSocket: ASGI messages to link messages and back."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from roost.errors import RoostError, fail
from roost.wire.codec import UnknownKindError, decode_from_node, encode

if TYPE_CHECKING:
    from roost.gateway.front.asgi import Receive, Send, Sent
    from roost.wire.messages import FromGateway, FromNode

NORMAL_CLOSURE = 1000


class SocketConnection:
    """A `wire.memory.Connection` over an accepted WebSocket; binary frames, one message each."""

    def __init__(self, receive: Receive, send: Send, max_bytes: int) -> None:
        self._receive = receive
        self._send = send
        self._max_bytes = max_bytes
        self._closed = False

    async def accept(self) -> None:
        """Complete the upgrade; `node_lost` where the node has left already."""
        await self._receive()
        await self._put({"type": "websocket.accept"})

    async def send(self, message: FromGateway, frame: bytes | None = None) -> None:
        """Send one message; `node_lost` once the socket is gone."""
        if self._closed:
            raise fail("node_lost", "the link is closed")
        frame = frame or encode(message, self._max_bytes)
        await self._put({"type": "websocket.send", "bytes": frame})

    async def receive(self) -> FromNode | None:
        """Wait for the next message; None once the node has gone."""
        while not self._closed:
            message = await self._receive()
            frame = message.get("bytes")
            if message["type"] != "websocket.receive":
                self._closed = True
                return None
            if frame is None:
                raise fail("bad_request", "a link carries binary frames only")
            try:
                return decode_from_node(frame, self._max_bytes)
            except UnknownKindError:
                continue  # only a newer release says that
        return None

    async def close(self) -> None:
        """Close the socket; idempotent.

        A node that has stopped reading cannot hold this up: the front cuts its connection off after
        `FrontLimits.websocket_close_s`, and what was being sent then fails.
        """
        if not self._closed:
            self._closed = True
            with suppress(RoostError):
                await self._put({"type": "websocket.close", "code": NORMAL_CLOSURE})

    async def _put(self, message: Sent) -> None:
        try:
            await self._send(message)
        except (OSError, RuntimeError) as error:
            # uvicorn says it both ways: the peer has gone, or a close has already been exchanged.
            self._closed = True
            raise fail("node_lost", "the link's socket is gone") from error
