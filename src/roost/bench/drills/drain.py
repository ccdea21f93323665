"""SHELL: E10, a node is drained under load: it ends what it has, and no client notices."""

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
from roost.bench.drills.report import Check, Report, at_least, none_of, table
from roost.bench.drills.stage import FleetView, Stage

LOAD = 0.5


class Watch:
    """When the node was drained, had nothing more, and was given back; monotonic seconds."""

    def __init__(self) -> None:
        self.drained_s = self.empty_s = self.back_s = 0.0


async def nodes(stage: Stage, plan: Plan) -> Report:
    """Drain a node of a fleet."""
    return await _drill(await trio.nodes(stage), plan)


async def servers(stage: Stage, plan: Plan) -> Report:
    """Drain a server behind a stateless gateway."""
    return await _drill(await trio.servers(stage), plan)


async def _drill(fleet: Fleet, plan: Plan) -> Report:
    chat, seconds = trio.client(fleet, random.Random(10)), plan.pick(short=2.4, full=20.0)
    await trio.full_house(chat)
    victim, watch = min(fleet.members), Watch()
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(open_loop(chat, LOAD * trio.CAPACITY_PER_S, seconds))
        group.create_task(_drain(fleet, victim, seconds, watch))
    after = await trio.full_house(chat)
    return _report(fleet, victim, watch, loading.result(), after)


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


def _report(
    fleet: Fleet, victim: str, watch: Watch, answers: list[Answer], after: list[Answer]
) -> Report:
    ends = Counter(answer.end for answer in answers)
    # One that was on its way when the order came may have been placed before it.
    meanwhile = [a for a in answers if watch.drained_s < a.sent_s < watch.back_s]
    there = sum(a.node == victim for a in meanwhile)
    back = Counter(a.node for a in after if a.end == "complete")
    checks = (
        none_of("not whole", len(answers) - ends["complete"]),
        at_least("served by the others while it is drained", len(meanwhile) - there, 1),
        none_of("given to it while it is drained", there),
        Check("it serves again", back[victim] >= 1, f"{back[victim]} of {len(after)}"),
    )
    figures = {
        "emptied_s": watch.empty_s - watch.drained_s,
        **{f"ended_{name}": float(count) for name, count in ends.items()},
    }
    served = Counter(answer.node for answer in answers)
    rows = [[name, str(served[name])] for name in sorted(fleet.members)]
    line = f"nothing more on {victim} after {figures['emptied_s']:.2f} s"
    return Report(
        f"E10 drain, {fleet.kind}", (table(("node", "served"), rows), line), figures, checks
    )
