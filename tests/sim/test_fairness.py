"""One tenant's flood against the others' waiting times: the same traffic with it and without."""

from __future__ import annotations

import msgspec
import pytest

from roost.sim.history import History
from roost.sim.play import Parts, Stage
from roost.sim.policies import percentile
from roost.sim.run import scenarios
from roost.sim.scenario import Scenario
from roost.sim.traffic.workload import FLOOD

KNOWN = scenarios()
USUAL_PER_S = 5.0


def played(scenario: Scenario, seed: int) -> History:
    """One run's history."""
    stage = Stage(scenario, "flood", seed, Parts(), keep_lines=False)
    stage.play()
    return stage.history


@pytest.mark.slow
def test_a_flood_at_ten_times_hardly_delays_the_others() -> None:
    """The others' p95 from arrival to first byte rises by less than a fifth, and none is refused.

    Without the flood that tenant asks for what is left of the fleet, so that all places are taken
    then too: what is measured is what asking ten times as often buys at the others' expense.
    """
    world = msgspec.structs.replace(KNOWN["flood"], duration_s=60.0)
    firsts: list[list[float]] = []
    for rate_per_s in (USUAL_PER_S, 10 * USUAL_PER_S):
        traffic = msgspec.structs.replace(
            world.traffic, flood_s=(5.0, 55.0), flood_per_s=rate_per_s
        )
        scenario = msgspec.structs.replace(world, traffic=traffic)
        firsts.append(
            [
                trace.first_byte_s - trace.arrived_s
                for seed in range(1, 4)
                for trace in played(scenario, seed).traces.values()
                if trace.tenant != FLOOD and trace.first_byte_s is not None
            ]
        )
    usual, flooded = firsts
    assert len(flooded) >= 0.98 * len(usual)
    assert percentile(flooded, 0.95) < 1.2 * percentile(usual, 0.95)
