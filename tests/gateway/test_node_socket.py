"""The gateway's end of a link's socket: what the ASGI server raises, and peers that do not read."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import psutil
import pytest

from roost.errors import Failure, RoostError
from roost.gateway.front.asgi import Receive, Received, Scope, Send, Sent
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.front.server import Front, open_front
from roost.gateway.node_socket import SocketConnection
from roost.wire.codec import encode
from roost.wire.messages import Goodbye, Ping
from tests.children import settled_descriptors
from tests.conftest import Eventually

BIG = Goodbye(Failure("draining", "x" * 100_000), again=True)
MAX_BYTES = 1_000_000
UPGRADE = (
    b"GET /link HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


class ClientLeftError(OSError):
    """What an ASGI server raises for a client that has left."""


@pytest.mark.parametrize(
    "error", [ClientLeftError(), ConnectionResetError(), RuntimeError("after sending close")]
)
async def test_what_the_server_raises_is_a_lost_node(error: Exception) -> None:
    """Sending to a socket that is gone is `node_lost`, whatever it is called; closing is silent."""

    async def receive() -> Received:
        return {"type": "websocket.connect"}

    async def send(message: Sent) -> None:
        raise error

    for call in ("accept", "send"):
        connection = SocketConnection(receive, send, MAX_BYTES)
        with pytest.raises(RoostError) as lost:
            await (connection.accept() if call == "accept" else connection.send(BIG))
        assert lost.value.failure.reason == "node_lost"
        await connection.close()
        assert await connection.receive() is None
    await SocketConnection(receive, send, MAX_BYTES).close()


async def test_what_only_a_newer_node_says_is_passed_over() -> None:
    """The message behind it is the next one that is heard, and then the node has gone."""
    strange = msgspec.msgpack.encode({"type": "telepathy", "seq": 1})
    frames = [strange, strange, encode(Ping(7))]

    async def receive() -> Received:
        if frames:
            return {"type": "websocket.receive", "bytes": frames.pop(0)}
        return {"type": "websocket.disconnect"}

    async def send(message: Sent) -> None:
        raise AssertionError("nothing is said")

    connection = SocketConnection(receive, send, MAX_BYTES)
    assert await connection.receive() == Ping(7)
    assert await connection.receive() is None


@dataclass
class Gateway:
    """An application whose WebSockets are links; `made` are its ends, `ended` counts handlers."""

    made: list[SocketConnection] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    leave: asyncio.Event = field(default_factory=asyncio.Event)
    ended: int = 0

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send until the peer does not take any more; close when told so."""
        connection = SocketConnection(receive, send, MAX_BYTES)
        await connection.accept()
        self.made.append(connection)
        flooding = asyncio.ensure_future(self._flood(connection))
        await self.leave.wait()
        await connection.close()
        await flooding
        self.ended += 1

    async def _flood(self, connection: SocketConnection) -> None:
        try:
            while True:
                await connection.send(BIG)
        except RoostError as error:
            self.failures.append(error.failure)


@asynccontextmanager
async def opened(limits: FrontLimits) -> AsyncIterator[tuple[Gateway, Front]]:
    """Open a front for links."""
    gateway = Gateway()
    front = await open_front(gateway.app, Listener(port=0), limits)
    try:
        yield gateway, front
    finally:
        await front.close(0)


async def deaf_peer(port: int) -> socket.socket:
    """Upgrade by hand with a tiny receive buffer, and read nothing but the reply's first byte."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    peer.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(peer, ("127.0.0.1", port))
    await loop.sock_sendall(peer, UPGRADE)
    assert await loop.sock_recv(peer, 1) == b"H"
    return peer


LIMITS = FrontLimits(
    websocket_close_s=0.1, send_buffer_bytes=4096, write_buffer_bytes=4096, sweep_s=0.02
)


async def test_closing_a_peer_that_does_not_read_ends(eventually: Eventually) -> None:
    """The close returns, what was being sent fails, and neither task nor descriptor is left."""
    async with opened(LIMITS) as (gateway, front):
        before, tasks = settled_descriptors(), len(asyncio.all_tasks())
        peer = await deaf_peer(front.port)
        await eventually(lambda: bool(gateway.made))
        assert front.connections == 1
        gateway.leave.set()
        await eventually(lambda: gateway.ended == 1, within_s=2)
        await eventually(lambda: front.connections == 0, within_s=2)
        assert [failure.reason for failure in gateway.failures] == ["node_lost"]
        peer.close()
        assert psutil.Process().num_fds() == before
        assert len(asyncio.all_tasks()) == tasks


async def test_closing_the_front_ends_a_peer_that_does_not_read(eventually: Eventually) -> None:
    """The whole front ends in time, whatever its peers do."""
    before = settled_descriptors()
    async with opened(LIMITS) as (gateway, front):
        peer = await deaf_peer(front.port)
        await eventually(lambda: bool(gateway.made))
        gateway.leave.set()
        async with asyncio.timeout(2):
            await front.close(0)
        assert front.connections == 0
        peer.close()
    await asyncio.sleep(0)
    assert psutil.Process().num_fds() == before


async def test_a_peer_that_leaves_ends_a_send(eventually: Eventually) -> None:
    """A node that dies while it is sent to is `node_lost` and nothing else."""
    async with opened(LIMITS) as (gateway, front):
        peer = await deaf_peer(front.port)
        await eventually(lambda: bool(gateway.made))
        peer.close()
        await eventually(lambda: bool(gateway.failures))
        assert gateway.failures[0].reason == "node_lost"
        gateway.leave.set()
        await eventually(lambda: gateway.ended == 1)
        assert front.connections == 0
