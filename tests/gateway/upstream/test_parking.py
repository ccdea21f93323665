"""Draining a server and undraining it, by HTTP and by `roost drain`."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from roost.cli.verbs import drain, undrain
from roost.core.ids import TenantId
from roost.errors import Failure
from roost.fleet.upstream.pool import PoolSettings
from roost.gateway.front.access import Fields, Principal, presented_key
from tests.conftest import Eventually
from tests.gateway.upstream.conftest import PROBE_S, FakeServer, answer, chat, fleet, hang

POOL = PoolSettings(max_in_flight=8, probe_s=PROBE_S)


def by_name(fields: Fields) -> Principal | Failure:
    """Take the key itself for the tenant; `root` is an operator."""
    key = (presented_key(fields) or b"").decode()
    return Principal(TenantId(f"key:{key}"), "admin" if key == "root" else "user")


def post(path: str, who: str = "root") -> bytes:
    """Build an operator's request."""
    return chat(b"", path=f"/roost/v1/nodes/{path}", Authorization=f"Bearer {who}")


async def test_a_drained_server_ends_what_it_has_and_gets_nothing_new(
    eventually: Eventually,
) -> None:
    """Running requests finish, health comes and goes, and only undrain brings work again."""
    one, other = FakeServer(hang), FakeServer()
    async with fleet(one, other, pool=POOL, authorise=by_name) as world:
        await world.ask(post("s1/drain"))
        busy = await world.client()
        await busy.send(chat())
        await eventually(lambda: len(one.asked) == 1)
        await world.ask(post("s1/undrain"))
        drained = await world.ask(post("s0/drain"))
        assert drained.status == 200
        node = msgspec.json.decode(drained.body)
        assert (node["id"], node["draining"], node["in_flight"]) == ("s0", True, 1)
        one.healthy = False
        await eventually(lambda: world.view.servers[0].health == "unhealthy")
        one.healthy, one.script = True, answer
        await eventually(lambda: world.view.servers[0].health == "healthy")
        for _ in range(8):
            assert (await world.ask(chat())).headers["x-roost-node"] == "s1"
        assert world.view.servers[0].in_flight == 1
        assert (await world.ask(post("s1/drain"))).status == 200
        refused = await world.ask(chat())
        assert (refused.status, world.gateway.pool.ready) == (503, False)
        assert (await world.ask(post("s0/undrain"))).status == 200
        assert (await world.ask(chat())).headers["x-roost-node"] == "s0"


async def test_only_operators_drain_and_only_what_exists() -> None:
    """A user's key is 403; unknown servers and verbs are 404, whoever asks."""
    async with fleet(FakeServer(), authorise=by_name) as world:
        for path, who, status in (
            ("s0/drain", "ann", 403),
            ("s9/drain", "ann", 403),
            ("s9/drain", "root", 404),
            ("s0/stop", "root", 404),
            ("s0", "root", 404),
        ):
            assert (await world.ask(post(path, who))).status == status
        assert not world.view.servers[0].drained


async def test_the_verbs_work_on_servers(capsys: pytest.CaptureFixture[str]) -> None:
    """`roost drain s0` shows the server draining, `roost undrain s0` alive."""
    async with fleet(FakeServer(models=("m",)), authorise=by_name) as world:
        assert world.gateway.front is not None
        arguments = ["s0", "--url", world.gateway.front.url, "--api-key", "root"]
        assert await asyncio.to_thread(drain.main, arguments) == 0
        assert "s0  s0  draining  0/2 in flight  m" in capsys.readouterr().out
        assert await asyncio.to_thread(undrain.main, arguments) == 0
        assert "s0  s0  alive  0/2 in flight  m" in capsys.readouterr().out
