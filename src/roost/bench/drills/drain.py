"""SHELL: E10, a node is drained under load: it ends what it has, and no client notices."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from time import monotonic

import msgspec

from roost.bench.claims import Check, Report, at_least, none_of, table
from roost.bench.drills import trio
from roost.bench.drills.answers import Answer, rebased
from roost.bench.drills.arrivals import open_loop
from roost.bench.drills.fleets import Fleet, Kind
from roost.bench.drills.plan import Plan
from roost.bench.drills.stage import FleetView, Stage

LOAD = 0.5
QUEUE = ("--upstream-queue-length", "64")
"""Without one, a moment in which two servers are full is a refusal, drained or not."""


class Watch:
    """When the node was drained, had nothing more, and was given back; monotonic seconds."""

    def __init__(self) -> None:
        self.drained_s = self.empty_s = self.back_s = 0.0


class Drained(msgspec.Struct, frozen=True):
    """One drain; times in seconds since the load began.

    `answers` are those of the load, `after` those of a full house when it had been given back.
    """

    kind: Kind
    members: tuple[str, ...]
    victim: str
    drained_s: float
    empty_s: float
    back_s: float
    answers: tuple[Answer, ...]
    after: tuple[Answer, ...]


async def nodes(stage: Stage, plan: Plan) -> Report:
    """Drain a node of a fleet."""
    return judge(await drained(await trio.nodes(stage), plan.pick(short=2.4, full=20.0)))


async def servers(stage: Stage, plan: Plan) -> Report:
    """Drain a server behind a stateless gateway."""
    return judge(await drained(await trio.servers(stage, *QUEUE), plan.pick(short=2.4, full=20.0)))


async def drained(fleet: Fleet, seconds: float) -> Drained:
    """Offer a load for so long, drain one of three in it, and give that back."""
    chat = trio.client(fleet, random.Random(10))
    await trio.full_house(chat)
    victim, watch = min(fleet.members), Watch()
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(open_loop(chat, LOAD * trio.CAPACITY_PER_S, seconds))
        group.create_task(_drain(fleet, victim, seconds, watch))
    answers = loading.result()
    after = await trio.full_house(chat)
    origin_s = answers[0].due_s
    return Drained(
        kind=fleet.kind,
        members=tuple(sorted(fleet.members)),
        victim=victim,
        drained_s=watch.drained_s - origin_s,
        empty_s=watch.empty_s - origin_s,
        back_s=watch.back_s - origin_s,
        answers=rebased(answers, origin_s, stamps=False),
        after=rebased(after, origin_s, stamps=False),
    )


async def _drain(fleet: Fleet, victim: str, seconds: float, watch: Watch) -> None:
    def empty(view: FleetView) -> bool:
        return all(node.in_flight == 0 for node in view.nodes if node.id == victim)

    clock = monotonic
    await asyncio.sleep(0.3 * seconds)
    await fleet.gateway.post(f"/roost/v1/nodes/{victim}/drain")
    watch.drained_s = clock()
    await fleet.seen(empty, "the drained node has nothing more")
    watch.empty_s = clock()
    await asyncio.sleep(0.2 * seconds)
    await fleet.gateway.post(f"/roost/v1/nodes/{victim}/undrain")
    watch.back_s = clock()


def judge(seen: Drained) -> Report:
    """Check that every answer was whole, and that the drained one got nothing meanwhile."""
    answers, victim = seen.answers, seen.victim
    ends = Counter(answer.end for answer in answers)
    # One that was on its way when the order came may have been placed before it.
    meanwhile = [a for a in answers if seen.drained_s < a.sent_s < seen.back_s]
    there = sum(a.node == victim for a in meanwhile)
    back = Counter(a.node for a in seen.after if a.end == "complete")
    checks = (
        none_of("not whole", len(answers) - ends["complete"]),
        at_least("served by the others while it is drained", len(meanwhile) - there, 1),
        none_of("given to it while it is drained", there),
        Check("it serves again", back[victim] >= 1, f"{back[victim]} of {len(seen.after)}"),
    )
    figures = {
        "emptied_s": seen.empty_s - seen.drained_s,
        **{f"ended_{name}": float(count) for name, count in ends.items()},
    }
    served = Counter(answer.node for answer in answers)
    rows = [[name, str(served[name])] for name in seen.members]
    line = f"nothing more on {victim} after {figures['emptied_s']:.2f} s"
    return Report(
        f"E10 drain, {seen.kind}", (table(("node", "served"), rows), line), figures, checks
    )
