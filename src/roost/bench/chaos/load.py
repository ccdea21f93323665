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
READING_S, UNHURRIED_S = 0.1, 1.0
"""Between an answer of a conversation and its next turn; those of a long run have time."""
CONVERSATIONS = "/roost/v1/conversations"
WORDS = "The house by the sea has a garden, and in the garden there is a cat called Tom."
MANNERS: tuple[Manner, ...] = ("plain", "plain", "plain", "replay", "replay", "leaves", "slow")
OTHERS: tuple[Manner, ...] = tuple(manner for manner in MANNERS if manner != "replay")
"""How gateways are asked that do not know what a replay is."""
_NUMBER = re.compile(r", part (\d+)\.")


class _Message(msgspec.Struct):
    role: str
    content: str


class _Shown(msgspec.Struct):
    messages: tuple[_Message, ...] = ()


class Load:
    """Everybody who asks a fleet; `spoken` and `talked` are complete when `run` has returned.

    A conversation of `turns_most` turns is deleted, and another one begun in its place.
    """

    def __init__(
        self,
        fleet: Fleet,
        dice: random.Random,
        per_s: float,
        talkers: int,
        turns_most: int | None = None,
    ) -> None:
        self.spoken: list[Spoken] = []
        self.over = asyncio.Event()
        self.origin_s = monotonic()
        self._fleet = fleet
        self._dice = dice
        self._per_s = per_s
        self._talkers = [self._talker(f"talk-{number}") for number in range(talkers)]
        self._turns_most = turns_most
        self._manners = MANNERS if fleet.kind == "nodes" else OTHERS
        self._gone: list[Talked] = []

    def now_s(self) -> float:
        """Seconds since the load began."""
        return monotonic() - self.origin_s

    async def run(self) -> None:
        """Ask until `over` is set, and wait for all answers."""
        async with asyncio.TaskGroup() as group:
            for place in range(len(self._talkers)):
                group.create_task(self._talk(place))
            number = 0
            while not self.over.is_set():
                due_s = self.origin_s + number / self._per_s
                await asyncio.sleep(max(0.0, due_s - monotonic()))
                group.create_task(self.speak(self._dice.choice(self._manners)))
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
            on_loss=self._on_loss(manner),
            pause_s=SLOW_PAUSE_S if manner == "slow" else 0.0,
            with_text=True,
        )
        answer = await ask(chat)
        (kept,) = rebased([answer], self.origin_s, stamps=False)
        self.spoken.append(Spoken(manner, kept, "".join(pieces)))
        return kept

    def _on_loss(self, manner: Manner) -> str:
        if self._fleet.kind != "nodes":
            return ""
        return "replay" if manner == "replay" else "error"

    def talker(self, name: str) -> Talker:
        """Begin another conversation, which belongs to the load from then on."""
        self._talkers.append(self._talker(name))
        return self._talkers[-1]

    async def talked(self) -> tuple[Talked, ...]:
        """Compare what was read of every conversation with what is kept of it."""
        return (*self._gone, *[await self._kept(talker) for talker in self._talkers])

    def _talker(self, name: str) -> Talker:
        return Talker(self._fleet.port, self._fleet.stage.model, name, WORDS)

    async def _talk(self, place: int) -> None:
        number = 0
        while not self.over.is_set():
            talker = self._talkers[place]
            await talker.talk(1, most=8)
            await asyncio.sleep(READING_S if self._turns_most is None else UNHURRIED_S)
            long = self._turns_most is not None and len(talker.turns) >= self._turns_most
            if long and await self._deleted(talker):
                number += 1
                self._talkers[place] = self._talker(f"talk-{place}-{number}")

    async def _deleted(self, talker: Talker) -> bool:
        """Delete a conversation; False where that has to be tried again, after another turn."""
        try:
            kept = await self._kept(talker)
            await self._fleet.gateway.delete(f"{CONVERSATIONS}/{talker.name}")
        except OSError:
            # It is being moved, or the gateway is away.
            return False
        self._gone.append(kept)
        return True

    async def _kept(self, talker: Talker) -> Talked:
        raw = await self._fleet.gateway.get(f"{CONVERSATIONS}/{talker.name}")
        shown = msgspec.json.decode(raw, type=_Shown)
        said = (message.content for message in shown.messages if message.role == "user")
        found = (_NUMBER.search(content) for content in said)
        return Talked(
            talker.name,
            read=tuple(n for n, told in enumerate(talker.turns) if told.end == "complete"),
            kept=tuple(int(match[1]) for match in found if match),
            lies=tuple(talker.lies),
        )
