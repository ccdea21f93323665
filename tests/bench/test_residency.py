"""The benchmark of many models: it sees what it is about, and the verdict follows the figures."""

from __future__ import annotations

import pytest

from roost.bench.residency import Figures, measure, report


@pytest.mark.slow
async def test_a_full_node_tells_of_a_load_and_begins_others_beside_it() -> None:
    """16 runtimes in use and a load that holds on: reports are taken and further loads begin."""
    figures = await measure(snapshots=3, starts=2)
    assert len(figures.snapshots_ms) == 3
    assert len(figures.starts_ms) == 2
    assert all(value > 0 for value in (*figures.snapshots_ms, *figures.starts_ms))
    assert "calibration loop" in report(figures).text()


def test_the_verdict_follows_the_figures() -> None:
    """The median report, and every start but the slowest, has a bar; loops are told beside it."""
    good = report(Figures((0.2, 0.4, 9.0), (10.0, 49.0, 900.0), 20.0))
    assert good.passed, good.text()
    assert good.figures == {"snapshot_ms": 0.4, "start_ms": 49.0}
    assert "0.020" in good.text()
    assert not report(Figures((1.1, 1.1, 0.1), (10.0, 49.0, 900.0), 20.0)).passed
    assert not report(Figures((0.2, 0.4, 9.0), (10.0, 51.0, 52.0), 20.0)).passed
