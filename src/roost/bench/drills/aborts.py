"""SHELL: three hundred requests broken off at random moments; then everything is free again."""

from __future__ import annotations

import random
import re
from collections import Counter

import msgspec

from roost.bench.claims import Check, Report, at_least, none_of, table
from roost.bench.drills import fleets
from roost.bench.drills.answers import Answer
from roost.bench.drills.arrivals import at_once, open_loop
from roost.bench.drills.asking import Chat, scripted
from roost.bench.drills.fleets import Fleet
from roost.bench.drills.plan import Plan
from roost.bench.drills.stage import Running, Stage

MEMBERS, SLOTS = 2, 2
PIECES, GAP_MS, PREFILL_MS = 8, 15.0, 0.5
WHOLE_S = 0.5
ABORTS = 300
_GAUGES = re.compile(r"^(roost_(?:in_flight|queued)(?:\{.*\})?) (\S+)$", re.MULTILINE)
_PHASES = re.compile(
    r'^roost_cancel_to_free_seconds_count\{.*phase="(\w+)".*\} (\S+)$', re.MULTILINE
)


async def nodes(stage: Stage, plan: Plan) -> Report:
    """Break off requests to a fleet of nodes."""
    fleet = await fleets.nodes(stage, MEMBERS, ("--slots", str(SLOTS)))
    return await _drill(fleet, plan)


async def servers(stage: Stage, plan: Plan) -> Report:
    """Break off requests to a stateless gateway with a queue of its own."""
    flags = ("--slots", str(SLOTS), "--queue-length", "100")
    queue = ("--upstream-queue-length", "64")
    return await _drill(await fleets.servers(stage, MEMBERS, flags, queue), plan)


def leaving(dice: random.Random, chat: Chat) -> Chat:
    """Return the chat with a moment at which its client breaks off."""
    moment = dice.randrange(5)
    if moment == 0:
        return msgspec.structs.replace(chat, half=True)
    if moment == 1:
        return msgspec.structs.replace(chat, leave_after_events=dice.randrange(PIECES))
    if moment == 2:
        return msgspec.structs.replace(chat, leave_at_done=True)
    # In the queue, in prefill or in the stream: wherever time has brought it.
    return msgspec.structs.replace(chat, leave_after_s=dice.uniform(0.001, WHOLE_S))


async def _drill(fleet: Fleet, plan: Plan) -> Report:
    dice = random.Random(5)
    seconds = plan.pick(short=1.2, full=8.0)

    def chat(_number: int) -> Chat:
        content = scripted(dice, PIECES, GAP_MS, prefill_ms_per_token=PREFILL_MS)
        return Chat(fleet.port, fleet.stage.model, content)

    await at_once([chat(n) for n in range(MEMBERS * SLOTS)])
    answers = await open_loop(lambda n: leaving(dice, chat(n)), ABORTS / seconds, seconds)
    view = await fleet.gateway.settled()
    members = [await running.settled() for running in _servers(fleet)]
    # A server that was too busy to answer its probe is back with the next one.
    await fleet.all_alive()
    after = await at_once([chat(n) for n in range(MEMBERS * SLOTS)])
    gauges = (await fleet.gateway.get("/metrics")).decode()
    held = [float(value) for _, value in _GAUGES.findall(gauges)]
    nodes_served = Counter(a.node for a in after if a.end == "complete")
    ends = Counter(_moment(answer) for answer in answers)
    refused = sum(answer.end == "refused" for answer in answers)
    phases = {phase: float(count) for phase, count in _PHASES.findall(gauges)}
    usable = all(nodes_served[name] == SLOTS for name in fleet.members)
    checks = (
        at_least("broken off", len(answers) - ends["complete"] - refused, 0.5 * ABORTS),
        none_of("held at the gateway afterwards", view.held),
        none_of("held at the servers afterwards", sum(member.held for member in members)),
        Check("every gauge is zero", bool(held) and not any(held), f"{len(held)} gauges"),
        Check("every slot serves", usable, f"{dict(nodes_served)}, {SLOTS} slots each"),
    )
    rows = [[name, str(count)] for name, count in sorted(ends.items())]
    line = f"cancelled at a runtime, by phase: {phases}"
    figures = {_figure(name): float(count) for name, count in ends.items()} | phases
    name = f"{len(answers)} requests broken off, {fleet.kind}"
    return Report(
        name, (table(("what the client had seen", "requests"), rows), line), figures, checks
    )


def _servers(fleet: Fleet) -> list[Running]:
    return list(fleet.members.values()) if fleet.kind == "servers" else []


def _moment(answer: Answer) -> str:
    if answer.end != "left":
        return f"{answer.end}: {answer.code}" if answer.code else answer.end
    if answer.status == 0:
        return "left without a byte"
    return "left at the last byte" if answer.done_marks else "left in the stream"


def _figure(moment: str) -> str:
    return f"ended_{moment.replace(': ', '_')}"
