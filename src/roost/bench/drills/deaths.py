"""SHELL: E8, death in prefill and in decode: a node, or with a real model its runtime's process.

In decode twice: once as it is by default, once with answers that others are to go on with.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections import Counter
from collections.abc import Sequence
from typing import Literal

import msgspec

from roost.bench.claims import Check, Report, none_of, table
from roost.bench.drills import fleets
from roost.bench.drills.answers import Answer, rebased
from roost.bench.drills.arrivals import at_once
from roost.bench.drills.asking import Chat, ask, scripted
from roost.bench.drills.fleets import Fleet
from roost.bench.drills.plan import Plan
from roost.bench.drills.stage import FleetView, Node, Running, Stage
from roost.bench.processes import family, rss_bytes

MEMBERS, SLOTS = 2, 2
STREAMS = MEMBERS * 1
Phase = Literal["prefill", "decode", "replay"]
PHASES: tuple[Phase, ...] = ("prefill", "decode", "replay")
PROMPT_TOKENS, PREFILL_TOKENS = 60, 500
BUDGET_S = 11.0
"""A little more than the time over which retries are counted."""
DEADLY_S = {"prefill": 0.3, "decode": 0.4, "replay": 0.4}


class Round(msgspec.Struct, frozen=True):
    """One kill: when in the life of the answers, on whom, and what was held afterwards."""

    phase: Phase
    victim: str
    answers: tuple[Answer, ...]
    held: int


class Deaths(msgspec.Struct, frozen=True):
    """Every kill, and the answers of a full house at the end; `real` is about a runtime's death."""

    real: bool
    rounds: tuple[Round, ...]
    after: tuple[Answer, ...]


async def nodes(stage: Stage, plan: Plan) -> Report:
    """Kill a node of two while it computes a prompt, then while it answers, then once more."""
    times = round(plan.pick(short=1, full=3))
    return judge(await died(stage, times, plan.pick(short=0.0, full=BUDGET_S)))


async def died(stage: Stage, times: int, budget_s: float) -> Deaths:
    """Kill so often in each phase.

    Between the phases `budget_s` pass: what a round has spent of the fleet's retries is not
    another one's affair.
    """
    fleet = await fleets.nodes(stage, MEMBERS, ("--slots", str(SLOTS)))
    dice = random.Random(8)
    await at_once([_chat(fleet, dice, None) for _ in range(MEMBERS * SLOTS)])
    rounds: list[Round] = []
    for phase in PHASES:
        await asyncio.sleep(budget_s if phase == "replay" else 0.0)
        for _ in range(times):
            answers, victim = await _round(fleet, dice, phase)
            view = await _recovered(fleet)
            first_s = min(answer.due_s for answer in answers)
            kept = rebased(answers, first_s, stamps=True)
            rounds.append(Round(phase, victim, kept, view.held))
    after = await at_once([_chat(fleet, dice, None) for _ in range(MEMBERS * SLOTS)])
    kept = rebased(after, after[0].due_s, stamps=False)
    return Deaths(stage.real is not None, tuple(rounds), kept)


def judge(seen: Deaths) -> Report:
    """Check how answers ended in each phase, and that all serve again."""
    rows: list[list[str]] = []
    checks: list[Check] = []
    figures: dict[str, float] = {}
    for one in seen.rounds:
        ends = Counter(answer.end for answer in one.answers)
        rows.append([one.phase, str(len(one.answers)), *_counts(one.answers, one.victim)])
        checks += _checks(one)
        for end, count in ends.items():
            figures[f"{one.phase}_{end}"] = figures.get(f"{one.phase}_{end}", 0.0) + count
        if one.phase == "replay":
            seam_s = max(figures.get("replay_gap_max_s", 0.0), _seam_s(one.answers, one.victim))
            figures["replay_gap_max_s"] = seam_s
    served = Counter(a.node for a in seen.after if a.end == "complete")
    # A model that is still loaded elsewhere need not be loaded again where its runtime died.
    usable = sum(served.values()) == len(seen.after) and (seen.real or len(served) == MEMBERS)
    checks.append(Check("they serve again", usable, f"{sum(served.values())} of {len(seen.after)}"))
    heads = (
        *("killed in", "asked", "on the victim", "complete", "error events"),
        *("[DONE] after one", "longest gap ms"),
    )
    what = "runtime's process" if seen.real else "node"
    return Report(f"E8 death of a {what}", (table(heads, rows),), figures, tuple(checks))


