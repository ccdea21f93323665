"""What the gateway tells clients of system 1 about its workers."""

from __future__ import annotations

from typing import cast

from tests.gateway.conftest import Stage, ask


async def test_errors_at_these_addresses_are_plain(stage: Stage) -> None:
    """Also what never reached a route has `error` as a text here, and as an object elsewhere."""
    here = await ask(stage.port, "GET", "/coordinator/nothing")
    assert here.status == 404
    assert isinstance(here.json()["error"], str)
    there = await ask(stage.port, "GET", "/v1/nothing")
    assert isinstance(there.json()["error"], dict)


async def test_health_and_stats_are_told_as_system_1_did(stage: Stage) -> None:
    """Workers, counts and totals, with null for what nobody knows."""
    ok = await ask(stage.port, "GET", "/coordinator/health")
    assert (ok.status, ok.body) == (200, b"OK")
    assert ok.headers["content-type"].startswith("text/plain")
    empty = await ask(stage.port, "GET", "/coordinator/health/workers")
    assert empty.json() == {
        "workers": [],
        "counts": {"alive": 0, "stale": 0, "dead": 0},
        "total": 0,
    }
    stage.add_node("w1")
    await stage.ready()
    listed = (await ask(stage.port, "GET", "/coordinator/health/workers")).json()
    assert listed["counts"] == {"alive": 1, "stale": 0, "dead": 0}
    (worker,) = cast("list[dict[str, object]]", listed["workers"])
    assert (worker["id"], worker["status"]) == ("w1", "alive")
    assert isinstance(worker["lastHeartbeat"], int)
    free = (await ask(stage.port, "GET", "/coordinator/health/workers/available")).json()
    assert free["count"] == 1
    assert cast("list[dict[str, object]]", free["workers"])[0].keys() == {"id", "url", "health"}
    stats = (await ask(stage.port, "GET", "/coordinator/stats")).json()
    cluster = cast("dict[str, object]", stats["cluster"])
    assert cluster["alive"] == 1
    assert cluster["in_flight_decodes_per_worker"] == {"w1": 0}
    assert stats.keys() == {"fetched_at", "cluster", "workers"}
