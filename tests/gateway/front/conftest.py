"""A front on a free port with a small application, and a client made of bare sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import pytest

from roost.gateway.front.access import Gate, allowed
from roost.gateway.front.asgi import App, Receive, Scope, Send
from roost.gateway.front.guard import guarded
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.front.router import Router
from roost.gateway.front.server import Front, open_front
from tests.gateway.front.asgi_kit import (
    end_stream,
    read_body,
    routed,
    send_json,
    send_piece,
    start_stream,
    wait_gone,
)

AT_ONCE_S = 20.0
"""For what follows at once, on however loaded a machine; no limit of a front ends before it."""

GET = b"GET /hello HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class Reply:
    """One reply as it came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> dict[str, object]:
        """The error object of an error body."""
        return msgspec.json.decode(self.body, type=dict[str, dict[str, object]])["error"]


@dataclass
class Client:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        """Write bytes as they are."""
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read a reply head."""
        lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(": ") for line in lines[1:] if line)
        return int(lines[0].split()[1]), {name: value for name, _, value in pairs}

    async def chunk(self) -> bytes:
        """Read one chunk of a chunked body; b"" is the last one."""
        size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
        return (await self.reader.readexactly(size + 2))[:-2]

    async def reply(self, *, to_head: bool = False) -> Reply:
        """Read a whole reply, within five seconds."""
        async with asyncio.timeout(5):
            return await self._reply(to_head)

    async def _reply(self, to_head: bool) -> Reply:
        status, headers = await self.head()
        body = b""
        if headers.get("transfer-encoding") == "chunked":
            while piece := await self.chunk():
                body += piece
        elif "content-length" in headers and not to_head:
            body = await self.reader.readexactly(int(headers["content-length"]))
        return Reply(status, headers, body)

    async def ask(self, data: bytes) -> Reply:
        """Write a request and read the reply."""
        await self.send(data)
        return await self.reply()

    async def closed(self) -> bytes:
        """Read until the server closes; return what came before."""
        try:
            return await asyncio.wait_for(self.reader.read(-1), 5)
        except ConnectionResetError:
            return b""

    def close(self) -> None:
        """Leave."""
        self.writer.close()


@dataclass
class Seen:
    """What the application saw."""

    bodies: list[bytes] = field(default_factory=list)
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    pieces: int = 0


def application(seen: Seen) -> Router[App]:
    """Build routes that echo, stream, wait and fail."""

    async def hello(scope: Scope, receive: Receive, send: Send) -> None:
        await send_json(send, b'{"hello":"you"}')

    async def echo(scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_body(receive)
        seen.bodies.append(body)
        await send_json(
            send, msgspec.json.encode({"got": len(body), "rest": scope["state"]["rest"]})
        )

    async def stream(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        await start_stream(send)
        for number in range(3):
            await send_piece(send, b"data: %d\n\n" % number)
        await end_stream(send, b"data: [DONE]\n\n")

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        await start_stream(send)
        seen.entered.set()
        async with asyncio.TaskGroup() as both:
            writing = both.create_task(_flood(send, seen))
            await wait_gone(receive)
            seen.gone.set()
            writing.cancel()

    async def silent(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        seen.entered.set()
        await wait_gone(receive)
        seen.gone.set()

    async def broken(scope: Scope, receive: Receive, send: Send) -> None:
        raise ValueError("secret")

    async def half(scope: Scope, receive: Receive, send: Send) -> None:
        await start_stream(send)
        await send_piece(send, b"data: 1\n\n")
        raise ValueError("secret")

    router: Router[App] = Router()
    router.add("GET", "/hello", hello)
    router.add("GET", "/", hello)
    router.add("GET", "/health", hello)
    router.add("POST", "/echo", echo)
    router.add("GET POST", "/v1/models/{rest}", echo)
    router.add("POST", "/v1/chat/completions", stream)
    router.add("POST", "/endless", endless)
    router.add("POST", "/silent", silent)
    router.add("GET", "/broken", broken)
    router.add("GET", "/half", half)
    return router


async def _flood(send: Send, seen: Seen) -> None:
    while True:
        await send_piece(send, b"data: " + b"x" * 1000 + b"\n\n")
        seen.pieces += 1
        await asyncio.sleep(0)


@dataclass
class World:
    """A front, what its application saw, and clients on demand."""

    front: Front
    seen: Seen
    clients: list[Client] = field(default_factory=list)

    async def client(self) -> Client:
        """Connect."""
        client = Client(*await asyncio.open_connection("127.0.0.1", self.front.port))
        self.clients.append(client)
        return client

    async def ask(self, data: bytes) -> Reply:
        """Send one request on a connection of its own."""
        return await (await self.client()).ask(data)


Opener = Callable[..., Awaitable[World]]


@asynccontextmanager
async def opened(
    limits: FrontLimits, gate: Gate | None = None, listener: Listener | None = None
) -> AsyncIterator[World]:
    """Open a front around the application, and close everything afterwards."""
    seen = Seen()
    app = guarded(routed(application(seen)), gate or Gate(allowed("127.0.0.1")))
    front = await open_front(app, listener or Listener(port=0), limits)
    world = World(front, seen)
    try:
        yield world
    finally:
        for client in world.clients:
            client.close()
        await front.close(0)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """Give a front with the default limits, but quick sweeps."""
    async with opened(FrontLimits(sweep_s=0.02)) as world:
        yield world
