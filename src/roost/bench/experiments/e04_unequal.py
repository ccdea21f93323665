"""SHELL: E4: whether the share of a fast node follows its speed."""

from __future__ import annotations

from functools import partial

import msgspec

from roost.bench.drills.paced_node import PIECES
from roost.bench.drills.unequal import (
    DELAYS_MS,
    LEAST_RATIO,
    LOAD,
    SLACK,
    SLOTS,
    SPEED,
    Shares,
    judge,
    served_by,
    shared,
)
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Bars, Verdict, verdict

ABOUT = About(
    name="E4",
    title="Machines of different speed",
    question="""
One node is several times as fast as two others. Does it get its share of the work, without anybody
telling weights?""",
    method=f"""
Three scripted nodes of {SLOTS} slots answer with {PIECES} pieces each, one of them {SPEED:g} times
as fast as the two others ({", ".join(f"{n}: {d:g} ms a piece" for n, d in DELAYS_MS.items())}).

An open loop offers {LOAD:.0%} of what all can do, to two fleets at the same time: one that places
by predicted time (the default), and one by requests in flight, as system 2 did.""",
    accept=f"""
The fast node serves at least {SPEED / 2:g} times as much as a slow one with the default policy and
{LEAST_RATIO:g} times with the other one, and the default's median latency is at most {SLACK:g}
times the other's.""",
    shows="""
How far the share of served requests follows speed with either policy, and what that is worth in
latency.""",
    hides="""
Exact proportion: below capacity a slow node that is idle is still quicker than a fast one that is
full, so a good policy does not stick to the ratio of speeds.

Models of different size: here all run the same one.""",
)


class Plan(msgspec.Struct, frozen=True):
    """How long the load is offered."""

    seconds: float = 20.0


async def run(house: House, plan: Plan) -> Shares:
    """Offer it."""
    return await house.act(partial(shared, seconds=plan.seconds))


def judged(seen: Shares) -> Verdict:
    """Judge shares, and draw them."""
    groups = []
    for policy, answers in seen.by_policy.items():
        served = served_by(answers)
        groups.append((policy, tuple(float(served[name]) for name in DELAYS_MS)))
    picture = Bars("answers of each node", "whole answers", tuple(DELAYS_MS), tuple(groups))
    return verdict([judge(seen)], picture)


EXPERIMENT = Experiment(ABOUT, Plan(), Shares, run, judged)
