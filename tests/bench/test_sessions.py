"""The benchmark of sessions: it measures what it says, and its verdict follows the figures."""

from __future__ import annotations

import pytest

from roost.bench.drills.stage import Stage
from roost.bench.sessions import Setup, measure, report
from roost.core.snapshots import SessionsView

SLOW_PREFILL = '@script {"prefill_ms_per_token": 1.0}\n'


@pytest.mark.drill
async def test_turns_are_measured_wherever_their_kv_was() -> None:
    """On scripted slots: what is warm or put aside takes a fraction of what is computed."""
    setup = Setup(words=50, rounds=1, disk_only_bytes=4000, opening=SLOW_PREFILL)
    with Stage() as stage:
        told = await measure(stage, setup)
    assert told.figures["tokens"] > 200
    for kind in ("warm", "memory", "disk"):
        assert told.figures[f"{kind}_over_cold"] < 0.6, told.text()
    came_back = [check.met for check in told.checks if check.claim.startswith("brought back")]
    assert came_back == [True, True], told.text()


def test_the_verdict_follows_the_figures() -> None:
    """Bars are about medians over cold, and about who really came back."""
    took = {"cold": [1.0, 2.0, 1.0], "warm": [0.2], "memory": [0.3], "disk": [0.5]}
    views = {"memory": SessionsView(restores=1), "disk": SessionsView(restores=1)}
    good = report(took, views, 1000)
    assert good.passed
    assert good.figures["memory_over_cold"] == 0.3
    assert not report({**took, "memory": [0.4]}, views, 1000).passed
    assert not report({**took, "warm": [0.3]}, views, 1000).passed
    lost = {**views, "disk": SessionsView()}
    assert not report(took, lost, 1000).passed
    failed = {**views, "disk": SessionsView(restores=1, failures=1)}
    assert not report(took, failed, 1000).passed
