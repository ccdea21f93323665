"""SHELL: E3, failover: one of three is killed with -9 under load, and comes back."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from time import monotonic

import msgspec

from roost.bench.claims import Check, Report, at_least, at_most, none_of, table
from roost.bench.drills import trio
from roost.bench.drills.answers import Answer, rebased
from roost.bench.drills.arrivals import open_loop
from roost.bench.drills.fleets import Fleet, Kind
from roost.bench.drills.plan import Plan
from roost.bench.drills.stage import Stage

LOAD = 0.55
NOTICED_S = 1.0


class Watch:
    """When things happened, in seconds of the monotonic clock."""

    def __init__(self) -> None:
        self.killed_s = self.noticed_s = self.rejoined_s = 0.0


class Failover(msgspec.Struct, frozen=True):
    """One failover; times in seconds since the load began.

    `answers` are those of the load, `after` those of a full house when the victim was back. `held`
    is what was held at the gateway after either.
    """

    kind: Kind
    members: tuple[str, ...]
    victim: str
    killed_s: float
    noticed_s: float
    rejoined_s: float
    answers: tuple[Answer, ...]
    after: tuple[Answer, ...]
    retried: int
    held: tuple[int, ...]


async def nodes(stage: Stage, plan: Plan) -> Report:
    """Kill a node of a fleet."""
    return judge(await failed_over(await trio.nodes(stage), plan.pick(short=2.4, full=20.0)))


async def servers(stage: Stage, plan: Plan) -> Report:
    """Kill a server behind a stateless gateway."""
    return judge(await failed_over(await trio.servers(stage), plan.pick(short=2.4, full=20.0)))


async def failed_over(fleet: Fleet, seconds: float) -> Failover:
    """Offer a load for so long, kill one of three in it, and start that again."""
    chat = trio.client(fleet, random.Random(3))
    await trio.full_house(chat)
    victim, watch = min(fleet.members), Watch()
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(open_loop(chat, LOAD * trio.CAPACITY_PER_S, seconds))
        group.create_task(_strike(fleet, victim, seconds, watch))
    answers = loading.result()
    view = await fleet.gateway.settled()
    after = await trio.full_house(chat)
    settled = await fleet.gateway.settled()
    origin_s = answers[0].due_s
    return Failover(
        kind=fleet.kind,
        members=tuple(sorted(fleet.members)),
        victim=victim,
        killed_s=watch.killed_s - origin_s,
        noticed_s=watch.noticed_s - origin_s,
        rejoined_s=watch.rejoined_s - origin_s,
        answers=rebased(answers, origin_s, stamps=False),
        after=rebased(after, origin_s, stamps=False),
        retried=view.statistics.retried,
        held=(view.held, settled.held),
    )


async def _strike(fleet: Fleet, victim: str, seconds: float, watch: Watch) -> None:
    clock = monotonic
    await asyncio.sleep(0.25 * seconds)
    watch.killed_s = clock()
    fleet.kill(victim)
    await fleet.seen(lambda view: victim not in view.alive, "the death is noticed")
    watch.noticed_s = clock()
    await asyncio.sleep(0.1 * seconds)
    await fleet.restart(victim)
    await fleet.all_alive()
    watch.rejoined_s = clock()


def judge(seen: Failover) -> Report:
    """Check that only those lost something whose answer had begun on the victim."""
    answers, victim = seen.answers, seen.victim
    ends = Counter(answer.end for answer in answers)
    codes = Counter(answer.code for answer in answers if answer.code)
    statuses = Counter(answer.status for answer in answers)
    phases = (
        ("before the kill", float("-inf"), seen.killed_s),
        ("until it was back", seen.killed_s, seen.rejoined_s),
        ("afterwards", seen.rejoined_s, float("inf")),
    )
    rows = [[name, *_served(seen, low, high)] for name, low, high in phases]
    noticed_s = seen.noticed_s - seen.killed_s
    back = Counter(answer.node for answer in seen.after if answer.end == "complete")
    checks = (
        at_most("the death is noticed", noticed_s, NOTICED_S, " s"),
        none_of("answers with 503", statuses[503]),
        none_of("cut off without a word, or no answer", ends["cut"] + ends["silent"]),
        # Those alone whose answer had begun on the victim may end in an error.
        at_most("error events", ends["error"], _begun(seen)),
        none_of("leases, places and slots held at the end", sum(seen.held)),
        at_least("served by the survivors meanwhile", _by_others(seen), 1),
        Check("the victim serves again", back[victim] >= 1, f"{back[victim]} of {len(seen.after)}"),
    )
    figures = {
        "noticed_s": noticed_s,
        "rejoined_s": seen.rejoined_s - seen.killed_s,
        "retried": float(seen.retried),
        **{f"ended_{name}": float(count) for name, count in ends.items()},
        **{f"code_{name}": float(count) for name, count in codes.items()},
    }
    heads = ("served by", *(f"{m}{' (victim)' * (m == victim)}" for m in seen.members))
    line = f"{len(answers)} asked: {dict(ends)}, codes {dict(codes)}, retried {seen.retried}"
    name = f"E3 failover of {seen.kind}"
    return Report(name, (table(heads, rows), line), figures, checks)


def _begun(seen: Failover) -> int:
    """Count the streams that ran on the victim when it died."""
    there = [a for a in seen.answers if a.node == seen.victim]
    return sum(a.sent_s < seen.killed_s < a.ended_s for a in there)


def _served(seen: Failover, low_s: float, high_s: float) -> list[str]:
    whole = (a for a in seen.answers if a.end == "complete" and low_s <= a.due_s < high_s)
    served = Counter(a.node for a in whole)
    return [str(served[name]) for name in seen.members]


def _by_others(seen: Failover) -> int:
    whole = [a for a in seen.answers if a.end == "complete" and a.node != seen.victim]
    return sum(seen.killed_s < a.due_s < seen.rejoined_s for a in whole)
