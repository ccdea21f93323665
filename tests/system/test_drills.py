"""Every drill in its short form: real processes, killed, flooded and abandoned."""

from __future__ import annotations

import pytest

from roost.bench.drills.__main__ import DRILLS, play
from roost.bench.drills.plan import Plan


@pytest.mark.slow
@pytest.mark.parametrize("name", DRILLS)
async def test_a_drill_holds(name: str) -> None:
    """Whatever the drill claims is so; its report says what was seen."""
    report = await play(DRILLS[name], Plan(short=True))
    assert report.checks
    assert report.passed, report.text()
