"""SHELL: E1: what admission does to latency, one node and three, below capacity and far above."""

from __future__ import annotations

from functools import partial

import msgspec

from roost.bench.drills.sweep import (
    FLAT,
    LIMIT,
    PIECES,
    TOKENS,
    Setup,
    Swept,
    judge,
    point,
    swept,
)
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Lines, Verdict, verdict
from roost.bench.load.curves import Curve

GAP_MS = 50.0
"""So slow that what other jobs on the machine add to a latency is a small part of it."""
REAL_FLAT = 2.0
"""How far p99 of a real model may move: two answers beside each other are slower than one alone."""

ABOUT = About(
    name="E1",
    title="Latency with and without admission",
    question="""
Does a limit on the requests in flight keep latency flat when more is offered than can be served,
and what happens without it?""",
    method=f"""
A stateless gateway before one server, then three, {LIMIT} slots each, with a limit of {LIMIT}
requests in flight per server, and beside it another one without any limit before servers of its
own.

An open loop at constant rates around the knee: times are fixed in advance, and latency counts from
when a request was due.

Scripted answers have {PIECES} pieces, {GAP_MS:g} ms apart, so capacity is known; every prompt is
another one, so nothing is found in a cache.

A pass with a real model follows ({TOKENS} tokens an answer), whose capacity is measured first; with
and without admission run one after the other there.

The interval holds the true p99 in 95 of 100 runs, by its binomial ranks.""",
    accept=f"""
With admission p99 stays within {FLAT:g} of the lowest rate's at every rate ({REAL_FLAT:g} for the
real model); without, it grows with the rate.""",
    shows="""
How long those wait who are served: with admission about as long far above capacity as below it, and
without it for a backlog that grows as long as the rate is offered.

Whether three servers change more than the place of the knee.

Whether refusing costs throughput: served requests per second beside each other.""",
    hides="""
How long a person waits who tries again after each refusal: a bounded queue does that for them, and
is not used here.

The largest backlog: the last points of the curves without admission would be higher in a longer
run.

Much about p99 where answers are few: it is nearly the slowest of them then, and the interval, whose
upper end is the slowest, no bound.""",
    real=True,
)


class Plan(msgspec.Struct, frozen=True):
    """What is swept with scripted servers and with the real model."""

    scripted: Setup = Setup(level_s=12.0, gap_ms=GAP_MS)
    real: Setup = Setup((0.4, 1.2, 2.5), 10.0, 6.0)


class Seen(msgspec.Struct, frozen=True):
    """Sweeps before one scripted server, three, and one with a real model."""

    one: Swept
    three: Swept
    real: Swept


async def run(house: House, plan: Plan) -> Seen:
    """Sweep three times."""
    return Seen(
        await house.act(partial(swept, setup=plan.scripted, count=1)),
        await house.act(partial(swept, setup=plan.scripted, count=3)),
        await house.act_real(partial(swept, setup=plan.real, count=1)),
    )


def judged(seen: Seen) -> Verdict:
    """Judge each sweep, and draw p99 against what was offered."""
    real = judge(seen.real, REAL_FLAT)
    named = msgspec.structs.replace(real, drill=f"{real.drill}, real model")
    graph = Lines(
        "p99 against offered rate, with and without admission",
        "requests offered per second",
        "p99 of what was served, ms",
        (*_curves(seen.one, "one node"), *_curves(seen.three, "three nodes")),
    )
    beside = Lines(
        "the same with a real model, one node",
        "requests offered per second",
        "p99 of what was served, ms",
        _curves(seen.real, "real model"),
    )
    return verdict([judge(seen.one), judge(seen.three), named], graph, beside)


def _curves(seen: Swept, name: str) -> tuple[Curve, ...]:
    """Draw one curve with admission and one without."""
    points = [point(level) for level in seen.levels]
    return tuple(
        Curve(
            f"{name}, {'with' if admission else 'without'} admission",
            tuple((p.rate, 1000 * p.p99_s) for p in points if p.admission is admission),
        )
        for admission in (True, False)
    )


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
