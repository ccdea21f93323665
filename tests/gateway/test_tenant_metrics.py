"""Tenants as series: who has a request has one, and who has none any more has none."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from roost.core.allowance import Account, Allowance
from roost.core.ids import TenantId
from roost.errors import Failure
from roost.gateway.front.access import Fields, Principal, presented_key
from roost.gateway.watching.gauges import Gauges
from roost.gateway.watching.tenant_metrics import of_tenants
from roost.observe.metrics import Metrics
from tests.conftest import until
from tests.gateway.conftest import Stage, ask, staged
from tests.gateway.test_fleet_gateway import STREAM

ONE_A_MINUTE = Allowance(requests_per_minute=1)


def shown(text: str) -> set[str]:
    """Give the series of tenants with their values."""
    return {line for line in text.splitlines() if line.startswith("roost_tenant_live{")}


def test_who_has_requests_has_series() -> None:
    """As long as he has: what is not is left out."""
    metrics = Metrics()
    tenants = Gauges(metrics)
    tenants.refresh(of_tenants(["ann", "no_key"], ["ann", "ann"]))
    assert shown(metrics.render().decode()) == {
        'roost_tenant_live{state="waiting",tenant="ann"} 1.0',
        'roost_tenant_live{state="running",tenant="ann"} 2.0',
        'roost_tenant_live{state="waiting",tenant="no_key"} 1.0',
    }
    tenants.refresh(of_tenants([], ["no_key"]))
    assert shown(metrics.render().decode()) == {
        'roost_tenant_live{state="running",tenant="no_key"} 1.0'
    }


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A gateway without keys."""
    async with staged() as made:
        yield made


async def test_a_gateway_tells_who_waits_and_who_runs(stage: Stage) -> None:
    """No address is in it: those who show no key are one tenant."""
    node = stage.add_node(slots=1)
    await stage.ready()
    for _ in range(2):
        client = await stage.client()
        client.send("POST", "/v1/chat/completions", STREAM)
        await until(lambda: bool(node.opened), what="one runs")
    waits = stage.gateway.mind.coordinator.statistics
    await until(lambda: waits().waiting == 1, what="the other one waits")
    text = (await ask(stage.port, "GET", "/metrics")).body.decode()
    assert shown(text) == {
        'roost_tenant_live{state="running",tenant="no_key"} 1.0',
        'roost_tenant_live{state="waiting",tenant="no_key"} 1.0',
    }
    assert "127.0.0.1" not in text
    assert 'roost_nodes{state="alive"} 1.0' in text
    assert 'roost_nodes{state="stale"} 0.0' in text
    assert "roost_running 1.0" in text


async def test_only_operators_learn_of_tenants() -> None:
    """Another key reads every figure that is nobody's."""

    def authorise(fields: Fields) -> Principal | Failure:
        name = (presented_key(fields) or b"").decode()
        role = "admin" if name == "boss" else "user"
        return Principal(TenantId(name), role, account=Account(name, name, ONE_A_MINUTE))

    async with staged(authorise=authorise) as stage:
        node = stage.add_node()
        node.on_open = lambda opened: node.answer(opened, "hi")
        await stage.ready()
        path, live = "/v1/chat/completions", stage.gateway.mind.turns
        for status in (200, 429):
            reply = await ask(stage.port, "POST", path, STREAM, authorization="Bearer ann")
            assert reply.status == status
            await until(lambda: not live, what="it is over")
        told = {}
        for key in ("boss", "bob", "ann"):
            reply = await ask(stage.port, "GET", "/metrics", authorization=f"Bearer {key}")
            told[key] = reply.body.decode()
        for name in ("roost_tenant_requests_total", "roost_tenant_tokens_total"):
            assert f'{name}{{tenant="ann"}}' in told["boss"]
        assert 'roost_limited_total{limit="requests",tenant="ann"} 1.0' in told["boss"]
        for key in ("bob", "ann"):
            assert "tenant" not in told[key]
            assert "ann" not in told[key]
            assert 'roost_nodes{state="alive"} 1.0' in told[key]
