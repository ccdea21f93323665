"""The node's WebSocket against a real server on loopback: greeting, limits, refusals, TLS."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path

import msgspec
import pytest
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from roost.core.ids import NodeId, StreamId
from roost.errors import RoostError
from roost.node.agent import Agent
from roost.node.joining.socket_connection import Address, dial, link_url
from roost.node.loop import LoopSettings, NodeLoop
from roost.observe import logs
from roost.wire.codec import decode_from_node, encode
from roost.wire.memory import GatewayConnection
from roost.wire.messages import (
    LINK_PATH,
    VERSION,
    Cancel,
    FromGateway,
    FromNode,
    Hello,
    Ping,
    Pong,
)
from tests.node.gateway import TestGateway
from tests.node.kit import SETTINGS, offer
from tests.node.tiny import TinyLaunch

HELLO = Hello(VERSION, NodeId("node-1"), "n", "i", "roost")
TOKEN = "secret-token"
Handler = Callable[[ServerConnection], Awaitable[None]]
Eventually = Callable[..., Awaitable[None]]


class ServerSide:
    """A `GatewayConnection` over the server's end of a WebSocket."""

    def __init__(self, socket: ServerConnection) -> None:
        self._socket = socket

    async def send(self, message: FromGateway, frame: bytes | None = None) -> None:
        """Send one message."""
        await self._socket.send(frame or encode(message))

    async def receive(self) -> FromNode | None:
        """Wait for one message; None at the end."""
        try:
            frame = await self._socket.recv()
        except ConnectionClosed:
            return None
        assert isinstance(frame, bytes)
        return decode_from_node(frame)

    async def close(self) -> None:
        """Close the socket."""
        await self._socket.close()


