"""Every drill in its short form, overload too: real processes, killed, flooded and abandoned."""

from __future__ import annotations

import pytest

from roost.bench.drills.__main__ import DRILLS, play
from roost.bench.drills.plan import Plan
from roost.bench.overload import SHORT
from roost.bench.overload import play as overload

pytestmark = pytest.mark.drill


@pytest.mark.parametrize("name", DRILLS)
async def test_a_drill_holds(name: str) -> None:
    """Whatever the drill claims is so; its report says what was seen."""
    report = await play(DRILLS[name], Plan(short=True))
    assert report.checks
    assert report.passed, report.text()


async def test_overload_is_answered_honestly() -> None:
    """What needs no quiet machine: all are served or refused with a hint, and nothing is held."""
    report = await overload(SHORT)
    held = {check.claim: check.met for check in report.checks}
    assert held["every refusal says when to come back"]
    assert held["neither served nor refused"]
    assert held["held afterwards"]
    assert report.figures["goodput_10x"] > 0.4, report.text()
