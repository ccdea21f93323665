"""SHELL: E2: whether idle servers that tie share the work, and what a stable sort did instead."""

from __future__ import annotations

from functools import partial

import msgspec

from roost.bench.drills.ties import MEMBERS, SIGMAS, SKEW, Picks, judge, picked
from roost.bench.experiments.frame import Experiment, House
from roost.bench.experiments.telling import About, Bars, Verdict, verdict

ABOUT = About(
    name="E2",
    title="The tie bug",
    question="""
At a low rate every server is idle and all tie. Do ties have an order, so that one server gets all
the work?""",
    method=f"""
A stateless gateway before {MEMBERS} idle scripted servers is asked one request at a time, so that
every choice is a tie.

The decider of that gateway, alone and without any process, makes as many choices twice: once with
dice, and once with the first of those that tie in the place of dice, which is what a stable sort
does.""",
    accept=f"""
With dice no server's count is further than {SIGMAS:g} standard deviations from an even share;
by order the first server gets at least {SKEW:.0%}.""",
    shows="""
That shuffling before sorting cures the bug of system 2, in the decider and in a whole gateway.

That the bug is still there to be seen once the dice are taken away, so the cure is what cures.""",
    hides="""
Anything about servers that are busy or differ: then counts no longer tie, and E4 is about that.

Small biases: a preference of a few percent hides in so many draws.""",
)


class Plan(msgspec.Struct, frozen=True):
    """How often is asked."""

    count: int = 900


async def run(house: House, plan: Plan) -> Picks:
    """Ask."""
    return await house.act(partial(picked, count=plan.count))


def judged(seen: Picks) -> Verdict:
    """Judge the counts, and draw them."""
    names = sorted(seen.thrown)
    rows = (
        ("real gateway", seen.gateway),
        ("decider, random ties", seen.thrown),
        ("decider, ties by order", seen.ordered),
    )
    groups = tuple(
        (what, tuple(float(counts.get(name, 0)) for name in names)) for what, counts in rows
    )
    return verdict([judge(seen)], Bars("picks of each server", "picks", tuple(names), groups))


EXPERIMENT = Experiment(ABOUT, Plan(), Picks, run, judged)
