"""The end of a front: who is still served, who is told to go away, and when it is over."""

from __future__ import annotations

import asyncio

import pytest

from roost.gateway.front.limits import FrontLimits
from roost.gateway.front.protocol import FrontProtocol
from tests.conftest import Eventually
from tests.gateway.front.conftest import GET, World, opened
from tests.gateway.front.test_protocol import post


async def test_stop_accepting_lets_a_running_request_end() -> None:
    """Draining closes idle connections soon and lets the busy one finish."""
    async with opened(FrontLimits(linger_s=0.05, sweep_s=0.02)) as world:
        busy, idle = await world.client(), await world.client()
        assert (await idle.ask(GET)).status == 200
        await busy.send(post("/silent"))
        await world.seen.entered.wait()
        world.front.stop_accepting()
        assert await idle.closed() == b""
        assert not world.seen.gone.is_set()
        with pytest.raises(OSError, match=r".*"):
            await world.client()


async def test_a_request_during_the_drain_is_told_so(world: World) -> None:
    """On a kept connection a late request gets a 503 that says when to come back, and the end."""
    busy, kept, begun = [await world.client() for _ in range(3)]
    assert (await kept.ask(GET)).status == 200
    await begun.send(GET[:10])
    await busy.send(post("/silent"))
    await world.seen.entered.wait()
    world.front.stop_accepting()
    await kept.send(post("/echo", b"x" * 10))
    await begun.send(GET[10:])
    for client in (kept, begun):
        reply = await client.reply()
        assert (reply.status, reply.error["code"]) == (503, "draining")
        assert (reply.headers["retry-after"], reply.headers["connection"]) == ("1", "close")
        assert await client.closed() == b""
    assert world.seen.bodies == []
    assert not world.seen.gone.is_set()


async def test_requests_from_before_the_drain_are_answered(
    world: World, eventually: Eventually
) -> None:
    """What waited behind an answer is served, what comes later is refused, and that is the end."""
    client = await world.client()
    await client.send(post("/echo", b"x" * 10)[:-5])
    await eventually(lambda: world.front.busy == 1)
    # The rest of the first and a whole second request are here before the drain begins.
    await client.send(b"x" * 5)
    first = await client.reply()
    await client.send(post("/endless"))
    await world.seen.entered.wait()
    await client.send(GET)
    connection = next(iter(world.front._shared.connections))  # noqa: SLF001 - no client sees it
    assert isinstance(connection, FrontProtocol)
    await eventually(lambda: len(connection._waiting) == 1)  # noqa: SLF001
    world.front.stop_accepting()
    await client.send(GET)
    await eventually(lambda: len(connection._waiting) == 2)  # noqa: SLF001
    assert first.status == 200
    assert connection._waiting[0].keep_alive  # noqa: SLF001
    assert not connection._waiting[1].keep_alive  # noqa: SLF001


async def test_a_reply_during_the_drain_says_that_it_is_the_last(
    world: World, eventually: Eventually
) -> None:
    """A reply that begins while we drain announces the close, so that nobody sends after it."""
    client = await world.client()
    await client.send(post("/echo", b"x" * 10)[:-5])
    await eventually(lambda: world.front.busy == 1)
    world.front.stop_accepting()
    await client.send(b"x" * 5)
    reply = await client.reply()
    assert (reply.status, reply.headers["connection"]) == (200, "close")
    assert await client.closed() == b""


async def test_close_aborts_after_the_grace(world: World) -> None:
    """What does not end within the grace is aborted, and its handler is told."""
    client = await world.client()
    await client.send(post("/endless"))
    await world.seen.entered.wait()
    assert not await world.front.close(0.05)
    assert world.seen.gone.is_set()
    assert world.front.busy == 0


async def test_close_waits_for_a_short_request(world: World, eventually: Eventually) -> None:
    """A request that ends within the grace is answered whole."""
    client = await world.client()
    await client.send(post("/echo", b"x" * 10)[:-5])
    await eventually(lambda: world.front.busy == 1)
    closing = asyncio.ensure_future(world.front.close(2))
    await asyncio.sleep(0)
    await client.send(b"x" * 5)
    reply = await client.reply()
    assert (reply.status, reply.body) == (200, b'{"got":10,"rest":""}')
    assert await closing