def _chat(fleet: Fleet, dice: random.Random, phase: Phase | None) -> Chat:
    port, model = fleet.port, fleet.stage.model
    if fleet.stage.real:
        words = "word " * (500 if phase == "prefill" else 1)
        tokens = 4 if phase is None else 20 if phase == "prefill" else 200
        content = f"{dice.getrandbits(32)} {words}"
        chat = Chat(port, model, content, tokens, ignore_eos=True, timeout_s=120)
    elif phase == "prefill":
        chat = Chat(port, model, scripted(dice, 5, 5.0, prefill_ms_per_token=4.0))
    else:
        chat = Chat(port, model, scripted(dice, 40 if phase else 2, 20.0))
    return msgspec.structs.replace(chat, on_loss="replay") if phase == "replay" else chat


async def _round(fleet: Fleet, dice: random.Random, phase: Phase) -> tuple[list[Answer], str]:
    """Ask as many as there are nodes, and strike one that computes."""
    async with asyncio.TaskGroup() as group:
        asked = [group.create_task(ask(_chat(fleet, dice, phase))) for _ in range(STREAMS)]
        victim = await _ripe(fleet, phase)
        if fleet.stage.real:
            os.kill(runtime_of(fleet.members[victim]), signal.SIGKILL)
        else:
            fleet.kill(victim)
    if not fleet.stage.real:
        await fleet.restart(victim)
    return [task.result() for task in asked], victim


async def _ripe(fleet: Fleet, phase: Phase) -> str:
    """Wait until a node computes what this phase is about, and name it."""
    if fleet.stage.real and phase != "prefill":
        # A runtime may have to be loaded first, so only tokens of an answer show that it decodes.
        view = await fleet.seen(lambda view: max(map(_answering, view.nodes)) > 0, "one decodes")
        return max(view.nodes, key=_answering).id
    await asyncio.sleep(DEADLY_S[phase] * (4 if fleet.stage.real else 1))
    view = await fleet.gateway.view()
    return max(view.nodes, key=lambda node: node.in_flight).id


def _answering(node: Node) -> int:
    slots = [slot for runtime in node.runtimes for slot in runtime.slots]
    return sum(slot.busy and PROMPT_TOKENS < slot.tokens < PREFILL_TOKENS for slot in slots)


def runtime_of(node: Running) -> int:
    """Find the process of a node that computes: the one with most memory among its children."""
    _shim, _node, *children = family(node.process.pid)
    return max(children, key=rss_bytes)


async def _recovered(fleet: Fleet) -> FleetView:
    await fleet.all_alive()
    return await fleet.gateway.settled()


def _seam_s(answers: Sequence[Answer], victim: str) -> float:
    """The longest that a client of the victim waited between two events."""
    return max((max(a.gaps_s, default=0.0) for a in answers if a.node == victim), default=0.0)


def _counts(answers: Sequence[Answer], victim: str) -> list[str]:
    broken = [answer for answer in answers if answer.error_events]
    return [
        str(sum(a.node == victim for a in answers)),
        str(sum(a.end == "complete" for a in answers)),
        str(sum(a.error_events for a in broken)),
        str(sum(a.done_marks for a in broken)),
        f"{1000 * _seam_s(answers, victim):.0f}",
    ]


def _checks(one: Round) -> list[Check]:
    phase, answers = one.phase, one.answers
    whole = sum(a.end == "complete" for a in answers)
    told = [a for a in answers if a.error_events]
    once = all(a.error_events == 1 and not a.done_marks for a in told)
    others = [a.end for a in answers if a.end not in ("complete", "error")]
    codes = ", ".join(sorted({a.code for a in told})) or "none"
    if phase == "prefill":
        fate = Check(f"in {phase}: answered elsewhere", whole == len(answers), f"{whole}")
    elif phase == "replay":
        fate = Check(f"in {phase}: gone on with elsewhere", whole == len(answers), f"{whole}")
    else:
        split = bool(told) and once
        fate = Check(f"in {phase}: one error event each, never [DONE]", split, codes)
    return [
        fate,
        none_of(f"in {phase}: ended in any other way", len(others)),
        none_of(f"in {phase}: held afterwards", one.held),
    ]
