"""SHELL: the load that faults happen under: chats at a constant rate, and conversations by name."""

from __future__ import annotations

import asyncio
import json
import random
import re
from time import monotonic

import msgspec

from roost.bench.chaos.seen import Manner, Spoken, Talked
from roost.bench.drills.answers import Answer, rebased
from roost.bench.drills.asking import Chat, ask
from roost.bench.drills.fleets import Fleet
from roost.bench.drills.talking import Talker

PIECES, GAP_MS = 12, 20.0
SLOW_PAUSE_S = 0.15
READING_S = 0.1
"""Between an answer of a conversation and its next turn."""
WORDS = "The house by the sea has a garden, and in the garden there is a cat called Tom."
MANNERS: tuple[Manner, ...] = ("plain", "plain", "plain", "replay", "replay", "leaves", "slow")
_NUMBER = re.compile(r", part (\d+)\.")


class _Message(msgspec.Struct):
    role: str
    content: str


class _Shown(msgspec.Struct):
    messages: tuple[_Message, ...] = ()


class Load:
    """Everybody who asks a fleet; `spoken` and `talked` are complete when `run` has returned."""

    def __init__(self, fleet: Fleet, dice: random.Random, per_s: float, talkers: int) -> None:
        self.spoken: list[Spoken] = []
        self.over = asyncio.Event()
        self.origin_s = monotonic()
        self._fleet = fleet
        self._dice = dice
        self._per_s = per_s
        self._talkers = [self._talker(f"talk-{number}") for number in range(talkers)]

    def now_s(self) -> float:
        """Seconds since the load began."""
        return monotonic() - self.origin_s

    async def run(self) -> None:
        """Ask until `over` is set, and wait for all answers."""
        async with asyncio.TaskGroup() as group:
            for talker in self._talkers:
                group.create_task(self._talk(talker))
            number = 0
            while not self.over.is_set():
                due_s = self.origin_s + number / self._per_s
                await asyncio.sleep(max(0.0, due_s - monotonic()))
                group.create_task(self.speak(self._dice.choice(MANNERS)))
                number += 1

    async def speak(self, manner: Manner, model: str = "", length: int = PIECES) -> Answer:
        """Ask one chat of so many pieces in such a manner, and keep what came of it."""
        pieces = [f"{number} " for number in range(length)]
        script = json.dumps({"pieces": pieces, "delay_ms": GAP_MS})
        leaves = self._dice.randrange(length) if manner == "leaves" else None
        chat = Chat(
            self._fleet.port,
            model or self._fleet.stage.model,
            f"{self._dice.getrandbits(64):016x}\n@script {script}",
            leave_after_events=leaves,
            on_loss="replay" if manner == "replay" else "error",
            pause_s=SLOW_PAUSE_S if manner == "slow" else 0.0,
            with_text=True,
        )
        answer = await ask(chat)
        (kept,) = rebased([answer], self.origin_s, stamps=False)
        self.spoken.append(Spoken(manner, kept, "".join(pieces)))
        return kept

    def talker(self, name: str) -> Talker:
        """Begin another conversation, which belongs to the load from then on."""
        self._talkers.append(self._talker(name))
        return self._talkers[-1]

    async def talked(self) -> tuple[Talked, ...]:
        """Compare what was read of every conversation with what is kept of it."""
        return tuple([await self._kept(talker) for talker in self._talkers])

    def _talker(self, name: str) -> Talker:
        return Talker(self._fleet.port, self._fleet.stage.model, name, WORDS)

    async def _talk(self, talker: Talker) -> None:
        while not self.over.is_set():
            await talker.talk(1, most=8)
            await asyncio.sleep(READING_S)

    async def _kept(self, talker: Talker) -> Talked:
        raw = await self._fleet.gateway.get(f"/roost/v1/conversations/{talker.name}")
        shown = msgspec.json.decode(raw, type=_Shown)
        said = (message.content for message in shown.messages if message.role == "user")
        found = (_NUMBER.search(content) for content in said)
        return Talked(
            talker.name,
            read=tuple(n for n, told in enumerate(talker.turns) if told.end == "complete"),
            kept=tuple(int(match[1]) for match in found if match),
            lies=tuple(talker.lies),
        )
