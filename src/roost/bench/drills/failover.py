"""SHELL: E3, failover: one of three is killed with -9 under load, and comes back."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from time import monotonic

from roost.bench.drills import trio
from roost.bench.drills.arrivals import open_loop
from roost.bench.drills.asking import Answer
from roost.bench.drills.fleets import Fleet
from roost.bench.drills.plan import Plan
from roost.bench.drills.report import Check, Report, at_least, at_most, none_of, table
from roost.bench.drills.stage import FleetView, Stage

LOAD = 0.55
NOTICED_S = 1.0


class Watch:
    """When things happened, in seconds of the monotonic clock."""

    def __init__(self) -> None:
        self.killed_s = self.noticed_s = self.rejoined_s = 0.0


async def nodes(stage: Stage, plan: Plan) -> Report:
    """Kill a node of a fleet."""
    return await _drill(await trio.nodes(stage), plan)


async def servers(stage: Stage, plan: Plan) -> Report:
    """Kill a server behind a stateless gateway."""
    return await _drill(await trio.servers(stage), plan)


async def _drill(fleet: Fleet, plan: Plan) -> Report:
    chat, seconds = trio.client(fleet, random.Random(3)), plan.pick(short=2.4, full=20.0)
    await trio.full_house(chat)
    victim, watch = min(fleet.members), Watch()
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(open_loop(chat, LOAD * trio.CAPACITY_PER_S, seconds))
        group.create_task(_strike(fleet, victim, seconds, watch))
    answers = loading.result()
    view = await fleet.gateway.settled()
    after = await trio.full_house(chat)
    settled = await fleet.gateway.settled()
    return _report(fleet, victim, watch, answers, [view, settled], after)


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


def _report(
    fleet: Fleet,
    victim: str,
    watch: Watch,
    answers: list[Answer],
    views: list[FleetView],
    after: list[Answer],
) -> Report:
    ends = Counter(answer.end for answer in answers)
    codes = Counter(answer.code for answer in answers if answer.code)
    statuses = Counter(answer.status for answer in answers)
    phases = (
        ("before the kill", float("-inf"), watch.killed_s),
        ("until it was back", watch.killed_s, watch.rejoined_s),
        ("afterwards", watch.rejoined_s, float("inf")),
    )
    rows = [[name, *_served(answers, fleet, low, high)] for name, low, high in phases]
    counts = views[0].statistics
    noticed_s = watch.noticed_s - watch.killed_s
    # Those alone whose answer had begun on the victim may end in an error.
    begun = _begun(answers, victim, watch)
    back = Counter(answer.node for answer in after if answer.end == "complete")
    checks = (
        at_most("the death is noticed", noticed_s, NOTICED_S, " s"),
        none_of("answers with 503", statuses[503]),
        none_of("cut off without a word, or no answer", ends["cut"] + ends["silent"]),
        at_most("error events", ends["error"], begun),
        none_of("leases, places and slots held at the end", sum(view.held for view in views)),
        at_least("served by the survivors meanwhile", _by_others(answers, victim, watch), 1),
        Check("the victim serves again", back[victim] >= 1, f"{back[victim]} of {len(after)}"),
    )
    figures = {
        "noticed_s": noticed_s,
        "rejoined_s": watch.rejoined_s - watch.killed_s,
        "retried": float(counts.retried),
        **{f"ended_{name}": float(count) for name, count in ends.items()},
        **{f"code_{name}": float(count) for name, count in codes.items()},
    }
    heads = ("served by", *(f"{m}{' (victim)' * (m == victim)}" for m in sorted(fleet.members)))
    line = f"{len(answers)} asked: {dict(ends)}, codes {dict(codes)}, retried {counts.retried}"
    name = f"E3 failover of {fleet.kind}"
    return Report(name, (table(heads, rows), line), figures, checks)


def _begun(answers: list[Answer], victim: str, watch: Watch) -> int:
    """Count the streams that ran on the victim when it died."""
    return sum(a.node == victim and a.sent_s < watch.killed_s < a.ended_s for a in answers)


def _served(answers: list[Answer], fleet: Fleet, low: float, high: float) -> list[str]:
    served = Counter(a.node for a in answers if a.end == "complete" and low <= a.due_s < high)
    return [str(served[name]) for name in sorted(fleet.members)]


def _by_others(answers: list[Answer], victim: str, watch: Watch) -> int:
    return sum(
        a.end == "complete" and a.node != victim and watch.killed_s < a.due_s < watch.rejoined_s
        for a in answers
    )
