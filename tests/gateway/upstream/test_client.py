"""Connections to servers, close up: what is asked on one that is gone or not done yet."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from roost.gateway.front.rendering import Headers
from roost.gateway.loop import run
from roost.gateway.upstream.client import ClientLimits, ConnectionPool, UpstreamConnection
from roost.gateway.upstream.probe import ask_models, probe
from roost.gateway.upstream.servers import Server
from roost.gateway.upstream.targets import Target
from tests.conftest import until
from tests.gateway.upstream.conftest import BODY, FakeServer, whole


@dataclass
class Heard:
    """A taker that notes what it is told."""

    status: int = 0
    body: bytes = b""
    ended: bool = False
    lost: list[tuple[bool, bool]] = field(default_factory=list)

    def on_answer(self, status: int, headers: Headers) -> None:
        """Note the status."""
        self.status = status

    def on_piece(self, data: bytes, *, last: bool, framed: bool) -> None:
        """Collect the body."""
        self.body += data
        self.ended = self.ended or last

    def on_lost(self, *, any_byte: bool, reused: bool) -> None:
        """Note the loss."""
        self.lost.append((any_byte, reused))


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[ConnectionPool, UpstreamConnection, socket.socket]]:
    """Open a connection of a pool; the server's end is a bare socket that never reads by itself."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        pool = ConnectionPool(Target("s", "127.0.0.1", port), ClientLimits())
        connection = await pool.open()
        server, _ = listener.accept()
        with server:
            yield pool, connection, server
        pool.close()


async def asked_too_late() -> None:
    """Ask on a connection that the server has closed in the moment it was opened."""
    async with connected() as (pool, connection, server):
        server.close()
        await until(lambda: not connection.usable)
        heard = Heard()
        connection.ask(b"GET / HTTP/1.1\r\n\r\n", heard)
        await until(lambda: heard.lost == [(False, False)])
        assert pool.open_connections == 0


async def test_what_is_asked_too_late_is_told_to_be_lost() -> None:
    """Nobody waits for an answer on a connection that was gone before it was asked."""
    await asked_too_late()


def test_the_same_on_the_loop_that_serves() -> None:
    """Transports of other loops raise where asyncio's are silent; the taker hears the same."""
    run(asked_too_late())


@pytest.mark.parametrize("size", [10, 20_000_000])
async def test_only_what_has_been_sent_whole_is_kept(size: int) -> None:
    """A server that answers before it has read everything is not asked again there."""
    async with connected() as (pool, connection, server):
        heard = Heard()
        connection.ask(b"x" * size, heard)
        await asyncio.get_running_loop().sock_sendall(server, whole())
        await until(lambda: heard.ended)
        assert (heard.status, heard.body, heard.lost) == (200, BODY, [])
        assert (pool.take() is connection) is (size == 10)


async def test_what_is_asked_once_leaves_no_connection() -> None:
    """Whoever asks once may close the connection late, and closes nobody else's."""
    async with connected() as (pool, connection, server):
        heard = Heard()
        connection.ask(b"GET / HTTP/1.1\r\n\r\n", heard, once=True)
        await asyncio.get_running_loop().sock_sendall(server, whole())
        await until(lambda: heard.ended)
        assert heard.body == BODY
        assert pool.take() is None
        assert pool.open_connections == 0


async def test_what_follows_an_answer_is_nobodys() -> None:
    """A second answer in the same read reaches neither this client nor the next."""
    async with connected() as (pool, connection, server):
        heard = Heard()
        connection.ask(b"GET / HTTP/1.1\r\n\r\n", heard)
        await asyncio.get_running_loop().sock_sendall(server, whole() + whole(b"not asked for"))
        await until(lambda: heard.ended)
        assert heard.body == BODY
        assert pool.take() is None


async def test_a_probe_keeps_no_connection() -> None:
    """What a probe has used, and closes later, is never in the hands of a request meanwhile."""
    fake = FakeServer(models=("m",))
    await fake.start()
    server = Server(Target("s", "127.0.0.1", fake.port), ClientLimits())
    assert await probe(server, "", 2.0)
    listed = (await ask_models(server, 2.0)).listed
    assert listed is not None
    assert [one.id for one in listed] == ["m"]
    assert server.connections.take() is None
    await fake.kill()
