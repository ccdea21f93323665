"""SHELL: E8 and E10 on conversations: nodes and the gateway end in the middle, and all go on.

Many talk at once. The gateway is killed and started again, then a node, then another one is drained
to zero sessions and given back. Every word that anybody is told of its home is held against what it
was told before.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from time import monotonic

import msgspec

from roost.bench.claims import Check, Report, at_least, none_of, table
from roost.bench.drills import fleets
from roost.bench.drills.fleets import Fleet
from roost.bench.drills.plan import Plan
from roost.bench.drills.stage import FleetView, Stage
from roost.bench.drills.talking import Talker
from roost.bench.drills.told import Told

MEMBERS, SLOTS = 3, 4
WORDS = "My cat is called Tom, my dog Rex, and I live in a house by the sea."
EMPTY_S = 120.0


class Outlived(msgspec.Struct, frozen=True):
    """Every turn of every conversation, and what is said of them that is not true.

    `meanwhile` are the turns while a node was drained, which had no session left after
    `drained_s`; `moved` of the `idle` conversations there were computed anew elsewhere.
    """

    turns: tuple[tuple[Told, ...], ...]
    lies: tuple[str, ...]
    unserved: int
    meanwhile: tuple[Told, ...]
    drained_s: float
    moved: int
    idle: int


async def nodes(stage: Stage, plan: Plan) -> Report:
    """Talk with a fleet whose parts end one after the other."""
    count, turns = int(plan.pick(short=12, full=50)), int(plan.pick(short=2, full=3))
    return judge(await outlived(stage, count, turns))


async def outlived(stage: Stage, count: int, turns: int) -> Outlived:
    """Have so many conversations of so many turns before, between and after what ends."""
    flags = ("--slots", str(SLOTS), "--runtime-stall-floor-s", "60")
    fleet = await fleets.nodes(stage, MEMBERS, flags)
    talkers = [Talker(fleet.port, stage.model, f"talk {n}", WORDS) for n in range(count)]

    async def talk(each: int, who: list[Talker] = talkers) -> None:
        async with asyncio.TaskGroup() as group:
            for talker in who:
                group.create_task(talker.talk(each, most=8))

    await talk(1)
    first = min(fleet.members)
    async with asyncio.TaskGroup() as group:
        group.create_task(talk(turns))
        group.create_task(_gateway_dies(fleet))
    async with asyncio.TaskGroup() as group:
        group.create_task(talk(turns))
        group.create_task(_node_dies(fleet, first))
    before = [len(talker.turns) for talker in talkers]
    # The others are idle meanwhile, and moved.
    there = Counter(talker.before.node for talker in talkers[1::2] if talker.before is not None)
    ((second, idle),) = there.most_common(1)
    async with asyncio.TaskGroup() as group:
        group.create_task(talk(turns, talkers[::2]))
        drained = group.create_task(_drained_s(fleet, second))
    moved = await _moved(fleet)
    meanwhile = [
        told for talker, since in zip(talkers, before, strict=True) for told in talker.turns[since:]
    ]
    await talk(1)
    return Outlived(
        turns=tuple(tuple(talker.turns) for talker in talkers),
        lies=tuple(lie for talker in talkers for lie in talker.lies),
        unserved=sum(talker.before is None for talker in talkers),
        meanwhile=tuple(meanwhile),
        drained_s=drained.result(),
        moved=moved,
        idle=idle,
    )


async def _gateway_dies(fleet: Fleet) -> None:
    """Kill -9 the gateway and start it again on its port."""
    await fleet.restart_gateway()
    await fleet.all_alive()


async def _node_dies(fleet: Fleet, name: str) -> None:
    """Kill -9 a node and start it again under its id."""
    fleet.kill(name)
    await fleet.seen(lambda view: name not in view.alive, "it is missed")
    await fleet.restart(name)
    await fleet.all_alive()


async def _drained_s(fleet: Fleet, name: str) -> float:
    """Drain a node until it has no session, and give it back; how long that took."""

    def empty(view: FleetView) -> bool:
        node = next(node for node in view.nodes if node.id == name)
        return not node.in_flight and not node.holds

    began_s = monotonic()
    await fleet.gateway.post(f"/roost/v1/nodes/{name}/drain")
    await fleet.seen(empty, "the drained node has no session", EMPTY_S)
    took_s = monotonic() - began_s
    await fleet.gateway.post(f"/roost/v1/nodes/{name}/undrain")
    return took_s


async def _moved(fleet: Fleet) -> int:
    """How many conversations were computed anew elsewhere."""
    text = (await fleet.gateway.get("/metrics")).decode()
    found = re.search(r'^roost_handovers_total\{outcome="moved"\} (\d+)', text, re.MULTILINE)
    return int(found[1]) if found else 0


def judge(seen: Outlived) -> Report:
    """Check that all went on, that every word was true, and that a drain was nobody's error."""
    turns = [told for talk in seen.turns for told in talk]
    ends = Counter(told.end for told in turns)
    labels = Counter(told.placement for told in turns if told.end == "complete")
    checks = (
        Check("told what is not true", not seen.lies, seen.lies[0] if seen.lies else "0"),
        none_of("conversations that did not go on", seen.unserved),
        none_of(
            "errors while a node was drained", sum(t.end != "complete" for t in seen.meanwhile)
        ),
        at_least("idle conversations that were moved", seen.moved, seen.idle),
        at_least("turns that had lost their home and were told", labels["lost"], 1),
    )
    figures = {
        "conversations": float(len(seen.turns)),
        "drained_s": seen.drained_s,
        "lost_tokens": float(sum(told.lost for told in turns)),
        **{f"ended_{name}": float(count) for name, count in ends.items()},
    }
    rows = [[name, str(count)] for name, count in sorted(labels.items())]
    why = Counter(told.why for told in turns if told.why)
    line = (
        f"no session left {seen.drained_s:.2f} s after the drain; not served: {dict(why) or 'none'}"
    )
    return Report("E8, E10 conversations", (table(("told", "turns"), rows), line), figures, checks)
