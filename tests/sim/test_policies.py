"""Policies side by side: same traffic for all, and the learned one wins where nodes differ."""

from __future__ import annotations

import msgspec
import pytest

from roost.sim import policies
from roost.sim.policies import WORLDS, percentile, played, result


def test_percentiles() -> None:
    """The value below which a share lies; nothing has none."""
    assert percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert percentile([1.0], 0.99) == 1.0
    assert percentile([], 0.5) == 0.0


@pytest.mark.slow
def test_predicted_beats_load_on_unequal_nodes() -> None:
    """Where one node is eight times faster than another, knowing it shortens the slow answers."""
    world = msgspec.structs.replace(WORLDS["unequal nodes"], duration_s=120.0)
    totals = {
        policy: result([played(world, "unequal nodes", policy, seed) for seed in (1, 2)])
        for policy in ("predicted", "least_inflight")
    }
    assert totals["predicted"].total_p95_s < 0.9 * totals["least_inflight"].total_p95_s


def test_the_table_has_a_line_for_every_policy(capsys: pytest.CaptureFixture[str]) -> None:
    """Markdown, as the decision record quotes it."""
    small = msgspec.structs.replace(WORLDS["equal nodes"], duration_s=5.0)
    policies.tabulate(1, {"equal nodes": small})
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 + 7
    assert all(line.startswith(("| ", "|-")) for line in lines)
