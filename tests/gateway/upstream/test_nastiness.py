"""Servers and clients that do the wrong thing at random moments: nothing stays taken afterwards."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from contextlib import suppress

import pytest

from roost.fleet.upstream.pool import PoolSettings
from roost.gateway.front.limits import FrontLimits
from roost.gateway.loop import run
from roost.gateway.upstream.passage import PassageLimits
from tests.conftest import until
from tests.gateway.front.conftest import Client
from tests.gateway.upstream.conftest import (
    DONE,
    EVENT,
    PROBE_S,
    STREAM,
    Asked,
    FakeServer,
    Fleet,
    chat,
    chunk,
    fleet,
    whole,
)

SERVERS, PLACES = 2, 3
POOL = PoolSettings(max_in_flight=PLACES, queue_length=6, queue_wait_s=0.2, probe_s=PROBE_S)
LIMITS = FrontLimits(sweep_s=0.02, head_s=0.3, body_s=0.3, write_s=0.3, linger_s=0.1)
PASSAGE = PassageLimits(first_byte_s=60, idle_s=60, commit_after_s=0.05)
"""Patience that no test has: what only time would end is found."""
CLIENTS, TURNS = 12, 6
STAYS_S = 5.0
RESET = struct.pack("ii", 1, 0)
"""Makes closing a socket a reset: SO_LINGER of no time."""
OLD = b"HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
UNASKED = whole(b"nobody has asked for this")
FULL_STREAM = [STREAM, *[chunk(EVENT)] * 4, chunk(DONE), chunk(b"")]
ANSWERS: tuple[list[bytes], ...] = (
    [whole()],
    [whole()[:-3], whole()[-3:]],
    [EARLY, whole()],
    [whole(status="503 Busy", extra="Connection: close\r\n")],
    [whole(status="500 Oh")],
    [whole(status="429 Full")],
    [whole(b"x" * 600_000)],
    [OLD, EVENT, DONE],
    FULL_STREAM,
    [STREAM + chunk(EVENT) + chunk(DONE) + chunk(b"")],
    [b"HTTP/1.1 200 OK\r\ncontent-length: many\r\n\r\n"],
    [b"nothing that is HTTP\r\n\r\n"],
    [],
)
Writer = asyncio.StreamWriter


class Nasty(FakeServer):
    """A server that throws dice before, in and after each answer; once tame, it never ends one."""

    def __init__(self, dice: random.Random) -> None:
        super().__init__()
        self.dice = dice
        self.tame = False

    async def _serve(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        self._writers.add(writer)
        try:
            # Some are gone in the moment in which they were there.
            if self.tame or self.dice.random() > 0.15:
                while not writer.is_closing():
                    await self._turn(reader, writer)
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            self._writers.discard(writer)
            self._leave(writer)

    async def _turn(self, reader: asyncio.StreamReader, writer: Writer) -> None:
        # A kept connection is closed at about the time at which it is used again.
        patience_s = 5.0 if self.tame else self.dice.choice((0.001, 0.01, 0.3, 5.0))
        async with asyncio.timeout(patience_s):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name: value for name, _, value in (line.partition(": ") for line in head[1:])}
        owed = int(headers.get("content-length", 0))
        early = not self.tame and self.dice.random() < 0.3
        body = b"" if early else await reader.readexactly(owed)
        asked = Asked(head[0], headers, body)
        if headers.get("x-request-id") == "probe":
            await self._reply(asked, writer)
        elif self.tame:
            self.asked.append(asked)
            await reader.read(-1)
            writer.close()
        else:
            await self._anything(writer)
        if early:
            await reader.readexactly(owed)

    async def _anything(self, writer: Writer) -> None:
        dice = self.dice
        pieces = whole_answer = dice.choice(ANSWERS)
        if dice.random() < 0.3:
            pieces = pieces[: dice.randrange(len(pieces) + 1)]
        for piece in pieces:
            _write(writer, piece)
            await writer.drain()
            await moment(dice)
        what = dice.randrange(6)
        if what == 0 or len(pieces) < max(1, len(whole_answer)) or pieces[0] == OLD:
            self._leave(writer)
        elif what == 1:
            _write(writer, UNASKED)
        elif what == 2:
            writer.close()

    def _leave(self, writer: Writer) -> None:
        if not writer.is_closing() and self.dice.random() < 0.5:
            sock: socket.socket = writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()
        writer.close()


def _write(writer: Writer, data: bytes) -> None:
    if writer.is_closing():
        # Not every loop puts up with writing to nobody.
        raise ConnectionResetError
    writer.write(data)


async def moment(dice: random.Random) -> None:
    """Let a little time pass, or none."""
    seconds = dice.choice((0.0, 0.0, 0.0, 0.001, 0.005, 0.02))
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.Event().wait()


async def client_of(world: Fleet, dice: random.Random) -> None:
    """Ask for something a few times; stay to the end, or leave when it comes to mind."""
    for _ in range(TURNS):
        client = await world.client()
        with suppress(ConnectionError):
            await (stays if dice.random() < 0.5 else leaves)(client, dice)
        client.writer.transport.abort()


async def stays(client: Client, dice: random.Random) -> None:
    """Send one request and wait for whatever becomes of it, but not for ever."""
    await client.send(chat(a_body(dice), Connection="close", **a_limit(dice)))
    answered = asyncio.ensure_future(client.reader.read(-1))
    done, _ = await asyncio.wait([answered], timeout=STAYS_S)
    assert done, "a client got no answer, and its server had ended with it"
    await answered


async def leaves(client: Client, dice: random.Random) -> None:
    """Send one to three requests, perhaps not whole, and read some of what comes."""
    requests = chat(a_body(dice), **a_limit(dice)) * dice.choice((1, 1, 1, 2, 3))
    if dice.random() < 0.2:
        requests = requests[: dice.randrange(len(requests))]
    client.writer.write(requests)
    await moment(dice)
    with suppress(TimeoutError):
        async with asyncio.timeout(dice.choice((0.0, 0.01, 0.1, 0.5))):
            await client.reader.read(dice.choice((1, 100_000)))
            await client.reader.read(-1)


def a_body(dice: random.Random) -> bytes:
    """Build a body, sometimes one that does not fit into the buffers of a socket."""
    return b'{"stream":true}' + b" " * dice.choice((0, 0, 0, 5_000_000))


def a_limit(dice: random.Random) -> dict[str, str]:
    """Build a header for a limit of time, or none."""
    return {"x_roost_timeout_ms": str(dice.randrange(1, 200))} if dice.random() < 0.2 else {}


def idle(world: Fleet) -> bool:
    """Whether the gateway holds nothing for anybody."""
    front, view = world.gateway.front, world.view
    return front is not None and not (front.busy or world.in_flight or view.queued)


async def nastiness(seed: int) -> None:
    """Be nasty from both sides for a while; then everything has to be whole."""
    dice = random.Random(seed)
    servers = [Nasty(random.Random(dice.random())) for _ in range(SERVERS)]
    async with fleet(*servers, pool=POOL, passage=PASSAGE, limits=LIMITS) as world:
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(client_of(world, random.Random(dice.random())))
        await until(lambda: idle(world), what="nothing is held")
        for server in servers:
            server.tame = True
            server.cut()
            server.probes = 0
        # One probe may have begun before.
        await until(lambda: all(server.probes > 1 for server in servers))
        await until(lambda: all(s.health == "healthy" for s in world.view.servers))
        await all_places(world)


async def all_places(world: Fleet) -> None:
    """Take every place there is, and one more than that."""
    for _ in range(SERVERS * PLACES):
        await (await world.client()).send(chat())
    await until(lambda: world.in_flight == SERVERS * PLACES)
    await until(lambda: sum(len(server.asked) for server in world.servers) >= SERVERS * PLACES)
    await (await world.client()).send(chat())
    await until(lambda: world.view.queued == 1)
    for client in world.clients:
        client.close()
    await until(lambda: idle(world), what="nothing is held")
    text = (await world.ask(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")).body.decode()
    gauges = [line for line in text.splitlines() if line.startswith(("roost_in_", "roost_queued"))]
    assert len(gauges) == SERVERS + 1
    assert all(line.endswith(" 0.0") for line in gauges)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_nothing_stays_taken(seed: int) -> None:
    """Whatever servers and clients do to each other, every place can be used afterwards."""
    await nastiness(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3, 6))
def test_nothing_stays_taken_on_the_loop_that_serves(seed: int) -> None:
    """The same on the loop of the processes, whose transports are others."""
    run(nastiness(seed))
