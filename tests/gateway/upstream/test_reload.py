"""The list of servers changes while the gateway runs."""

from __future__ import annotations

import msgspec
import pytest

from roost.fleet.upstream.pool import PoolSettings
from roost.gateway.upstream.targets import Target
from tests.conftest import Eventually
from tests.gateway.upstream.conftest import (
    DONE,
    EVENT,
    PROBE_S,
    FakeServer,
    Fleet,
    answer,
    chat,
    fleet,
    get,
    hang,
    hang_after_event,
    stream,
)

ONE = PoolSettings(max_in_flight=1, probe_s=PROBE_S)


def target(name: str, server: FakeServer, key: str | None = None) -> Target:
    """Name a server."""
    return Target(name, "127.0.0.1", server.port, key=key)


def healths(world: Fleet) -> dict[str, str]:
    """Say how each server stands."""
    return {s.server: s.health for s in world.view.servers}


async def test_new_servers_are_probed_and_used(eventually: Eventually) -> None:
    """A server that is put on the list proves itself, and gets work; the others go on."""
    one, new = FakeServer(hang), FakeServer(models=("m",))
    await new.start()
    async with fleet(one, pool=ONE) as world:
        busy = await world.client()
        await busy.send(chat())
        await eventually(lambda: len(one.asked) == 1)
        assert (await world.ask(chat())).status == 429
        world.gateway.use([target("s0", one), target("n", new)])
        assert healths(world) == {"s0": "healthy", "n": "unknown"}
        await eventually(lambda: healths(world)["n"] == "healthy")
        assert (await world.ask(chat())).headers["x-roost-node"] == "n"
        assert world.in_flight == 1
    await new.kill()


async def test_a_server_off_the_list_ends_what_it_has(eventually: Eventually) -> None:
    """Its stream goes on to the end, nothing new comes, then it is gone with all its figures."""
    old, new = FakeServer(hang_after_event), FakeServer()
    async with fleet(old, new, pool=ONE) as world:
        world.gateway.use([target("s0", old)])
        await eventually(lambda: list(healths(world)) == ["s0"])
        busy = await world.client()
        await busy.send(chat())
        await eventually(lambda: len(old.asked) == 1)
        await world.ask(get("/metrics"))
        world.gateway.use([target("s1", new)])
        await eventually(lambda: healths(world).get("s1") == "healthy")
        nodes = msgspec.json.decode((await world.ask(get("/roost/v1/fleet"))).body)["nodes"]
        assert [(n["id"], n["draining"], n["in_flight"]) for n in nodes] == [
            ("s0", True, 1),
            ("s1", False, 0),
        ]
        probes = old.probes
        for _ in range(3):
            assert (await world.ask(chat())).headers["x-roost-node"] == "s1"
        assert old.probes == probes
        busy.close()
        await eventually(lambda: list(healths(world)) == ["s1"])
        assert b'"s0"' not in (await world.ask(get("/metrics"))).body
        assert (await world.ask(chat(b"", path="/roost/v1/nodes/s0/drain"))).status in {403, 404}


async def test_an_answer_of_a_forgotten_server_still_fails_in_peace(
    eventually: Eventually,
) -> None:
    """A question without a place outlives its server's name, and its end hurts nobody."""
    old, new = FakeServer(hang), FakeServer()
    async with fleet(old, new) as world:
        world.gateway.use([target("s0", old)])
        client = await world.client()
        await client.send(get("/v1/models/m"))
        await eventually(lambda: len(old.asked) == 1)
        world.gateway.use([target("s1", new)])
        assert list(healths(world)) == ["s1"]
        await eventually(lambda: healths(world)["s1"] == "healthy")
        old.cut()
        assert (await client.reply()).status == 200
        assert healths(world) == {"s1": "healthy"}


async def test_another_server_under_the_same_name(eventually: Eventually) -> None:
    """What runs ends on the old one; the new one is asked once it has proved itself."""
    old, new = FakeServer(stream), FakeServer(answer, models=("m",))
    await new.start()
    async with fleet(old, pool=PoolSettings(max_in_flight=2, probe_s=PROBE_S)) as world:
        old.script = hang_after_event
        busy = await world.client()
        await busy.send(chat())
        await eventually(lambda: len(old.asked) == 1)
        world.gateway.use([target("s0", new)])
        assert healths(world) == {"s0": "unknown"}
        await eventually(lambda: healths(world) == {"s0": "healthy"})
        assert world.view.servers[0].models == ("m",)
        assert (await world.ask(chat())).status == 200
        assert (len(new.asked), world.in_flight) == (1, 1)
        old.cut()
        assert (await busy.head())[0] == 200
        rest = await busy.closed()
        assert EVENT in rest
        assert b"upstream_error" in rest
        assert DONE not in rest
        assert healths(world) == {"s0": "healthy"}
        await eventually(lambda: world.in_flight == 0)
    await new.kill()


async def test_a_new_key_costs_no_request() -> None:
    """The server stays in the pool, and the next request has the key."""
    server = FakeServer()
    async with fleet(server, key="sk-old") as world:
        assert (await world.ask(chat())).status == 200
        world.gateway.use([target("s0", server, "sk-new")])
        assert (await world.ask(chat())).status == 200
        keys = [asked.headers["authorization"] for asked in server.asked]
        assert keys == ["Bearer sk-old", "Bearer sk-new"]


async def test_an_impossible_list_changes_nothing() -> None:
    """No server, or two of one name, is refused before anything has happened."""
    server = FakeServer()
    async with fleet(server) as world:
        for wrong in ([], [target("a", server), target("a", server)]):
            with pytest.raises(ValueError, match="name of its own"):
                world.gateway.use(wrong)
        assert healths(world) == {"s0": "healthy"}
        assert (await world.ask(chat())).status == 200
