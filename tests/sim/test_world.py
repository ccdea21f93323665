"""Simulated time, processes and alarms."""

from __future__ import annotations

from random import Random

import pytest

from roost.sim.world import Alarm, Process, World


def world() -> World:
    """A world with seeded dice that keeps its log."""
    return World(Random, keep_lines=True)


def test_events_happen_in_order_of_time_then_of_asking() -> None:
    """Equal times keep their order, and the clock jumps from one to the next."""
    one = world()
    seen: list[tuple[str, float]] = []
    for name, delay_s in (("c", 2.0), ("a", 1.0), ("b", 1.0)):
        one.at(delay_s, lambda name=name: seen.append((name, one.now)))  # type: ignore[misc]
    one.run(1.5)
    assert seen == [("a", 1.0), ("b", 1.0)]
    assert one.now == 1.5
    one.run(9.0)
    assert seen[-1] == ("c", 2.0)
    assert one.events == 3


def test_a_stopped_process_catches_up_in_order() -> None:
    """What happens to a stopped process piles up; what happens to a dead one is lost."""
    one = world()
    process = Process(one, "p")
    seen: list[int] = []
    for n in range(3):
        process.after(float(n), lambda n=n: seen.append(n))  # type: ignore[misc]
    one.run(0.5)
    process.stop()
    one.run(5.0)
    assert (seen, process.stopped) == ([0], True)
    process.resume()
    assert seen == [0, 1, 2]
    process.after(1.0, lambda: seen.append(9))
    process.kill()
    one.run(9.0)
    assert seen == [0, 1, 2]


def test_alarm_keeps_the_earliest_time() -> None:
    """A later wish does not move a timer, an earlier one does, and each fires once."""
    one = world()
    fired: list[float] = []
    alarm = Alarm(Process(one, "p"), lambda: fired.append(round(one.now, 3)))
    alarm.set(3.0)
    alarm.set(5.0)
    alarm.set(2.0)
    alarm.set(None)
    one.run(10.0)
    assert fired == [2.0]
    alarm.set(1.0)
    one.run(11.0)
    assert fired == [2.0, 10.0]


def test_log_has_a_hash() -> None:
    """Equal logs have equal hashes; one character makes another."""
    first, second, third = world(), world(), world()
    first.log("x")
    second.log("x")
    third.log("y")
    assert first.digest == second.digest != third.digest
    assert first.lines == ["0.000000 x\n"]


def test_going_round_in_circles_is_a_finding() -> None:
    """A loop in which no time passes ends the run and not the patience of the reader."""
    one = world()

    def again() -> None:
        one.at(0.0, again)

    again()
    with pytest.raises(AssertionError, match="round in circles"):
        one.run(1.0)
