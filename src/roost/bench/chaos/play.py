"""WIRING: a fleet, a load and a schedule of faults; afterwards everything that was seen."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from pathlib import Path

import msgspec

from roost.bench.chaos.fronts import FrontStriker, begun
from roost.bench.chaos.load import Load
from roost.bench.chaos.schedule import FAULTS, Fault, Strike, schedule
from roost.bench.chaos.seen import Seen, Struck
from roost.bench.chaos.soak import READINGS_MIN
from roost.bench.chaos.strikes import Striker, cold_model
from roost.bench.chaos.watch import READ_S, Watch
from roost.bench.drills import fleets
from roost.bench.drills.stage import Stage, acted, many_calls

MEMBERS, SLOTS = 3, 2
ROUNDS_MAX = 1000
SOAK: tuple[Fault, ...] = (
    "stop-node",
    "drain",
    "slow-client",
    "stuck-reader",
    "disk-full",
    "port-taken",
)
"""The faults that leave processes as they are, so that what they hold can be compared."""
TURNS_MOST = 25
"""Few enough that a past is not made shorter: what that costs is not a matter of time."""
STRIKE_S, FRONT_S = 60.0, 600.0
"""How long one fault may take at all, until everybody is back."""
GATEWAY_FLAGS = (
    *("--placement-replicas", "1", "--placement-keep", f"drill={MEMBERS}"),
    *("--queue-length", "8", "--queue-wait-s", "30"),
    *("--stream-write-deadline-s", "1.0", "--stream-send-buffer-bytes", "8192"),
)


LONG_FLAGS = (
    *("--receipts-entries", "200", "--affinity-entries", "500", "--idempotency-entries", "100"),
    *("--transcripts-memory-max-bytes", str(2**20)),
)
"""What a gateway remembers has a limit: in a long run one that is soon reached."""


class Plan(msgspec.Struct, frozen=True):
    """Which faults, how often each, and how quickly one follows another.

    `per_s` chats are begun each second, and so many conversations talk all the time. With `minutes`
    rounds follow each other for as long as that, every process is watched, and a conversation of
    `TURNS_MOST` turns is deleted and another one begun.
    """

    seed: int
    faults: tuple[Fault, ...] = FAULTS
    rounds: int = 1
    pace_s: float = 2.0
    per_s: float = 8.0
    talkers: int = 4
    minutes: float = 0.0

    @property
    def bound_s(self) -> float:
        """How long all of it may take."""
        if self.minutes:
            return 60.0 * self.minutes + STRIKE_S * (1 + len(self.faults))
        return STRIKE_S * (1 + len(self.strikes))

    @property
    def strikes(self) -> tuple[Strike, ...]:
        """The schedule of this seed."""
        dice = random.Random(f"{self.seed} strikes")
        rounds = ROUNDS_MAX if self.minutes else self.rounds
        return schedule(self.faults, rounds, MEMBERS, self.pace_s, dice)

    def is_over(self, now_s: float, looks: int) -> bool:
        """Whether a run of so many `minutes` has taken them, and seen each process often enough.

        A slow machine takes longer to look, and is not to be judged by less.
        """
        enough = min(READINGS_MIN, int(60.0 * self.minutes / READ_S))
        return now_s > 60.0 * self.minutes and looks >= enough


async def play(plan: Plan, told: Callable[[Struck], None] = lambda _: None) -> Seen:
    """Do it; `told` hears of every fault when the fleet is whole again."""

    async def act(stage: Stage) -> Seen:
        """Do it on this stage."""
        return await _play(stage, plan, told)

    many_calls()
    seen, held = await acted(act, plan.bound_s)
    return msgspec.structs.replace(seen, held={**seen.held, **held})


async def play_before(
    plan: Plan, name: str, environment: Path | None, told: Callable[[Struck], None] = lambda _: None
) -> Seen | None:
    """Do what applies of it to another gateway before servers; None without one that answers."""

    async def act(stage: Stage) -> Seen | None:
        """Do it on this stage."""
        front = await begun(stage, name, MEMBERS, environment)
        if front is None:
            return None
        load = Load(front.fleet, random.Random(f"{plan.seed} load"), plan.per_s, 0)
        striker = FrontStriker(front, load)
        strikes: list[Struck] = []
        async with asyncio.TaskGroup() as group:
            group.create_task(load.run())
            try:
                for one in plan.strikes:
                    if struck := await striker.strike(one):
                        strikes.append(struck)
                        told(struck)
            finally:
                load.over.set()
        return Seen(tuple(strikes), tuple(load.spoken), (), {})

    many_calls()
    seen, held = await acted(act, FRONT_S + plan.bound_s)
    return msgspec.structs.replace(seen, held=held) if seen else None


async def _play(stage: Stage, plan: Plan, told: Callable[[Struck], None]) -> Seen:
    crowds = sum(one.fault == "stampede" for one in plan.strikes)
    for member in range(MEMBERS):
        for number in range(crowds):
            stage.another(f"node-{member}", cold_model(number))
    flags = GATEWAY_FLAGS + (LONG_FLAGS if plan.minutes else ())
    fleet = await fleets.nodes(stage, MEMBERS, ("--slots", str(SLOTS)), flags)
    turns_most = TURNS_MOST if plan.minutes else None
    dice = random.Random(f"{plan.seed} load")
    load = Load(fleet, dice, plan.per_s, plan.talkers, turns_most)
    striker, watch = Striker(fleet, load), Watch(fleet, load.now_s)
    strikes: list[Struck] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(load.run())
        if plan.minutes:
            group.create_task(watch.run(load.over))
        try:
            for one in plan.strikes:
                if plan.minutes and plan.is_over(load.now_s(), watch.least):
                    break
                strikes.append(await striker.strike(one))
                told(strikes[-1])
        finally:
            load.over.set()
    talked = await load.talked()
    return Seen(tuple(strikes), tuple(load.spoken), talked, {}, tuple(watch.readings))
