"""SHELL: E2, the tie bug: at a low rate all servers tie, and ties must not have an order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from math import sqrt
from typing import TypeVar, cast

from roost.bench.drills import fleets
from roost.bench.drills.asking import Chat, ask, scripted
from roost.bench.drills.plan import Plan
from roost.bench.drills.report import Report, at_least, at_most, table
from roost.bench.drills.stage import Stage
from roost.fleet.upstream_effects import Granted
from roost.fleet.upstream_pool import PoolSettings, UpstreamPool

MEMBERS = 3
SIGMAS = 4.0
SKEW = 0.9
Item = TypeVar("Item")


class FirstOfTies:
    """What a stable sort does with ties, in the place of dice: the bug, for comparison alone."""

    def choice(self, items: Sequence[Item]) -> Item:
        """Take the first."""
        return items[0]


async def servers(stage: Stage, plan: Plan) -> Report:
    """Ask one at a time before three idle servers; then let the decider break ties by order."""
    count = round(plan.pick(short=150, full=900))
    fleet = await fleets.servers(stage, MEMBERS, ())
    dice = random.Random(7)
    picked: Counter[str] = Counter()
    for _ in range(count):
        answer = await ask(Chat(fleet.port, stage.model, scripted(dice, 1, 0.0)))
        picked[answer.node] += answer.end == "complete"
    ordered = decided(count, cast("random.Random", FirstOfTies()))
    thrown = decided(count, random.Random(7))
    names = sorted(fleet.members)
    rows = [
        [what, *(str(counts[name]) for name in names)]
        for what, counts in (
            ("real gateway", picked),
            ("decider, random ties", thrown),
            ("decider, ties by order", ordered),
        )
    ]
    # Standard deviation of one server's count when each pick is fair.
    sigma = sqrt(count * (1 / MEMBERS) * (1 - 1 / MEMBERS))
    off = max(abs(picked[name] - count / MEMBERS) for name in names) / sigma
    skew = max(ordered.values()) / count
    checks = (
        at_least("picks that were answered", sum(picked.values()), count),
        at_most("a server's count is off by", off, SIGMAS, " sigma"),
        at_least("by order, share of the first server", skew, SKEW),
    )
    figures = {"off_sigma": off, "ordered_share": skew}
    return Report("E2 tie bug", (table(("picks", *names), rows),), figures, checks)


def decided(count: int, dice: random.Random) -> Counter[str]:
    """Let the pool decide for requests that come one at a time; return picks by server."""
    pool = UpstreamPool([f"upstream-{n}" for n in range(1, MEMBERS + 1)], PoolSettings())
    for number in range(1, MEMBERS + 1):
        pool.on_probed(f"upstream-{number}", 0.0, dice, ok=True)
    picks: Counter[str] = Counter()
    for ticket in range(count):
        granted = pool.on_request(ticket, float(ticket), dice)
        assert isinstance(granted, Granted), "idle servers have room"
        picks[granted.lease.server] += 1
        pool.on_released(granted.lease, ticket + 0.5, dice, served=True)
    return picks
