"""MACHINE: clients that ask what a recorded trace says, when it says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from roost.core.ids import ConversationKey, RequestId, TenantId
from roost.core.request import Message, ServiceClass
from roost.sim.request_facts import Trace
from roost.sim.tape import Talk, Tape, talks
from roost.sim.traffic.clients import Manners
from roost.sim.world import World

if TYPE_CHECKING:
    from random import Random

PAUSE_S = 0.1
"""How long a client whose next turn is overdue takes to read the answer before it."""


class Speaker(Protocol):
    """Who takes turns: what `Sender.send` wants to know of a conversation."""

    dice: Random
    model: str
    turn: int
    tenant: TenantId
    class_: ServiceClass
    key: ConversationKey | None
    messages: list[Message]

    def most(self) -> int:
        """How many tokens the next answer may have."""
        ...

    def answered(self, trace: Trace) -> None:
        """The turn has come to its end."""
        ...


class Sender(Protocol):
    """What a conversation needs of the workload."""

    thinking: int

    def send(self, talk: Speaker, manners: Manners) -> Trace:
        """Put a turn's request on its way."""
        ...

    def manners(self, dice: Random) -> Manners:
        """Draw how a client behaves."""
        ...


class Recorded:
    """One conversation of a tape; a turn whose time comes during the one before waits for it."""

    def __init__(self, sender: Sender, world: World, talk: Talk, model: str, name: str) -> None:
        self.dice = world.dice(f"recorded {name}")
        self.model = model
        self._world = world
        self.turn = 0
        self.tenant = TenantId(f"key:{name}")
        self.class_: ServiceClass = "interactive"
        self.key: ConversationKey | None = None
        self.messages = [Message("system", " ".join(talk.beginning) or "You are helpful.")]
        self._sender = sender
        self._talk = talk
        self._name = name
        self._due = 0
        self._busy = False
        self._over = False
        self._last: RequestId | None = None

    def begin(self) -> None:
        """Let every turn come due at its time, as soon as that is not in the past."""
        for turn in self._talk.turns:
            self._sender.thinking += 1
            self._world.at(max(0.0, turn.at_s - self._world.now), self._time_has_come)

    def most(self) -> int:
        """As the trace says."""
        return self._talk.turns[self.turn - 1].max_tokens

    def answered(self, trace: Trace) -> None:
        """Go on with what has come due meanwhile; without the answer there is nothing to say."""
        if not any(kind == "complete" for kind, _ in trace.endings):
            self._over = True
        self.messages.append(Message("assistant", trace.text.strip()))
        self._sender.thinking += 1
        self._world.at(PAUSE_S, self._read)

    def _read(self) -> None:
        self._sender.thinking -= 1
        self._busy = False
        self._go_on()

    def _time_has_come(self) -> None:
        self._sender.thinking -= 1
        self._due += 1
        self._go_on()

    def _go_on(self) -> None:
        if self._due == self.turn or self._busy or self._over:
            return
        self._busy = True
        self.turn += 1
        count = self._talk.turns[self.turn - 1].words
        words = " ".join(f"{self._name}t{self.turn}w{n}" for n in range(count))
        self.messages.append(Message("user", words))
        trace = self._sender.send(self, self._sender.manners(self.dice))
        trace.previous, self._last = self._last, trace.request


def play_back(sender: Sender, world: World, tape: Tape, models: tuple[str, ...]) -> None:
    """Let everybody on the tape speak."""
    for number, talk in enumerate(talks(tape), start=1):
        model = models[number % len(models)]
        Recorded(sender, world, talk, model, f"r{number}").begin()
