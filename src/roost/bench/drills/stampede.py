"""SHELL: E11, a cold stampede: many clients at once for a model that is loaded nowhere."""

from __future__ import annotations

import random

import msgspec

from roost.bench.claims import Report, at_most, none_of, table
from roost.bench.drills import fleets
from roost.bench.drills.answers import Answer, rebased
from roost.bench.drills.arrivals import at_once
from roost.bench.drills.asking import Chat, scripted
from roost.bench.drills.fleets import Fleet
from roost.bench.drills.plan import Plan
from roost.bench.drills.stage import Stage

SLOTS = 4
PIECES, GAP_MS = 3, 10.0
REAL_TOKENS = 8
WAIT_S = 100.0


class Stampede(msgspec.Struct, frozen=True):
    """All answers, how many loads were begun and done, and the runtimes there are then."""

    answers: tuple[Answer, ...]
    begun: int
    done: int
    runtimes: int


async def nodes(stage: Stage, plan: Plan) -> Report:
    """Ask a node that has loaded nothing, all at once."""
    return judge(await stampeded(stage, round(plan.pick(short=16, full=64))))


async def stampeded(stage: Stage, clients: int) -> Stampede:
    """Let so many ask a cold node at the same moment."""
    queue = ("--queue-length", str(clients), "--queue-wait-s", str(WAIT_S))
    fleet = await fleets.nodes(stage, 1, ("--slots", str(SLOTS)), queue)
    dice = random.Random(11)
    answers = await at_once([_chat(fleet, dice) for _ in range(clients)])
    (node,) = fleet.members.values()
    begun, done = (node.output.count(event) for event in ("runtime_loading", "runtime_ready"))
    runtimes = sum(len(one.runtimes) for one in (await fleet.gateway.view()).nodes)
    first_s = min(answer.due_s for answer in answers)
    return Stampede(rebased(answers, first_s, stamps=False), begun, done, runtimes)


def _chat(fleet: Fleet, dice: random.Random) -> Chat:
    port, model = fleet.port, fleet.stage.model
    if fleet.stage.real:
        return Chat(port, model, f"{dice.getrandbits(32)} birds", REAL_TOKENS, timeout_s=2 * WAIT_S)
    return Chat(port, model, scripted(dice, PIECES, GAP_MS))


def judge(seen: Stampede) -> Report:
    """Check that all were answered, out of one load."""
    clients = len(seen.answers)
    whole = sum(answer.end == "complete" for answer in seen.answers)
    checks = (
        none_of("not whole", clients - whole),
        at_most("loads begun", seen.begun, 1),
        at_most("runtimes", seen.runtimes, 1),
    )
    rows = [[str(n) for n in (clients, whole, seen.begun, seen.done, seen.runtimes)]]
    heads = ("clients at once", "whole", "loads begun", "loads done", "runtimes")
    figures = {"loads": float(seen.begun), "whole": float(whole)}
    return Report("E11 cold stampede", (table(heads, rows),), figures, checks)
