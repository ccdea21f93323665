"""SHELL: a running gateway on a loopback port with puppet nodes, and a raw client for it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import msgspec
import pytest

from roost.core.fence import Life
from roost.core.ids import ModelId
from roost.fleet.settings import FleetSettings
from roost.fleet.streams.relay import RelaySettings
from roost.gateway.assemble import Gateway, GatewaySettings, Kept, open_gateway
from roost.gateway.front.access import Authorise, anyone
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.generation import GenerationSettings
from roost.gateway.node_link import GatewayLinkSettings
from roost.store.conversations.journal import Journal
from roost.store.credentials.usage import UsageStore
from roost.wire.memory import memory_pair
from roost.wire.messages import VERSION
from tests.conftest import until
from tests.gateway.puppet import MODEL, Puppet, status

SETTINGS = GatewaySettings(
    name="gateway-under-test",
    fleet=FleetSettings(queue_length=2, queue_wait_s=5.0),
    generation=GenerationSettings(offload_bytes=100_000, relay=RelaySettings(keepalive_s=0.2)),
    link=GatewayLinkSettings("gateway-under-test", 64, Life("gateway-under-test", 7)),
    listener=Listener(port=0),
    limits=FrontLimits(sweep_s=0.05, send_buffer_bytes=8192, write_buffer_bytes=8192),
)


class Stage:
    """A gateway and its puppets."""

    def __init__(self, gateway: Gateway, group: asyncio.TaskGroup) -> None:
        self.gateway = gateway
        self._group = group
        self._clients: list[Client] = []
        self.nodes: list[Puppet] = []

    @property
    def port(self) -> int:
        """Where the gateway listens."""
        assert self.gateway.front is not None
        return self.gateway.front.port

    def add_node(
        self,
        name: str = "n1",
        slots: int = 2,
        models: tuple[ModelId, ...] = (MODEL,),
        version: int = VERSION,
    ) -> Puppet:
        """Let a puppet join that speaks this version of the link."""
        node_side, gateway_side = memory_pair()
        puppet = Puppet(name, node_side, status(slots, models), version)
        self.gateway.join(gateway_side)
        self._group.create_task(puppet.run())
        return puppet

    async def client(self) -> Client:
        """Open a connection that is dropped with the stage."""
        client = await Client.connect(self.port)
        self._clients.append(client)
        return client

    def close(self) -> None:
        """Drop every client."""
        for client in self._clients:
            client.close()

    async def ready(self) -> None:
        """Wait until some node can serve."""
        mind = self.gateway.mind
        await until(lambda: mind.coordinator.ready(mind.now_s), what="a node is ready")


@asynccontextmanager
async def staged(
    settings: GatewaySettings = SETTINGS,
    authorise: Authorise = anyone,
    journal: Journal | None = None,
    usage: UsageStore | None = None,
) -> AsyncIterator[Stage]:
    """Run a gateway for the length of a block."""
    gateway = await open_gateway(settings, authorise, kept=Kept(journal, usage))
    async with asyncio.TaskGroup() as group:
        made = Stage(gateway, group)
        try:
            yield made
        finally:
            made.close()
            await gateway.close(grace_s=0.1)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A gateway with the default settings of these tests."""
    async with staged() as made:
        yield made


class Reply(msgspec.Struct):
    """A reply that was read to its end; `clean` is False where the body was broken off."""

    status: int
    headers: dict[str, str]
    body: bytes
    clean: bool = True

    def json(self) -> dict[str, object]:
        """Decode the body."""
        return msgspec.json.decode(self.body, type=dict[str, object])

    def events(self) -> list[str]:
        """List the data of the body's events."""
        return [
            line.removeprefix("data: ")
            for line in self.body.decode().split("\n")
            if line.startswith("data: ")
        ]


class Client:
    """One connection; HTTP/1.1 by hand, so that nothing is hidden."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int) -> Client:
        """Open a connection."""
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    @classmethod
    async def connect_from(cls, port: int, address: str) -> Client:
        """Open a connection from another loopback address."""
        opened = await asyncio.open_connection("127.0.0.1", port, local_addr=(address, 0))
        return cls(*opened)

    def send(self, method: str, path: str, body: object = None, **headers: str) -> None:
        """Send a request; a body that is not bytes is encoded as JSON."""
        raw = (
            body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        )
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(raw)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + raw)

    async def head(self) -> tuple[int, dict[str, str]]:
        """Read status and headers."""
        raw = (await self.reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        fields = (line.partition(": ") for line in raw[1:] if line)
        return int(raw[0].split()[1]), {name.lower(): value for name, _, value in fields}

    async def reply(self, *, bodiless: bool = False) -> Reply:
        """Read a whole reply, also one that is broken off."""
        status_code, headers = await self.head()
        if bodiless:
            return Reply(status_code, headers, b"")
        if "content-length" in headers:
            body = await self.reader.readexactly(int(headers["content-length"]))
            return Reply(status_code, headers, body)
        return await self._chunks(Reply(status_code, headers, b""))

    async def _chunks(self, reply: Reply) -> Reply:
        while True:
            try:
                size = int((await self.reader.readuntil(b"\r\n")).strip(), 16)
                reply.body += (await self.reader.readexactly(size + 2))[:-2]
            except (asyncio.IncompleteReadError, ConnectionError):
                reply.clean = False
                return reply
            if size == 0:
                return reply

    def stop_reading(self) -> None:
        """Leave what arrives in the kernel, as a client that hangs does."""
        cast("asyncio.Transport", self.writer.transport).pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        cast("asyncio.Transport", self.writer.transport).resume_reading()

    async def rest(self) -> Reply:
        """Read the body of a stream whose head has been read."""
        return await self._chunks(Reply(0, {}, b""))

    def read_again(self) -> None:
        """Take what has piled up."""
        cast("asyncio.Transport", self.writer.transport).resume_reading()

    def close(self) -> None:
        """Drop the connection without a word."""
        self.writer.transport.abort()


async def ask(port: int, method: str, path: str, body: object = None, **headers: str) -> Reply:
    """Send one request on a connection of its own and read the reply."""
    client = await Client.connect(port)
    client.send(method, path, body, **headers)
    try:
        return await client.reply(bodiless=method == "HEAD")
    finally:
        client.close()
