"""A gateway of somebody else's is started before servers, and struck like a fleet."""

from __future__ import annotations

from pathlib import Path

import pytest

from roost.bench.chaos.columns import front_verdicts
from roost.bench.chaos.play import Plan, play_before
from roost.bench.chaos.seen import Struck
from roost.gateway.loop import run

STARTS = (
    *("Every request that was accepted", "kill -9 of a node costs", "Text arrives in order"),
    *("A gateway whose port is taken", "Nothing new goes to a drained", "A full disk"),
)


@pytest.mark.drill
@pytest.mark.timeout(300)
def test_a_gateway_of_nobodys_has_verdicts_of_its_own(environment: Path) -> None:
    """It hands bytes on: it breaks what it knows nothing of, and keeps what needs no knowledge."""
    told: list[Struck] = []
    plan = Plan(3, ("kill-node", "port-taken", "restart-gateway", "drain"), pace_s=1.0, per_s=4.0)
    seen = run(play_before(plan, "vllm-router", environment, told.append))
    assert seen is not None
    assert (tuple(told), seen.held) == (seen.strikes, {})
    assert {one.fault for one in told} == {"kill-node", "port-taken", "restart-gateway"}
    found = {one.promise: one.kept for one in front_verdicts(seen)}
    by_start = {
        start: kept for start in STARTS for name, kept in found.items() if name.startswith(start)
    }
    assert list(by_start.values()) == ["broken", "broken", "kept", "kept", "untried", "not offered"]


def test_who_is_not_installed_is_not_tried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is started for it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(play_before(Plan(1), "smg", tmp_path)) is None
