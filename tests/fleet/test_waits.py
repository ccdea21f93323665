"""Waiting times: learned while somebody waits, and guessed from how long places are held."""

from __future__ import annotations

import pytest

from roost.core.ids import ModelId
from roost.fleet.line.waits import Waits

M, N = ModelId("m"), ModelId("n")


def saturated(every_s: float, times: int) -> tuple[Waits, float]:
    """Places that come back at this pace while somebody waits, each held ten times as long."""
    waits, now = Waits(30.0), 100.0
    waits.returned(M, 10 * every_s, now)
    waits.begun(M, now)
    for _ in range(times):
        now += every_s
        waits.returned(M, 10 * every_s, now)
    return waits, now


def test_nothing_known_nothing_foretold() -> None:
    """Before the first place came back, and where none is taken."""
    waits = Waits(30.0)
    waits.begun(M, 0.0)
    waits.ended(M, 1.0)
    assert waits.foretell_s(M, 4, 0, 1.0) is None
    waits.returned(M, 2.0, 1.0)
    assert waits.foretell_s(M, 0, 0, 1.0) is None
    assert waits.foretell_s(N, 4, 0, 1.0) is None


def test_the_time_that_places_are_held_stands_in_at_first() -> None:
    """Four places of two seconds each: one comes back every half second."""
    waits = Waits(30.0)
    waits.returned(M, 2.0, 50.0)
    assert waits.foretell_s(M, 4, 0, 50.0) == pytest.approx(0.5)
    assert waits.foretell_s(M, 4, 5, 50.0) == pytest.approx(3.0)


def test_quiet_times_do_not_count() -> None:
    """A fleet that was hardly asked for is not a slow one, whenever a queue forms."""
    waits = Waits(30.0)
    for n in range(50):
        waits.returned(M, 1.0, 10.0 * n)
    waits.begun(M, 500.0)
    assert waits.foretell_s(M, 2, 0, 500.0) == pytest.approx(0.5)


def test_what_was_seen_while_somebody_waited_wins() -> None:
    """Ten places are said to come back every second, and half of that is seen."""
    waits, now = saturated(every_s=2.0, times=60)
    assert waits.foretell_s(M, 20, 9, now) == pytest.approx(20.0, rel=0.2)
    waits.ended(M, now)
    waits.ended(M, now + 1.0)
    later_s = now + 1000.0
    waits.begun(M, later_s)
    waits.begun(M, later_s + 1.0)
    assert waits.foretell_s(M, 20, 9, later_s) == pytest.approx(20.0, rel=0.2)


def test_a_fleet_that_stalls_is_seen_to_stall() -> None:
    """The longer nothing comes back, the longer the wait that is foretold."""
    waits, now = saturated(every_s=0.5, times=60)
    told = [waits.foretell_s(M, 10, 0, now + stalled_s) for stalled_s in (0.0, 5.0, 20.0)]
    assert told == sorted(told, key=lambda one: one or 0.0)
    assert (told[2] or 0.0) > 1.5 * (told[0] or 0.0)
