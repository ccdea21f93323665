"""WIRING: a fleet, a load and a schedule of faults; afterwards everything that was seen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import msgspec

from roost.bench.chaos.load import Load
from roost.bench.chaos.schedule import FAULTS, Fault, Strike, schedule
from roost.bench.chaos.seen import Seen, Struck
from roost.bench.chaos.strikes import Striker, cold_model
from roost.bench.drills import fleets
from roost.bench.drills.stage import Stage, acted, many_calls

MEMBERS, SLOTS = 3, 2
STRIKE_S = 60.0
"""How long one fault may take at all, until everybody is back."""
GATEWAY_FLAGS = (
    *("--placement-replicas", "1", "--placement-keep", f"drill={MEMBERS}"),
    *("--queue-length", "8", "--queue-wait-s", "30"),
    *("--stream-write-deadline-s", "1.0", "--stream-send-buffer-bytes", "8192"),
)


class Plan(msgspec.Struct, frozen=True):
    """Which faults, how often each, and how quickly one follows another.

    `per_s` chats are begun each second, and so many conversations talk all the time.
    """

    seed: int
    faults: tuple[Fault, ...] = FAULTS
    rounds: int = 1
    pace_s: float = 2.0
    per_s: float = 8.0
    talkers: int = 4

    @property
    def strikes(self) -> tuple[Strike, ...]:
        """The schedule of this seed."""
        dice = random.Random(f"{self.seed} strikes")
        return schedule(self.faults, self.rounds, MEMBERS, self.pace_s, dice)


async def play(plan: Plan, told: Callable[[Struck], None] = lambda _: None) -> Seen:
    """Do it; `told` hears of every fault when the fleet is whole again."""

    async def act(stage: Stage) -> Seen:
        """Do it on this stage."""
        return await _play(stage, plan, told)

    many_calls()
    seen, held = await acted(act, STRIKE_S * (1 + len(plan.strikes)))
    return msgspec.structs.replace(seen, held={**seen.held, **held})


async def _play(stage: Stage, plan: Plan, told: Callable[[Struck], None]) -> Seen:
    crowds = sum(one.fault == "stampede" for one in plan.strikes)
    for member in range(MEMBERS):
        for number in range(crowds):
            stage.another(f"node-{member}", cold_model(number))
    fleet = await fleets.nodes(stage, MEMBERS, ("--slots", str(SLOTS)), GATEWAY_FLAGS)
    load = Load(fleet, random.Random(f"{plan.seed} load"), plan.per_s, plan.talkers)
    striker = Striker(fleet, load)
    strikes: list[Struck] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        try:
            for one in plan.strikes:
                strikes.append(await striker.strike(one))
                told(strikes[-1])
        finally:
            load.over.set()
    talked = await load.talked()
    return Seen(tuple(strikes), tuple(load.spoken), talked, {})
