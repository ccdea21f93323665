"""MACHINE: pasts of named conversations made shorter: the production machine, and a store's notes.

A summary is asked for like any other request, by a client of the gateway's own. What is noted is
there at once, since the store does everything in order; the words it stands for stay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from roost.core.compacted import Trigger
from roost.core.conversation import KeptConversation, Summary
from roost.core.events import Delta, StreamEvent
from roost.core.ids import ConversationKey, ModelId, NodeId, RequestId, TenantId
from roost.core.pin import Pin
from roost.core.request import ChatPrompt, GenerateRequest, Message, Terms
from roost.fleet.conversations.compaction import Asked, Compaction
from roost.fleet.conversations.compaction_effects import (
    CompactionEffect,
    GiveUp,
    Go,
    Keep,
    Stop,
    Summarise,
    Told,
    Undo,
)
from roost.fleet.streams.relay_effects import Mark
from roost.sim.compute import answer_of, prompt_tokens
from roost.sim.gateway.ledger import Ledger
from roost.sim.gateway.lines import Reader
from roost.sim.request_facts import Shortened, Trace
from roost.sim.world import Alarm, Process

KEPT_S = (0.0, 0.0)
SOCKET_S = 0.0005
NOWHERE = Pin(NodeId(""), ModelId(""), 0)


class Desk(Protocol):
    """The gateway, as whoever asks for summaries needs it."""

    def ask(
        self, request: GenerateRequest, terms: Terms, reader: Reader, *, streamed: bool
    ) -> None:
        """A request has been received."""
        ...

    def hang_up(self, request: RequestId) -> None:
        """Nobody reads its answer any more."""
        ...


class Secretary:
    """Takes down a summary; `done` is told when the connection is over."""

    def __init__(self, process: Process, done: Callable[[str], None]) -> None:
        self._process = process
        self._done = done
        self._text = ""

    def take(self, events: Sequence[StreamEvent | Mark], written: Callable[[], None]) -> None:
        """Write down what comes."""
        self._text += "".join(one.text for one in events if isinstance(one, Delta))
        self._process.after(SOCKET_S, written)

    def comment(self, written: Callable[[], None]) -> None:
        """A sign of life says nothing."""
        self._process.after(SOCKET_S, written)

    def ended(self) -> None:
        """That is all; whoever has died meanwhile does not hear of it."""
        self._process.do(partial(self._done, self._text))


class Shortening:
    """What is noted of conversations, and the machine that has it noted."""

    def __init__(
        self,
        process: Process,
        machine: Compaction,
        ledger: Ledger,
        desk: Desk,
        on_end: Callable[[Go | GiveUp], None],
    ) -> None:
        self.machine = machine
        self._process = process
        self._ledger = ledger
        self._desk = desk
        self._on_end = on_end
        self._alarm = Alarm(process, self._tick)
        self._notes: dict[ConversationKey, Summary | None] = {}
        self._began_s: dict[RequestId, float] = {}
        self._works: dict[RequestId, ConversationKey] = {}
        self._summaries: dict[RequestId, RequestId] = {}
        self._count = 0

    def inherit(self, before: Shortening) -> None:
        """Find the notes of an earlier life."""
        self._notes = before._notes

    @property
    def _now(self) -> float:
        return self._process.world.now

    def kept(
        self, key: ConversationKey, messages: tuple[Message, ...], pin: Pin | None
    ) -> KeptConversation:
        """Give back a conversation as the store would."""
        return KeptConversation(pin or NOWHERE, *KEPT_S, messages, self._notes.get(key))

    def covers(self, key: ConversationKey) -> int:
        """How many turns of a conversation a summary stands for."""
        summary = self._notes.get(key)
        return 0 if summary is None else summary.covers

    def turn(self, job: RequestId, asked: Asked) -> None:
        """A turn has begun."""
        self._began_s[job] = self._now
        self.perform(self.machine.on_turn(job, asked, self._now))

    def work(self, job: RequestId, asked: Asked, trigger: Trigger) -> None:
        """Somebody has taken a conversation's lock to make its past shorter."""
        self._began_s[job], self._works[job] = self._now, asked.key
        self.perform(self.machine.on_work(job, asked, trigger, self._now))

    def hurry(self, key: ConversationKey) -> None:
        """A turn waits for work on its conversation, if there is any."""
        for job in [job for job, of in self._works.items() if of == key]:
            self.perform(self.machine.on_hurry(job, self._now))

    def too_long(self, job: RequestId) -> None:
        """A node does not take the turn's prompt."""
        self._began_s[job] = self._now
        self.perform(self.machine.on_too_long(job, self._now))

    def over(self, job: RequestId) -> None:
        """A turn, or a piece of work, is over."""
        self._began_s.pop(job, None)
        self._works.pop(job, None)
        self.perform(self.machine.on_over(job))

    def perform(self, effects: list[CompactionEffect]) -> None:
        """Carry out what the machine asks for."""
        for effect in effects:
            match effect:
                case Summarise():
                    self._summarise(effect)
                case Stop():
                    self._stop(effect.job)
                case Keep():
                    self.note(effect)
                case Undo():
                    self._notes[effect.key] = effect.summary
                    self._ledger.undone(effect.job)
                case Told():
                    self._ledger.told(effect)
                case Go() | GiveUp():
                    self._on_end(effect)
        self._alarm.set(self.machine.next_tick())

    def note(self, effect: Keep) -> None:
        """Note with what the model goes on."""
        made, job = effect.summary, effect.job
        self._notes[effect.key] = made
        self._ledger.shortened(
            Shortened(
                effect.key, job, made.trigger, self._began_s[job], self._now, made.covers, made.text
            )
        )

    def _summarise(self, effect: Summarise) -> None:
        self._count += 1
        request = RequestId(f"s{self._count}")
        self._summaries[effect.job] = request
        asked = GenerateRequest(effect.model, effect.prompt, max_tokens=effect.max_tokens)
        self._ledger.arrived(self._trace(request, asked, effect.tenant))
        terms = Terms(
            request,
            effect.tenant,
            timeout_s=effect.timeout_s,
            prompt_bytes=_size(effect.prompt),
            max_tokens=effect.max_tokens,
            class_="bulk",
        )
        reader = Secretary(self._process, partial(self._written, effect.job, request))
        self._desk.ask(asked, terms, reader, streamed=False)

    def _stop(self, job: RequestId) -> None:
        # Its own time may have run out at this very moment.
        request = self._summaries.pop(job, None)
        if request is not None:
            self._desk.hang_up(request)

    def _trace(self, request: RequestId, asked: GenerateRequest, tenant: TenantId) -> Trace:
        trace = Trace(request, asked.model, 1, self._now, tuple(answer_of(asked)))
        trace.tenant, trace.class_, trace.streamed = tenant, "bulk", False
        trace.came_s, trace.prompt_tokens = self._now, len(prompt_tokens(asked))
        trace.own = True
        return trace

    def _written(self, job: RequestId, request: RequestId, text: str) -> None:
        if self._summaries.get(job) != request:
            return
        del self._summaries[job]
        self.perform(self.machine.on_summary(job, text or None, self._now))

    def _tick(self) -> None:
        self.perform(self.machine.on_tick(self._now))


def _size(prompt: ChatPrompt) -> int:
    return sum(len(message.content) for message in prompt.messages)
