"""WIRING: a load at one level after the other: a sweep over them, or a search for the most."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping, Sequence

import msgspec

from roost.bench.load.gates import Gate, seen
from roost.bench.load.measure import Result, measure
from roost.bench.load.plan import Closed, Open, Plan
from roost.bench.load.pressure import Gauge, Pressure
from roost.bench.load.search import Search
from roost.bench.load.summary import Summary
from roost.gateway.upstream.targets import Target

BOUNDS: dict[str, tuple[Gate, ...]] = {
    "admission": (Gate("reject_rate", 0.0999),),
    "slo": (Gate("error_rate", 0.05), Gate("p95_ttft_ms", 30_000), Gate("reject_rate", 0.01)),
}
"""What ends the levels of a search, as in the experiment of system 1: refusals, or bad service."""
PHYSICAL = "physical"
FULL_PCT, LOST_RATE = 90.0, 0.25
"""The third bound of system 1: a server that is as full, or loses as many and refuses none."""


ASKS_LEAST = 2
"""Of every user of a level: who never asks is none, and who asks once does not ask again."""


class Where(msgspec.Struct, frozen=True):
    """The server, whom to trust behind https, and how long it rests between levels.

    While capacity is looked for it is asked every `poll_s` seconds how full it is.
    """

    target: Target
    tls: ssl.SSLContext | None
    cooldown_s: float
    poll_s: float = 2.0


class Step(msgspec.Struct, frozen=True):
    """One level as it was played: requests a second, or users; and how full the server was."""

    level: float
    result: Result
    pressure: Pressure = Pressure()


class Capacity(msgspec.Struct, frozen=True):
    """The most users within each bound, 0 for none, and every level that was played for it.

    Where not even the highest level broke a bound, it is in `unbroken`: the capacity is not known.
    """

    users: dict[str, int]
    unbroken: tuple[str, ...]
    steps: tuple[Step, ...]


async def sweep(
    where: Where,
    plan: Plan,
    loads: Sequence[Open | Closed],
    stop_reject_rate: float,
    told: Callable[[Step], None],
) -> list[Step]:
    """Play one load after the other, up to the first with so large a share of refusals."""
    steps = []
    for number, load in enumerate(loads):
        await asyncio.sleep(where.cooldown_s if number else 0)
        level = load.rate if isinstance(load, Open) else float(load.users)
        steps.append(Step(level, await _played(where, plan, load, number)))
        told(steps[-1])
        if (seen("reject_rate", steps[-1].result.figures) or 0.0) >= stop_reject_rate:
            break
    return steps


async def capacity(
    where: Where,
    plan: Plan,
    search: Search,
    bounds: Mapping[str, tuple[Gate, ...]],
    told: Callable[[Step], None],
) -> Capacity:
    """Play what the search asks for; the plan's load is the closed one of each level.

    The search is for all `bounds` and the physical one.
    """
    steps: list[Step] = []
    assert isinstance(plan.load, Closed), "capacity counts users"
    gauge = Gauge(where.target, where.tls, where.poll_s)
    while (users := search.next_level()) is not None:
        await asyncio.sleep(where.cooldown_s if steps else 0)
        load = msgspec.structs.replace(plan.load, users=users)
        result, pressure = await gauge.during(_played(where, plan, load, len(steps)))
        steps.append(Step(float(users), result, pressure))
        told(steps[-1])
        over = {name: excess(gates, result.figures) for name, gates in bounds.items()}
        search.on_played(users, {**over, PHYSICAL: physical_excess(result.figures, pressure)})
    found = {name: search.found(name) for name in (*bounds, PHYSICAL)}
    highest = max(step.level for step in steps)
    unbroken = tuple(name for name, most in found.items() if most == highest)
    return Capacity(found, unbroken, tuple(steps))


async def _played(where: Where, plan: Plan, load: Open | Closed, number: int) -> Result:
    """Play a level with words of its own; only the first warms up."""
    work = msgspec.structs.replace(plan.work, seed=plan.work.seed + number)
    warmup = 0 if number else plan.warmup
    if isinstance(load, Closed) and load.requests:
        load = msgspec.structs.replace(load, requests=max(load.requests, ASKS_LEAST * load.users))
    block = msgspec.structs.replace(plan, load=load, work=work, warmup=warmup)
    result, _ = await measure(where.target, block, "", tls=where.tls)
    return result


def physical_excess(told: Summary, pressure: Pressure) -> float:
    """Return how far a server is beyond what it can physically do; 0 and less is within that.

    A server that loses requests without refusing any has promised too much.
    """
    lost, refused = seen("error_rate", told) or 0.0, seen("reject_rate", told) or 0.0
    beyond = [pressure.most_pct - FULL_PCT] + ([lost - LOST_RATE] if not refused else [])
    most = max(beyond)
    # Reaching a limit is beyond it here.
    return most or 1e-9


def excess(gates: Sequence[Gate], told: Summary) -> float:
    """Return how far the worst of the bounds was exceeded; a figure that is unknown is too far.

    Latencies of a level at which nothing was answered are unknown.
    """
    values = [seen(gate.figure, told) for gate in gates]
    pairs = zip(values, gates, strict=True)
    return max(1.0 if value is None else value - gate.limit for value, gate in pairs)