@asynccontextmanager
async def _gateway(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncIterator[Address]:
    """Listen as a gateway does: one path, and a token at the door."""

    def at_the_door(connection: ServerConnection, request: Request) -> Response | None:
        if request.path != LINK_PATH:
            return connection.respond(HTTPStatus.NOT_FOUND, "")
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return connection.respond(HTTPStatus.UNAUTHORIZED, "")
        return None

    server: Server
    async with serve(handler, "127.0.0.1", 0, process_request=at_the_door, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        scheme, host = ("https", "localhost") if tls else ("http", "127.0.0.1")
        yield Address(f"{scheme}://{host}:{port}", TOKEN)


async def _echo(socket: ServerConnection) -> None:
    async for frame in socket:
        assert isinstance(frame, bytes)
        message = decode_from_node(frame)
        assert isinstance(message, Ping)
        await socket.send(encode(Pong(message.seq)))


@pytest.mark.parametrize(
    ("join", "url"),
    [
        ("http://127.0.0.1:7878", "ws://127.0.0.1:7878/roost/v1/link"),
        ("https://llm.example/", "wss://llm.example/roost/v1/link"),
        ("https://llm.example/base/", "wss://llm.example/base/roost/v1/link"),
        ("http://[::1]:7878", "ws://[::1]:7878/roost/v1/link"),
    ],
)
def test_a_gateways_address_becomes_its_links(join: str, url: str) -> None:
    """HTTP becomes WebSocket, a base path stays."""
    assert link_url(join) == url


@pytest.mark.parametrize(
    "join",
    [
        *("", "127.0.0.1:7878", "ftp://h", "http://", "http://:80", "http://h:port", "http://h:0"),
        *("http://h:70000", "http://[::1", "http://h?x=1", "http://h#x", "ws://h"),
        *("http://a..b", f"http://{'x' * 64}"),
    ],
)
def test_what_is_no_address_is_refused(join: str) -> None:
    """A wrong `--join` says what a right one looks like."""
    with pytest.raises(RoostError) as caught:
        link_url(join)
    assert caught.value.failure.reason == "bad_request"
    assert "http://HOST:PORT" in caught.value.failure.message


async def test_messages_travel_both_ways_and_a_close_is_seen() -> None:
    """Each frame is a message; after the close sending fails and receiving ends."""
    async with _gateway(_echo) as address:
        connection = await dial(address)
        await connection.send(Ping(7))
        assert await connection.receive() == Pong(7)
        await connection.close()
        await connection.close()
        assert await connection.receive() is None
        with pytest.raises(RoostError) as caught:
            await connection.send(Ping(8))
        assert caught.value.failure.reason == "node_lost"


async def test_what_is_no_message_is_a_bad_request() -> None:
    """Text frames and noise are failures, not crashes."""

    async def babble(socket: ServerConnection) -> None:
        await socket.send("text")
        await socket.send(b"\xc1")
        await socket.wait_closed()

    async with _gateway(babble) as address:
        connection = await dial(address)
        for _ in range(2):
            with pytest.raises(RoostError) as caught:
                await connection.receive()
            assert caught.value.failure.reason == "bad_request"
        await connection.close()


async def test_what_only_a_newer_gateway_says_is_passed_over() -> None:
    """The message behind it is the next one that is heard."""

    async def speak(socket: ServerConnection) -> None:
        await socket.send(msgspec.msgpack.encode({"type": "telepathy", "seq": 1}))
        await socket.send(encode(Pong(2)))
        await socket.wait_closed()

    async with _gateway(speak) as address:
        connection = await dial(address)
        assert await connection.receive() == Pong(2)
        await connection.close()


async def test_frames_over_the_limit_are_neither_sent_nor_received() -> None:
    """An oversized frame ends the connection before it is read whole."""

    async def flood(socket: ServerConnection) -> None:
        await socket.send(b"x" * 2048)
        await socket.wait_closed()

    async with _gateway(flood) as address:
        connection = await dial(msgspec.structs.replace(address, message_max_bytes=1024))
        with pytest.raises(RoostError) as caught:
            await connection.send(msgspec.structs.replace(HELLO, name="n" * 2048))
        assert caught.value.failure.reason == "body_too_large"
        assert await connection.receive() is None
        await connection.close()


async def test_refusals_say_what_to_do() -> None:
    """A wrong token, a wrong place and nobody at all are told apart."""
    async with _gateway(_echo) as address:
        wrong = {
            "unauthorized": msgspec.structs.replace(address, token="other"),
            "not_found": msgspec.structs.replace(address, url=address.url + "/base"),
            "bad_request": msgspec.structs.replace(address, url="nowhere"),
        }
        for reason, other in wrong.items():
            with pytest.raises(RoostError) as caught:
                await dial(other)
            assert caught.value.failure.reason == reason
            assert "other" not in caught.value.failure.message
    with pytest.raises(RoostError) as caught:
        await dial(address)
    assert caught.value.failure.reason == "node_lost"


async def test_a_server_in_trouble_is_tried_again_later() -> None:
    """A 502 of a proxy, or a peer that speaks something else, is no reason to give up."""

    async def no_websocket(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(no_websocket, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(RoostError) as caught:
            await dial(Address(f"http://127.0.0.1:{port}", TOKEN))
    assert caught.value.failure.reason == "node_lost"


async def test_a_node_serves_over_a_real_socket(eventually: Eventually) -> None:
    """All of it together: a request is answered, a cancel frees a slot, a stop ends the link."""
    gateways: list[TestGateway] = []

    async def serve_node(socket: ServerConnection) -> None:
        connection: GatewayConnection = ServerSide(socket)
        gateways.append(TestGateway(connection))
        await gateways[0].run()

    launch = TinyLaunch()
    agent = Agent(SETTINGS, [offer()])
    node = NodeLoop(agent, launch, HELLO, LoopSettings(), time.monotonic, logs.get())
    async with _gateway(serve_node) as address, asyncio.TaskGroup() as group:
        group.create_task(node.run())
        serving = group.create_task(node.serve_link(await dial(address)))
        await eventually(lambda: bool(gateways) and gateways[0].is_up.is_set())
        gateway = gateways[0]
        one, two = gateway.ask("grüße aus 東京"), gateway.ask("forever")
        await eventually(lambda: gateway.all_released(one) and len(gateway.events[two]) > 3)
        assert gateway.text(one) == "grüße aus 東京"
        gateway.cancel(two)
        await eventually(lambda: gateway.all_released(two))
        assert launch.busy == 0
        assert await node.stop(1.0)
        await eventually(serving.done)
        assert not serving.result().again
    assert gateway.closed == serving.result()


async def test_a_node_leaves_a_gateway_that_breaks_the_protocol() -> None:
    """The link ends with a failure that says so, and the node would dial again."""

    async def break_it(socket: ServerConnection) -> None:
        await socket.send(encode(Cancel(StreamId(1))))
        await socket.wait_closed()

    agent = Agent(SETTINGS, [offer()])
    node = NodeLoop(agent, TinyLaunch(), HELLO, LoopSettings(), time.monotonic, logs.get())
    async with _gateway(break_it) as address, asyncio.TaskGroup() as group:
        group.create_task(node.run())
        close = await node.serve_link(await dial(address))
        await node.stop(0.0)
    assert (close.failure.reason, close.again) == ("upstream_error", True)


@pytest.mark.slow
async def test_tls_is_verified(tmp_path: Path) -> None:
    """With the right authority the link stands; without it, or with a broken file, it does not."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        f"-subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout {key} -out {cert}"
    )
    made = await asyncio.create_subprocess_exec(*command.split(), stderr=subprocess.DEVNULL)
    assert await made.wait() == 0
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    async with _gateway(_echo, context) as address:
        connection = await dial(msgspec.structs.replace(address, ca_file=str(cert)))
        await connection.send(Ping(1))
        assert await connection.receive() == Pong(1)
        await connection.close()
        for ca_file, reason in {"": "node_lost", str(tmp_path / "none"): "bad_request"}.items():
            with pytest.raises(RoostError) as caught:
                await dial(msgspec.structs.replace(address, ca_file=ca_file))
            assert caught.value.failure.reason == reason


@pytest.mark.parametrize(
    ("scheme", "answer", "meant"),
    [
        ("http", bytes.fromhex("15030300020246"), "is joined with https://"),
        ("https", b"HTTP/1.1 400 Bad Request\r\n\r\n", "plain HTTP with http://"),
    ],
)
async def test_who_joins_with_the_other_scheme_learns_which_to_write(
    scheme: str, answer: bytes, meant: str
) -> None:
    """Where TLS is spoken an alert comes back, where it is not an answer that is no TLS."""

    async def refuse(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(RoostError) as caught:
            await dial(Address(f"{scheme}://127.0.0.1:{port}", TOKEN))
    assert caught.value.failure.reason == "node_lost"
    assert meant in caught.value.failure.message
