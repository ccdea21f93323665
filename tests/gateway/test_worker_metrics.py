"""What nodes say of their runtimes as series, and what is odd in the log."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.about import NodeAbout, RuntimeAbout, RuntimeVitals
from roost.core.ids import RuntimeId
from roost.core.machine import Memory, Processor
from roost.core.snapshots import NodeStatus, SlotView
from roost.fleet.watching.oddities import Oddities, Oddity
from roost.fleet.watching.views import NodeView
from roost.gateway.watching.gauges import Gauges
from roost.gateway.watching.worker_metrics import of_runtimes
from roost.observe.metrics import Metrics
from tests.conftest import until
from tests.gateway.conftest import Stage, ask
from tests.gateway.puppet import MODEL, status

ABOUT = NodeAbout(
    Processor("cpu", 2, 2),
    Memory(1000, 400),
    runtimes=(RuntimeAbout(RuntimeId(f"r-{MODEL}"), rss_bytes=70, prefill_tokens_per_s=90.0),),
)
VITALS = RuntimeVitals(1.5, 2.0, 30.0, 200, 3, ("slow_decode",))


def report(vitals: RuntimeVitals | None, about: NodeAbout | None = ABOUT) -> NodeStatus:
    """A node whose only runtime has these vital signs."""
    base = status()
    (view,) = base.runtimes
    slots = (SlotView(0, busy=True, tokens=5),)
    view = msgspec.structs.replace(view, vitals=vitals, slots=slots)
    offer = msgspec.structs.replace(base.models[0], kv_token_bytes=8)
    return msgspec.structs.replace(base, runtimes=(view,), models=(offer,), about=about)


def node(of: NodeStatus, state: str = "alive") -> NodeView:
    """The same as the fleet shows it."""
    raw = {"id": "n", "name": "n", "state": state, "in_flight": 0, "draining": False}
    view = msgspec.convert(raw, NodeView)
    return msgspec.structs.replace(view, models=of.models, runtimes=of.runtimes, about=of.about)


def shown(metrics: Metrics) -> set[str]:
    """Every series of workers, with its value."""
    lines = metrics.render().decode().splitlines()
    return {line for line in lines if line.startswith("roost_worker_")}


def test_what_is_known_has_a_series_and_what_is_not_has_none() -> None:
    """An unknown value is left out, never 0; a measured 0 is one."""
    metrics = Metrics()
    workers = Gauges(metrics)
    workers.refresh(of_runtimes([node(report(VITALS))]))
    where = f'{{model="{MODEL}",node="n"}}'
    assert shown(metrics) == {
        f'roost_worker_anomaly{{kind="slow_decode",model="{MODEL}",node="n"}} 1.0',
        f"roost_worker_decode_failures{where} 3.0",
        f"roost_worker_decode_tokens_per_second{where} 30.0",
        f"roost_worker_generated_tokens{where} 200.0",
        f"roost_worker_kv_cache_bytes{where} 40.0",
        f"roost_worker_kv_room_tokens{where} 512.0",
        f"roost_worker_kv_tokens{where} 5.0",
        f"roost_worker_waiting{where} 0.0",
        f'roost_worker_slots{{model="{MODEL}",node="n",state="busy"}} 1.0',
        f'roost_worker_slots{{model="{MODEL}",node="n",state="idle"}} 0.0',
        f"roost_worker_prefill_tokens_per_second{where} 90.0",
        f"roost_worker_prefill_latency_ms{where} 2000.0",
        f"roost_worker_rss_bytes{where} 70.0",
    }
    workers.refresh(of_runtimes([node(report(RuntimeVitals(), about=None))]))
    assert shown(metrics) == {
        f"roost_worker_decode_failures{where} 0.0",
        f"roost_worker_decode_tokens_per_second{where} 0.0",
        f"roost_worker_generated_tokens{where} 0.0",
        f"roost_worker_kv_cache_bytes{where} 40.0",
        f"roost_worker_kv_room_tokens{where} 512.0",
        f"roost_worker_kv_tokens{where} 5.0",
        f"roost_worker_waiting{where} 0.0",
        f'roost_worker_slots{{model="{MODEL}",node="n",state="busy"}} 1.0',
        f'roost_worker_slots{{model="{MODEL}",node="n",state="idle"}} 0.0',
    }
    workers.refresh(of_runtimes([node(report(VITALS), "dead")]))
    assert shown(metrics) == set()


def test_what_becomes_odd_is_told_once() -> None:
    """When it begins and when it is over, and not with every report between."""
    oddities = Oddities()
    odd, well = report(VITALS).runtimes, report(RuntimeVitals()).runtimes
    slow = Oddity(MODEL, "slow_decode")
    assert oddities.news(odd) == [(slow, True)]
    assert oddities.news(odd) == []
    worse = report(msgspec.structs.replace(VITALS, anomalies=("slow_decode", "memory_growth")))
    assert oddities.news(worse.runtimes) == [(Oddity(MODEL, "memory_growth"), True)]
    assert oddities.news(well) == [(Oddity(MODEL, "memory_growth"), False), (slow, False)]
    assert oddities.news(report(None).runtimes) == []


async def test_a_running_gateway_has_series_and_says_what_is_odd(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are as old as the node's last report; a warning is one line."""
    puppet = stage.add_node()
    await stage.ready()
    for _ in range(3):
        puppet.report(report(VITALS))
    fleet = stage.gateway.mind.coordinator.fleet
    await until(lambda: fleet()[0].about is not None, what="the node has said so")
    told = (await ask(stage.port, "GET", "/metrics")).body.decode()
    assert f'roost_worker_decode_failures{{model="{MODEL}",node="n1"}} 3.0' in told
    lines = [line for line in capsys.readouterr().err.splitlines() if "runtime_odd" in line]
    assert len(lines) == 1
    said = msgspec.json.decode(lines[0])
    assert (said["node"], said["model"], said["kind"]) == ("n1", MODEL, "slow_decode")
    assert said["begins"] is True
