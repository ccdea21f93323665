"""All request bodies together have a limit, and what is held is given back in every case."""

from __future__ import annotations

import asyncio

import pytest

from roost.gateway.front.bodies import Bodies
from roost.gateway.front.limits import FrontLimits
from roost.gateway.front.refusals import TOO_MANY_BODIES
from tests.conftest import Eventually
from tests.gateway.front.conftest import Client, World, opened
from tests.gateway.front.test_bridge import Wire, exchange_of
from tests.gateway.front.test_protocol import POST, post

LIMITS = FrontLimits(body_max_bytes=1000, bodies_max_bytes=1500, sweep_s=0.02, body_s=5)


def held(world: World) -> int:
    """Return how many bytes are held now."""
    return world.front._shared.bodies.held_bytes  # noqa: SLF001 - no client sees it


def test_a_budget() -> None:
    """The limit itself fits, a byte more does not."""
    bodies = Bodies(10)
    bodies.take(6)
    assert bodies.room_for(4)
    assert not bodies.room_for(5)
    bodies.give_back(6)
    assert bodies.room_for(10)
    assert (TOO_MANY_BODIES.status, TOO_MANY_BODIES.retry_after_s) == (503, 1)


async def holder(world: World, eventually: Eventually) -> Client:
    """Let a client send most of a body and then pause."""
    client = await world.client()
    before = held(world)
    await client.send(post("/echo", b"x" * 1000)[:-100])
    await eventually(lambda: held(world) == before + 900)
    return client


@pytest.mark.parametrize("framing", ["length", "chunked"])
async def test_bodies_over_the_budget_are_refused(framing: str, eventually: Eventually) -> None:
    """One body more than fits is a 503 to come back soon; when the first is done there is room."""
    async with opened(LIMITS) as world:
        first = await holder(world, eventually)
        second = await world.client()
        if framing == "length":
            await second.send(post("/echo", b"y" * 1000)[:-1000])
        else:
            await second.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
            await second.send(b"3e8\r\n" + b"y" * 1000)
        refused = await second.reply()
        assert (refused.status, refused.error["code"]) == (503, "overloaded")
        assert (refused.headers["retry-after"], refused.headers["connection"]) == ("1", "close")
        assert await second.closed() == b""
        assert held(world) == 900
        assert (await first.ask(b"x" * 100)).status == 200
        assert held(world) == 0
        assert (await world.ask(post("/echo", b"y" * 1000))).status == 200
        assert world.seen.bodies == [b"x" * 1000, b"y" * 1000]


async def test_a_small_body_still_fits(eventually: Eventually) -> None:
    """What is left of the budget is there for whoever needs no more than that."""
    async with opened(LIMITS) as world:
        await holder(world, eventually)
        assert (await world.ask(post("/echo", b"y" * 600))).status == 200


@pytest.mark.parametrize("ending", ["leaves", "late", "garbage", "refused"])
async def test_every_end_gives_back(ending: str, eventually: Eventually) -> None:
    """A client that leaves, is late, breaks off or goes over its own limit holds nothing more."""
    async with opened(LIMITS) as world:
        client = await world.client()
        if ending == "late":
            await client.send(post("/echo", b"x" * 1000)[:-100])
            await eventually(lambda: held(world) == 900)
            connection = next(iter(world.front._shared.connections))  # noqa: SLF001
            connection.on_sweep(asyncio.get_running_loop().time() + 6)
            assert (await client.reply()).status == 408
        elif ending == "leaves":
            (await holder(world, eventually)).close()
        else:
            await client.send(POST + b"Transfer-Encoding: chunked\r\n\r\n")
            await client.send(b"1f4\r\n" + b"x" * 500 + b"\r\n")
            await eventually(lambda: held(world) == 500)
            await client.send(b"zz\r\n" if ending == "garbage" else b"1f5\r\n" + b"x" * 501)
            assert (await client.reply()).status in {400, 413}
        await eventually(lambda: held(world) == 0)


async def test_pipelined_bodies_count_while_they_wait(eventually: Eventually) -> None:
    """Bodies that wait behind an answer are held as well, and let go when that client leaves."""
    async with opened(LIMITS) as world:
        client = await world.client()
        await client.send(post("/silent") + post("/echo", b"x" * 700) + post("/echo", b"y" * 700))
        await eventually(lambda: held(world) == 1400)
        assert (await world.ask(post("/echo", b"z" * 200))).status == 503
        client.close()
        await eventually(lambda: held(world) == 0)


async def test_a_body_for_an_early_reply_is_not_held() -> None:
    """Who is answered before the body has come may send it, and costs nothing."""
    async with opened(LIMITS) as world:
        client = await world.client()
        await client.send(post("/nowhere", b"x" * 1000)[:-900])
        assert (await client.reply()).status == 404
        assert held(world) == 0
        await client.send(b"x" * 900)
        assert (await client.ask(post("/echo", b"y"))).status == 200
        assert held(world) == 0


def test_tiny_pieces_are_joined_as_they_come() -> None:
    """A body in chunks of one byte is held in a few objects, and comes out whole."""
    exchange = exchange_of(Wire())
    sent = [b"first", *(bytes([n % 256]) for n in range(3000)), b"L" * 5000, b"a", b"b"]
    for piece in sent:
        exchange.add_body(piece)
    assert len(exchange._pieces) == 4  # noqa: SLF001 - no caller sees it
    body = exchange.take_body()
    assert type(body) is bytes
    assert body == b"".join(sent)
    exchange.add_body(b"x")
    assert (exchange.take_body(), exchange.take_body()) == (b"x", b"")
