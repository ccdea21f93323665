"""How requests are counted: in the fleet's words, and TTFT only for generated text."""

from __future__ import annotations

import asyncio
import socket
from typing import get_args

import pytest

from roost.fleet.streams.relay import Outcome
from roost.fleet.upstream.pool import PoolSettings
from roost.gateway.front.limits import FrontLimits
from tests.conftest import Eventually, until
from tests.gateway.upstream.conftest import (
    DONE,
    EVENT,
    PROBE_S,
    STREAM,
    FakeServer,
    Fleet,
    Script,
    answer,
    chat,
    chunk,
    fleet,
    get,
    hang,
    stream,
    whole,
    writing,
)

Writer = asyncio.StreamWriter
WORDS = get_args(Outcome)


def counted(world: Fleet) -> dict[str, float]:
    """Return how many requests ended in each way, without zeros; unknown words are kept."""
    lines = world.gateway.metrics.render().decode().split("\n")
    shown = [line for line in lines if line.startswith("roost_requests_total{")]
    pairs = [(line.partition('outcome="')[2].partition('"')[0], line.split()[-1]) for line in shown]
    return {outcome: float(value) for outcome, value in pairs}


def first_bytes(world: Fleet) -> float:
    """Return how many times to first token were measured."""
    lines = world.gateway.metrics.render().decode().split("\n")
    found = [line for line in lines if line.startswith("roost_ttft_seconds_count")]
    return float(found[0].split()[-1]) if found else 0.0


@pytest.mark.parametrize(
    ("script", "outcome"),
    [
        (answer, "complete"),
        (stream, "complete"),
        (writing(whole(b"{}", "404 Not Found")), "rejected"),
        (writing(whole(b"{}", "500 Broken")), "node_error"),
        (writing(STREAM + chunk(EVENT), cut=True), "node_error"),
        (writing(STREAM + chunk(EVENT + DONE), cut=True), "complete"),
        (writing(STREAM + chunk(b"")), "node_error"),
    ],
    ids=["whole", "stream", "refused", "broken", "cut", "cut after its end", "no event"],
)
async def test_answers_are_counted_in_the_fleets_words(script: Script, outcome: str) -> None:
    """What a server answers ends in one of the outcomes that the fleet knows."""
    assert outcome in WORDS
    async with fleet(FakeServer(script)) as world:
        client = await world.client()
        await client.send(chat().replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
        await client.closed()
        assert counted(world) == {outcome: 1.0}


async def test_a_full_pool_is_rejected(eventually: Eventually) -> None:
    """Who finds no place, and who leaves, are counted apart from failures."""
    pool = PoolSettings(max_in_flight=1, probe_s=PROBE_S)
    async with fleet(FakeServer(hang), pool=pool) as world:
        busy = await world.client()
        await busy.send(chat())
        await eventually(lambda: world.in_flight == 1)
        assert (await world.ask(chat())).status == 429
        assert counted(world) == {"rejected": 1.0}
        busy.close()
        await eventually(lambda: counted(world) == {"rejected": 1.0, "client_disconnect": 1.0})


async def test_a_client_that_stops_reading_is_a_write_timeout(eventually: Eventually) -> None:
    """A reader that is cut off for not reading is told apart from one that leaves."""

    async def flood(writer: Writer, gone: asyncio.Event) -> None:
        writer.write(STREAM)
        while not gone.is_set():
            writer.write(chunk(b"data: " + b"x" * 10_000 + b"\n\n"))
            await writer.drain()

    limits = FrontLimits(write_s=0.2, sweep_s=0.02, send_buffer_bytes=8192, write_buffer_bytes=8192)
    async with fleet(FakeServer(flood), limits=limits) as world:
        client = await world.client()
        client.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.reader._transport.pause_reading()  # type: ignore[attr-defined]  # noqa: SLF001
        await client.send(chat())
        await eventually(lambda: counted(world) == {"write_timeout": 1.0})


async def test_only_generated_text_has_a_ttft() -> None:
    """A list of models and a refusal say nothing about how long text takes."""
    server = FakeServer()
    async with fleet(server) as world:
        assert (await world.ask(get("/v1/models"))).status == 200
        server.script = writing(whole(b"{}", "404 Not Found"))
        assert (await world.ask(chat())).status == 404
        assert first_bytes(world) == 0.0
        server.script = answer
        assert (await world.ask(chat())).status == 200
        assert first_bytes(world) == 1.0


async def test_questions_that_take_no_place_are_not_counted() -> None:
    """Lists of models, whole or failed or refused, are none of the requests that are counted."""
    server = FakeServer()
    async with fleet(server) as world:
        limited = get("/v1/models").replace(b"\r\n\r\n", b"\r\nx-roost-timeout-ms: 0\r\n\r\n")
        assert [(await world.ask(ask)).status for ask in (get("/v1/models"), limited)] == [200, 400]
        server.script = writing(cut=True)
        assert (await world.ask(get("/v1/models/x"))).status == 502
        assert counted(world) == {}
        server.script = answer
        await until(lambda: world.view.servers[0].health == "healthy")
        assert (await world.ask(chat())).status == 200
        assert counted(world) == {"complete": 1.0}


async def test_a_host_that_cannot_be_a_name_fails_at_once(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What opening a connection raises besides `OSError` is an answer too, not a silent client."""
    server = FakeServer()
    async with fleet(server) as world:
        target = world.gateway._proxy.servers.current[0].connections  # noqa: SLF001
        target.target = type(target.target)("s0", "." * 300, 1)
        reply = await world.ask(chat())
        assert (reply.status, reply.error["code"]) == (500, "internal")
        assert world.in_flight == 0
    assert "internal_error" in "".join(capsys.readouterr())
