"""`x-roost-timeout-ms` in front of servers that have never heard of it."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress

import pytest

from roost.fleet.upstream.pool import PoolSettings
from tests.conftest import Eventually, until
from tests.gateway.upstream.conftest import (
    AT_ONCE_S,
    BODY,
    EVENT,
    PROBE_S,
    STREAM,
    FakeServer,
    Fleet,
    chat,
    chunk,
    fleet,
    get,
    hang,
    hang_after_event,
    writing,
)

ONE = PoolSettings(max_in_flight=1, queue_length=4, probe_s=PROBE_S)


def ended(world: Fleet, outcome: str) -> bool:
    """Whether exactly one request has ended in this way."""
    line = f'roost_requests_total{{dialect="openai",outcome="{outcome}"}} 1.0'
    return line in world.gateway.metrics.render().decode()


async def passed(seconds: float) -> None:
    """Let real time pass: a deadline that was forgotten can only be seen not to come."""
    started = time.monotonic()
    await until(lambda: time.monotonic() >= started + seconds)


async def test_nothing_in_time_is_a_504() -> None:
    """The client hears `deadline`, the server sees its connection close, and is not blamed."""
    server = FakeServer(hang)
    async with fleet(server) as world:
        started = time.monotonic()
        reply = await world.ask(chat(x_roost_timeout_ms="80"))
        assert (reply.status, reply.error["code"]) == (504, "deadline")
        assert 0.08 <= time.monotonic() - started < 30
        await asyncio.wait_for(server.gone.wait(), AT_ONCE_S)
        assert world.in_flight == 0
        assert world.view.servers[0].health == "healthy"
        assert ended(world, "deadline")


@pytest.mark.slow
async def test_a_begun_stream_ends_with_an_error_event() -> None:
    """What has arrived stays, then one event says why there is no more."""
    server = FakeServer(hang_after_event)
    async with fleet(server) as world:
        client = await world.client()
        await client.send(chat(x_roost_timeout_ms="800"))
        assert (await client.head())[0] == 200
        assert await client.chunk() == EVENT
        last = await client.chunk()
        assert last.startswith(b'data: {"error":')
        assert b'"code":"deadline"' in last
        assert await client.closed() == b""
        await asyncio.wait_for(server.gone.wait(), AT_ONCE_S)
        assert world.in_flight == 0


@pytest.mark.slow
async def test_a_stream_that_goes_on_is_ended_too() -> None:
    """Progress does not move the deadline."""

    async def tick(writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
        writer.write(STREAM)
        while not gone.is_set():
            writer.write(chunk(EVENT))
            with suppress(TimeoutError):
                await asyncio.wait_for(gone.wait(), 0.02)

    server = FakeServer(tick)
    async with fleet(server) as world:
        client = await world.client()
        await client.send(chat(x_roost_timeout_ms="800"))
        assert b'"code":"deadline"' in await client.closed()
        await asyncio.wait_for(server.gone.wait(), AT_ONCE_S)


async def test_waiting_for_a_place_counts(eventually: Eventually) -> None:
    """A request in the queue has a deadline as well, and leaves the queue with it."""
    server = FakeServer(hang)
    async with fleet(server, pool=ONE) as world:
        busy = await world.client()
        await busy.send(chat())
        await eventually(lambda: world.in_flight == 1)
        reply = await world.ask(chat(x_roost_timeout_ms="60"))
        assert (reply.status, reply.error["code"]) == (504, "deadline")
        assert world.view.queued == 0
        assert len(server.asked) == 1


async def test_the_server_is_told_what_is_left(eventually: Eventually) -> None:
    """Time spent in the queue is taken off; without a limit nothing is sent."""
    server = FakeServer(hang)
    async with fleet(server, pool=ONE) as world:
        busy = await world.client()
        await busy.send(chat())
        await eventually(lambda: world.in_flight == 1)
        waiting = await world.client()
        await waiting.send(chat(x_roost_timeout_ms="5000"))
        await eventually(lambda: world.view.queued == 1)
        await passed(0.05)
        busy.close()
        await eventually(lambda: len(server.asked) == 2)
        assert "x-roost-timeout-ms" not in server.asked[0].headers
        assert 3000 < int(server.asked[1].headers["x-roost-timeout-ms"]) <= 4950


@pytest.mark.parametrize("value", ["0", "-5", "soon", "1.5", "86400001", ""])
async def test_a_limit_that_is_none_is_refused(value: str) -> None:
    """A mistake is told, before a server is asked."""
    server = FakeServer()
    async with fleet(server) as world:
        reply = await world.ask(chat(x_roost_timeout_ms=value))
        assert (reply.status, reply.error["param"]) == (400, "x-roost-timeout-ms")
        assert server.asked == []
        assert ended(world, "rejected")


async def test_a_limit_in_the_body_is_not_ours() -> None:
    """Bodies pass unread: what they say about time is between client and server."""
    server = FakeServer()
    body = b'{"roost":{"timeout_ms":1}}'
    async with fleet(server) as world:
        reply = await world.ask(chat(body))
        assert (reply.status, reply.body, server.asked[0].body) == (200, BODY, body)


@pytest.mark.slow
async def test_an_answer_in_time_is_whole_and_its_deadline_forgotten() -> None:
    """A deadline that passes after the end changes nothing, also for the list of models."""
    server = FakeServer()
    async with fleet(server) as world:
        client = await world.client()
        assert (await client.ask(chat(x_roost_timeout_ms="800"))).body == BODY
        await passed(0.9)
        assert (await client.ask(chat())).body == BODY
        server.script = hang
        limited = get("/v1/models").replace(b"\r\n\r\n", b"\r\nx-roost-timeout-ms: 50\r\n\r\n")
        assert (await world.ask(limited)).status == 504


@pytest.mark.slow
async def test_a_large_body_on_its_way_is_broken_off() -> None:
    """What has begun as a body of known length ends short, so that the client can see it."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 3000000\r\n\r\n"

    async def part(writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
        await writing(head, b"x" * 2_000_000)(writer, gone)
        await gone.wait()

    async with fleet(FakeServer(part)) as world:
        client = await world.client()
        await client.send(chat(x_roost_timeout_ms="1500"))
        status, headers = await client.head()
        assert (status, headers["content-length"]) == (200, "3000000")
        assert len(await client.closed()) == 2_000_000
        assert world.in_flight == 0
