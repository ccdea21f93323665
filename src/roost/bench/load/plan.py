"""DECIDER: a load as a person asked for it: what is sent, when, and for how long."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from roost.bench.load.schedule import Arrivals, check_load, due_times
from roost.bench.load.summary import Slo
from roost.bench.load.traces import Traced
from roost.bench.load.workload import Ask, DiceOf, Workload, traced

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

HASHED_MAX = 2000
"""Requests whose words stand for the whole workload in its hash."""


class Manner(msgspec.Struct, frozen=True):
    """How every request is asked: sampling, the longest that it may take, and more of its body."""

    temperature: float = 0.0
    seed: int | None = None
    timeout_s: float = 120.0
    more: tuple[tuple[str, object], ...] = ()


class Open(msgspec.Struct, frozen=True, tag="open"):
    """So many requests a second for so long, however long answers take.

    `ValueError` for numbers that are no load: nobody is asked before that is known.
    """

    rate: float
    duration_s: float
    arrivals: Arrivals = "poisson"
    burst: int = 8
    users_max: int = 2000

    def __post_init__(self) -> None:
        """Check it."""
        check_load(self.rate, self.duration_s, self.burst)


class Closed(msgspec.Struct, frozen=True, tag="closed"):
    """So many users, each asking again when it has its answer; 0 requests are without end."""

    users: int
    requests: int
    duration_s: float


class Trace(msgspec.Struct, frozen=True, tag="trace"):
    """Requests as they were recorded, stretched in time and length."""

    requests: tuple[Traced, ...]
    length: float
    users_max: int = 2000


class Plan(msgspec.Struct, frozen=True):
    """A load. `warmup` requests are asked one after the other first, and not counted."""

    load: Open | Closed | Trace
    work: Workload
    manner: Manner
    slo: Slo
    warmup: int = 0


def asks_of(plan: Plan, dice_of: DiceOf) -> Callable[[int], Ask]:
    """Return what writes request n."""
    load, work = plan.load, plan.work
    if not isinstance(load, Trace):
        return partial(work.ask, dice_of=dice_of)
    requests, length = load.requests, load.length
    models = work.models

    def ask(number: int) -> Ask:
        model = models[number % len(models)]
        return traced(requests[number], model, length, dice_of)

    return ask


def due_of(load: Open | Trace, dice: random.Random) -> list[float]:
    """Return when every request of an open loop is due."""
    if isinstance(load, Trace):
        return [one.due_s for one in load.requests]
    return due_times(load.arrivals, load.rate, load.duration_s, load.burst, dice)


def hashed(ask: Callable[[int], Ask], count: int) -> list[Ask]:
    """Return the requests by whose words two workloads are told apart.

    `count` is how many there are, 0 where it has no end.
    """
    return [ask(number) for number in range(min(count or HASHED_MAX, HASHED_MAX))]
