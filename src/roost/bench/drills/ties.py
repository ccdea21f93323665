"""SHELL: E2, the tie bug: at a low rate all servers tie, and ties must not have an order."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from math import sqrt
from typing import TypeVar, cast

import msgspec

from roost.bench.claims import Report, at_least, at_most, table
from roost.bench.drills import fleets
from roost.bench.drills.asking import Chat, ask, scripted
from roost.bench.drills.plan import Plan
from roost.bench.drills.stage import Stage
from roost.fleet.upstream.effects import Granted
from roost.fleet.upstream.pool import PoolSettings, UpstreamPool

MEMBERS = 3
SIGMAS = 4.0
SKEW = 0.9
Item = TypeVar("Item")


class FirstOfTies:
    """What a stable sort does with ties, in the place of dice: the bug, for comparison alone."""

    def choice(self, items: Sequence[Item]) -> Item:
        """Take the first."""
        return items[0]


class Picks(msgspec.Struct, frozen=True):
    """Picks by server: of a real gateway, of its decider with dice, and of the decider without."""

    count: int
    gateway: dict[str, int]
    thrown: dict[str, int]
    ordered: dict[str, int]


async def servers(stage: Stage, plan: Plan) -> Report:
    """Ask one at a time before three idle servers; then let the decider break ties by order."""
    return judge(await picked(stage, round(plan.pick(short=150, full=900))))


async def picked(stage: Stage, count: int) -> Picks:
    """Ask so often, one at a time, and let the decider decide as often."""
    fleet = await fleets.servers(stage, MEMBERS, ())
    dice = random.Random(7)
    picks = Counter[str](dict.fromkeys(fleet.members, 0))
    for _ in range(count):
        answer = await ask(Chat(fleet.port, stage.model, scripted(dice, 1, 0.0)))
        picks[answer.node] += answer.end == "complete"
    ordered = decided(count, cast("random.Random", FirstOfTies()))
    return Picks(count, picks, decided(count, random.Random(7)), ordered)


def judge(picks: Picks) -> Report:
    """Compare counts with what fair dice give, and those by order with all for the first."""
    count, names = picks.count, sorted(picks.thrown)
    rows = [
        [what, *(str(counts.get(name, 0)) for name in names)]
        for what, counts in (
            ("real gateway", picks.gateway),
            ("decider, random ties", picks.thrown),
            ("decider, ties by order", picks.ordered),
        )
    ]
    # Standard deviation of one server's count when each pick is fair.
    sigma = sqrt(count * (1 / MEMBERS) * (1 - 1 / MEMBERS))
    off = max(abs(picks.gateway.get(name, 0) - count / MEMBERS) for name in names) / sigma
    skew = max(picks.ordered.values()) / count
    checks = (
        at_least("picks that were answered", sum(picks.gateway.values()), count),
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
