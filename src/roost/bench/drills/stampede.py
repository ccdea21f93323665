"""SHELL: E11, a cold stampede: many clients at once for a model that is loaded nowhere."""

from __future__ import annotations

import random

from roost.bench.drills import fleets
from roost.bench.drills.arrivals import at_once
from roost.bench.drills.asking import Chat, scripted
from roost.bench.drills.plan import Plan
from roost.bench.drills.report import Report, at_most, none_of, table
from roost.bench.drills.stage import Stage

SLOTS = 4
PIECES, GAP_MS = 3, 10.0


async def nodes(stage: Stage, plan: Plan) -> Report:
    """Ask a node that has loaded nothing, all at once."""
    clients = round(plan.pick(short=16, full=64))
    fleet = await fleets.nodes(stage, 1, ("--slots", str(SLOTS)), ("--queue-length", str(clients)))
    dice = random.Random(11)
    answers = await at_once(
        [Chat(fleet.port, stage.model, scripted(dice, PIECES, GAP_MS)) for _ in range(clients)]
    )
    (node,) = fleet.members.values()
    loads, ready = (node.output.count(event) for event in ("runtime_loading", "runtime_ready"))
    runtimes = sum(len(one.runtimes) for one in (await fleet.gateway.view()).nodes)
    whole = sum(answer.end == "complete" for answer in answers)
    checks = (
        none_of("not whole", clients - whole),
        at_most("loads begun", loads, 1),
        at_most("runtimes", runtimes, 1),
    )
    rows = [[str(clients), str(whole), str(loads), str(ready), str(runtimes)]]
    heads = ("clients at once", "whole", "loads begun", "loads done", "runtimes")
    figures = {"loads": float(loads), "whole": float(whole)}
    return Report("E11 cold stampede", (table(heads, rows),), figures, checks)
