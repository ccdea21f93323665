"""Looks at a fleet in time, whatever a look takes and whoever is killed meanwhile."""

from __future__ import annotations

import asyncio
import os
import subprocess
from http.client import IncompleteRead
from types import SimpleNamespace
from typing import cast

from roost.bench.chaos.play import Plan
from roost.bench.chaos.soak import READINGS_MIN, Reading
from roost.bench.chaos.watch import READ_S, Watch, next_look
from roost.bench.drills.fleets import Fleet
from roost.bench.drills.stage import Running, Stage


class Dying(Running):
    """A gateway that is killed while it tells its metrics; nothing is left of its process."""

    def __init__(self, over: asyncio.Event) -> None:
        self._over = over
        self.process = cast("subprocess.Popen[bytes]", SimpleNamespace(pid=os.getpid()))

    async def get(self, path: str) -> bytes:
        """Say half of it."""
        self._over.set()
        raise IncompleteRead(path.encode(), 100)


async def test_a_gateway_that_dies_in_mid_word_ends_no_watch() -> None:
    """It says nothing then, and is looked at again."""
    over = asyncio.Event()
    fleet = Fleet(cast("Stage", None), "nodes", Dying(over))
    watch = Watch(fleet, asyncio.get_running_loop().time)
    await watch.run(over)
    assert over.is_set()
    assert [one.tasks for one in watch.readings if one.tasks is not None] == []


def test_a_slow_look_makes_the_next_one_no_later() -> None:
    """It is due so long after the last one was; those that were missed are left out."""
    assert next_look(10.0, 10.0) == 10.0 + READ_S
    assert next_look(10.0, 10.0 + READ_S / 2) == 10.0 + READ_S
    assert next_look(10.0, 10.0 + 5 * READ_S) == 10.0 + 5 * READ_S


def test_a_long_run_goes_on_until_it_can_be_judged() -> None:
    """A slow machine has fewer looks in its minutes; a short run is not made a long one."""
    plan = Plan(seed=1, minutes=1.3)
    assert not plan.is_over(77.0, READINGS_MIN)
    assert not plan.is_over(79.0, READINGS_MIN - 1)
    assert plan.is_over(79.0, READINGS_MIN)
    short = Plan(seed=1, minutes=0.1)
    assert not short.is_over(6.1, 2)
    assert short.is_over(6.1, 3)


def test_the_least_seen_is_what_counts() -> None:
    """One that nobody has seen was seen never."""
    fleet = Fleet(cast("Stage", None), "nodes", Dying(asyncio.Event()))
    watch = Watch(fleet, lambda: 0.0)
    assert watch.least == 0
    watch.readings += [Reading(0.0, "gateway", 7, 1, 1, 1)] * 3
    assert watch.least == 3
    fleet.members["n1"] = fleet.gateway
    assert watch.least == 0
    watch.readings += [Reading(0.0, "n1", 8, 1, 1, 1)]
    assert watch.least == 1
