"""A seed is a schedule, and a log says how many loads there were at once."""

from __future__ import annotations

import json
import random

from roost.bench.chaos.play import Plan
from roost.bench.chaos.schedule import FAULTS, schedule
from roost.bench.chaos.strikes import cold_model, loads_at_once


def test_the_same_seed_is_the_same_schedule() -> None:
    """And another one is another."""
    assert Plan(7).strikes == Plan(7).strikes
    assert Plan(7).strikes != Plan(8).strikes


def test_every_fault_comes_once_in_each_round() -> None:
    """At its own pace, and on members that there are."""
    strikes = schedule(FAULTS, 3, 4, 2.0, random.Random(1))
    for number in range(3):
        part = strikes[number * len(FAULTS) : (number + 1) * len(FAULTS)]
        assert {one.fault for one in part} == set(FAULTS)
    assert {one.member for one in strikes} <= set(range(4))
    assert all(1.0 <= one.pause_s <= 3.0 and 1.0 <= one.lasts_s <= 3.0 for one in strikes)


def test_faults_can_be_chosen() -> None:
    """Two of them, twice."""
    strikes = Plan(1, faults=("drain", "stampede"), rounds=2).strikes
    assert sorted(one.fault for one in strikes) == ["drain", "drain", "stampede", "stampede"]


def log(*events: tuple[str, str, str]) -> str:
    """Write a log of (time, event, runtime)."""
    lines = [json.dumps({"timestamp": t, "event": e, "runtime": r}) for t, e, r in events]
    return "\n".join(["no JSON", *lines])


def test_loads_are_counted_until_the_first_is_over() -> None:
    """A later one is a model that is loaded again because its places are taken."""
    model, other = cold_model(0), cold_model(1)
    one = ("2026-01-01T00:00:01", "runtime_loading", f"{model}#1")
    ready = ("2026-01-01T00:00:02", "runtime_ready", f"{model}#1")
    later = ("2026-01-01T00:00:03", "runtime_loading", f"{model}#2")
    beside = ("2026-01-01T00:00:01", "runtime_loading", f"{model}#2")
    foreign = ("2026-01-01T00:00:01", "runtime_loading", f"{other}#3")
    assert loads_at_once(log(one, ready, later, foreign), model) == 1
    assert loads_at_once(log(one, beside, ready), model) == 2
    assert loads_at_once(log(one, beside), model) == 2
    assert loads_at_once("", model) == 0
