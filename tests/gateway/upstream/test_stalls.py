"""A server that answers probes and stands still gets no new work until something moves."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from roost.fleet.upstream.pool import PoolSettings
from tests.conftest import Eventually
from tests.gateway.upstream.conftest import (
    EVENT,
    PROBE_S,
    STREAM,
    FakeServer,
    Script,
    answer,
    chat,
    chunk,
    fleet,
    get,
    hang,
    hang_after_event,
)

POOL = PoolSettings(max_in_flight=8, probe_s=PROBE_S, stall_s=0.1)


def moving_on(beat: asyncio.Event) -> Script:
    """Build a script that sends an event, and one more at each beat."""

    async def script(writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
        writer.write(STREAM)
        while not writer.is_closing():
            writer.write(chunk(EVENT))
            await beat.wait()
            beat.clear()

    return script


@pytest.mark.parametrize("script", [hang, hang_after_event])
async def test_a_hung_server_gets_nothing_new(
    script: Script, eventually: Eventually, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is healthy by its probes, and full by its silence; log and metric say so."""
    servers = FakeServer(script), FakeServer(script)
    async with fleet(*servers, pool=POOL) as world:
        busy = await world.client()
        await busy.send(chat())
        await eventually(lambda: any(s.stalled for s in world.view.servers))
        hung = next(n for n, s in enumerate(world.view.servers) if s.stalled)
        servers[1 - hung].script = answer
        assert world.view.servers[hung].health == "healthy"
        replies = [await world.ask(chat()) for _ in range(6)]
        assert {reply.headers["x-roost-node"] for reply in replies} == {f"s{1 - hung}"}
        assert len(servers[hung].asked) == 1
        nodes = msgspec.json.decode((await world.ask(get("/roost/v1/fleet"))).body)["nodes"]
        assert nodes[hung]["state"] == "stale"
        metrics = (await world.ask(get("/metrics"))).body.decode()
        assert f'stalled{{node="s{hung}"}} 1.0' in metrics
        servers[hung].script = answer
        busy.close()
        await eventually(lambda: not world.view.servers[hung].stalled)
        assert (await world.ask(chat())).status == 200
        said = [msgspec.json.decode(line) for line in capsys.readouterr().err.splitlines()]
        changes = [line["stalled"] for line in said if line["event"] == "upstream_stall"]
        assert changes == [True, False]


async def test_a_lone_server_that_is_slow_to_begin_is_used_to_its_limit(
    eventually: Eventually,
) -> None:
    """Nothing is known of it but silence, and nobody else could do better: places are given."""
    server = FakeServer(hang)
    pool = msgspec.structs.replace(POOL, max_in_flight=2)
    async with fleet(server, pool=pool) as world:
        first, second = await world.client(), await world.client()
        await first.send(chat())
        await eventually(lambda: world.view.servers[0].stalled)
        server.script = answer
        assert (await world.ask(chat())).status == 200
        server.script = hang
        await second.send(chat())
        await eventually(lambda: world.in_flight == 2)
        assert (await world.ask(chat())).status == 429


async def test_one_that_moves_is_enough(eventually: Eventually) -> None:
    """One of two answers goes on: the server works and gets more, until that one ends as well."""
    beat = asyncio.Event()
    server = FakeServer(moving_on(beat))
    async with fleet(server, pool=POOL) as world:
        moving, still = await world.client(), await world.client()
        await moving.send(chat())
        await eventually(lambda: len(server.asked) == 1)
        server.script = hang
        await still.send(chat())
        await eventually(lambda: world.view.servers[0].stalled)

        def works() -> bool:
            beat.set()
            return not world.view.servers[0].stalled

        await eventually(works)
        moving.close()
        await eventually(lambda: world.view.servers[0].stalled)


async def test_a_slow_server_is_known_to_be_slow(eventually: Eventually) -> None:
    """After one answer that took long to begin, a silence that long is no stall any more."""
    gate = asyncio.Event()

    async def slow(writer: asyncio.StreamWriter, gone: asyncio.Event) -> None:
        await gate.wait()
        await answer(writer, gone)

    server = FakeServer(slow)
    async with fleet(server, pool=POOL) as world:
        client = await world.client()
        await client.send(chat())
        await eventually(lambda: world.view.servers[0].stalled)
        gate.set()
        assert (await client.reply()).status == 200
        assert not world.view.servers[0].stalled
        server.script = hang
        sent_s = asyncio.get_running_loop().time()
        await client.send(chat())
        await eventually(lambda: world.view.servers[0].stalled)
        assert asyncio.get_running_loop().time() - sent_s > 4 * POOL.stall_s
