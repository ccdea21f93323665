"""SHELL: E7: what clients that never read cost everybody else."""

from __future__ import annotations

from functools import partial

import msgspec

from roost.bench.claims import quantile
from roost.bench.drills.slow_client import (
    GAP_MS,
    GAP_RATIO_P50,
    GAP_RATIO_P99,
    LATE_S,
    STUCK,
    WRITE_DEADLINE_S,
    Slow,
    judge,
    slowed_gateway,
    slowed_serve,
)
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Bars, Verdict, verdict

ABOUT = About(
    name="E7",
    title="Clients that do not read",
    question="""
Some clients ask for long answers and never read them. Do their neighbours notice, and what becomes
of them?""",
    method=f"""
One client reads an answer whose pieces come {GAP_MS:g} ms apart, first alone, then while {STUCK}
others have asked for answers without end over sockets with hardly any buffer, and read nothing.

The deadline for writing is set to {WRITE_DEADLINE_S:g} s. The same is done to `roost serve` and to
a stateless gateway before a server.""",
    accept=f"""
The neighbour's gaps grow by at most {GAP_RATIO_P50:g} (median) and {GAP_RATIO_P99:g} (p99), the
stuck ones lose their place within {LATE_S:g} s of the deadline and are never told that they were
answered, memory does not grow with what they do not read, and every slot serves afterwards.""",
    shows="""
Whether a stream is slowed by neighbours that do not read, on a gateway and on a node.

How long such a client keeps a slot, and that its stream has no clean end.""",
    hides="""
What many thousands of them cost: there are as many here as slots allow.

Memory without a deadline: the deadline ends them before much could pile up, which is its purpose.
""",
)


class Plan(msgspec.Struct, frozen=True):
    """How long the neighbour reads."""

    seconds: float = 6.0


class Seen(msgspec.Struct, frozen=True):
    """Stuck clients of `roost serve`, and of a stateless gateway."""

    served: Slow
    relayed: Slow


async def run(house: House, plan: Plan) -> Seen:
    """Let them get stuck at both."""
    return Seen(
        await house.act(partial(slowed_serve, seconds=plan.seconds)),
        await house.act(partial(slowed_gateway, seconds=plan.seconds)),
    )


def judged(seen: Seen) -> Verdict:
    """Judge both, and draw the neighbour's gaps."""
    groups = tuple(
        (
            f"{slow.where}, {name}",
            tuple(1000 * quantile(slow_gaps.gaps_s, q) for q in (0.5, 0.99)),
        )
        for slow in (seen.served, seen.relayed)
        for name, slow_gaps in (("alone", slow.alone), ("beside", slow.beside))
    )
    picture = Bars("gaps of the neighbour", "ms between pieces", ("p50", "p99"), groups)
    return verdict([judge(seen.served), judge(seen.relayed)], picture)


EXPERIMENT = Experiment(ABOUT, Plan(), Seen, run, judged)
