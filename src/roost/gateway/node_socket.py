"""SHELL: the gateway's end of a node's WebSocket: ASGI messages to link messages and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.errors import fail
from roost.wire.codec import decode_from_node, encode

if TYPE_CHECKING:
    from roost.gateway.front.asgi import Receive, Send
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
        """Complete the upgrade."""
        await self._receive()
        await self._send({"type": "websocket.accept"})

    async def send(self, message: FromGateway) -> None:
        """Send one message; `node_lost` once the socket is gone."""
        if self._closed:
            raise fail("node_lost", "the link is closed")
        await self._send({"type": "websocket.send", "bytes": encode(message, self._max_bytes)})

    async def receive(self) -> FromNode | None:
        """Wait for the next message; None once the node has gone."""
        if self._closed:
            return None
        message = await self._receive()
        frame = message.get("bytes")
        if message["type"] != "websocket.receive":
            self._closed = True
            return None
        if frame is None:
            raise fail("bad_request", "a link carries binary frames only")
        return decode_from_node(frame, self._max_bytes)

    async def close(self) -> None:
        """Close the socket; idempotent."""
        if not self._closed:
            self._closed = True
            await self._send({"type": "websocket.close", "code": NORMAL_CLOSURE})
