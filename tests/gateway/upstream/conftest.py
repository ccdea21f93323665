"""Servers that do as they are told, and a gateway in front of them, all over real sockets."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from roost.fleet.upstream.effects import PoolView
from roost.fleet.upstream.pool import PoolSettings
from roost.gateway.front.access import Authorise, anyone
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.upstream.gateway import (
    UpstreamGateway,
    UpstreamSettings,
    open_upstream_gateway,
)
from roost.gateway.upstream.passage import PassageLimits
from roost.gateway.upstream.targets import Target
from tests.conftest import until
from tests.gateway.front.conftest import Client, Reply

EVENT = b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
BODY = b'{"choices":[{"message":{"content":"hello"}}],"timings":{"cache_n":17}}'


def chunk(data: bytes) -> bytes:
    """Frame a chunk; b"" is the last one."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def whole(body: bytes = BODY, status: str = "200 OK", extra: str = "") -> bytes:
    """Build a reply of known length."""
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{extra}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def listing(*models: str) -> bytes:
    """Build what a server says about its models."""
    entries = [{"id": model, "object": "model", "meta": {"n_ctx": 8}} for model in models]
    return msgspec.json.encode({"object": "list", "data": entries})


@dataclass
class Asked:
    """One request as the server saw it."""

    line: str
    headers: dict[str, str]
    body: bytes


Script = Callable[[asyncio.StreamWriter, asyncio.Event], Awaitable[None]]


async def answer(writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
    """Reply with a small JSON body."""
    writer.write(whole())


async def stream(writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
    """Reply with three events and the usual end, each written separately."""
    writer.write(STREAM)
    for data in (EVENT, EVENT, EVENT, DONE, b""):
        writer.write(chunk(data))
        await writer.drain()
        await asyncio.sleep(0)


class _Reader(asyncio.StreamReader):
    """A reader that says when its peer has left."""

    def __init__(self, gone: asyncio.Event) -> None:
        super().__init__()
        self._gone = gone

    def feed_eof(self) -> None:
        """Notice the end."""
        self._gone.set()
        super().feed_eof()

    def set_exception(self, exc: Exception) -> None:
        """Notice a reset."""
        self._gone.set()
        super().set_exception(exc)


async def hang(writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
    """Never answer."""
    await gone.wait()


async def hang_after_event(writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
    """Send one event and nothing more."""
    writer.write(STREAM + chunk(EVENT))
    await gone.wait()


def writing(*pieces: bytes, cut: bool = False) -> Script:
    """Build a script that writes these pieces, and then perhaps cuts the connection."""

    async def script(writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)
        if cut:
            writer.close()
            await writer.wait_closed()

    return script


@dataclass
class FakeServer:
    """An upstream server whose answers are scripts; probes are answered by itself."""

    script: Script = answer
    healthy: bool = True
    health_status: str = "200 OK"
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0
    models: tuple[str, ...] | None = None
    silent_lists: int = 0
    probes: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    keep_alive: bool = True
    _server: asyncio.Server | None = None
    _writers: set[asyncio.StreamWriter] = field(default_factory=set)

    async def start(self) -> None:
        """Listen, on the same port as before after a stop."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: asyncio.StreamReaderProtocol(_Reader(self.gone), self._serve),
            "127.0.0.1",
            self.port,
        )
        self.port = self._server.sockets[0].getsockname()[1]

    async def kill(self) -> None:
        """Stop listening and cut every connection, as a crash does."""
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.sleep(0)

    def cut(self) -> None:
        """Cut every connection and go on listening."""
        for writer in list(self._writers):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                asked = await self._read(reader)
                await self._reply(asked, writer)
                if not self.keep_alive:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _read(self, reader: asyncio.StreamReader) -> Asked:
        lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        pairs = (line.partition(": ") for line in lines[1:] if line)
        headers = {name: value for name, _, value in pairs}
        return Asked(
            lines[0], headers, await reader.readexactly(int(headers.get("content-length", 0)))
        )

    async def _reply(self, asked: Asked, writer: asyncio.StreamWriter) -> None:
        if asked.headers.get("x-request-id") == "probe":
            self.probes += 1
            if self.silent_lists and "/v1/models " in asked.line:
                self.silent_lists -= 1
                raise ConnectionError
            if self.models is not None and "/v1/models " in asked.line:
                writer.write(whole(listing(*self.models)))
                return
            status = self.health_status if "/health" in asked.line else "200 OK"
            writer.write(whole(b"{}", status if self.healthy else "503 Loading"))
            return
        self.gone.clear()
        self.asked.append(asked)
        await self.script(writer, self.gone)


@dataclass
class Fleet:
    """A gateway and the servers behind it."""

    gateway: UpstreamGateway
    servers: list[FakeServer]
    clients: list[Client] = field(default_factory=list)

    @property
    def view(self) -> PoolView:
        """The pool as it is."""
        return self.gateway.pool.statistics()

    @property
    def in_flight(self) -> int:
        """All leases."""
        return sum(s.in_flight for s in self.view.servers)

    async def client(self) -> Client:
        """Connect to the gateway."""
        assert self.gateway.front is not None
        client = Client(*await asyncio.open_connection("127.0.0.1", self.gateway.front.port))
        self.clients.append(client)
        return client

    async def ask(self, data: bytes) -> Reply:
        """Send one request on a connection of its own."""
        return await (await self.client()).ask(data)


def chat(
    body: bytes = b'{"stream":true}', path: str = "/v1/chat/completions", **extra: str
) -> bytes:
    """Build a request."""
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in extra.items()]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


def get(path: str) -> bytes:
    """Build a GET."""
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


PATIENT = PassageLimits(first_byte_s=60.0, idle_s=60.0, commit_after_s=60.0)
PROBE_S = 0.25
"""Between two probes; a machine that stands still for so long makes a server unhealthy."""
AT_ONCE_S = 20.0
"""For what follows at once, on however loaded a machine; patience would end after it."""


@asynccontextmanager
async def fleet(
    *servers: FakeServer,
    pool: PoolSettings | None = None,
    passage: PassageLimits = PATIENT,
    authorise: Authorise = anyone,
    limits: FrontLimits | None = None,
    key: str | None = None,
    models_s: float = 0.05,
) -> AsyncIterator[Fleet]:
    """Start servers and a gateway; wait until every healthy server is known to be so."""
    for server in servers:
        await server.start()
    targets = tuple(
        Target(f"s{i}", "127.0.0.1", server.port, key=key) for i, server in enumerate(servers)
    )
    settings = UpstreamSettings(
        targets,
        Listener(port=0),
        limits or FrontLimits(sweep_s=0.02),
        pool or PoolSettings(probe_s=PROBE_S),
        passage,
        models_s=models_s,
        tick_s=0.02,
    )
    gateway = await open_upstream_gateway(settings, authorise)
    world = Fleet(gateway, list(servers))
    try:
        await until(lambda: all(s.health != "unknown" for s in world.view.servers))
        yield world
    finally:
        for client in world.clients:
            client.close()
        await gateway.close(0)
        for server in servers:
            await server.kill()
