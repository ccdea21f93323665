"""MACHINE: named conversations of a simulated gateway: the production registry, and a store.

A client sends this turn's words alone. When its turn has come, what was said before is put in front
of them, and the request goes the way of all others. The store takes a moment to keep a turn, and
what it has kept it never loses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import msgspec

from roost.core.ids import ConversationKey, RequestId
from roost.core.pin import Pin
from roost.core.request import ChatPrompt, GenerateRequest, Message, Terms
from roost.errors import Failure
from roost.fleet.affinity import chain
from roost.fleet.conversation_effects import Begin, ConversationEffect, Refuse
from roost.fleet.conversations import Conversations
from roost.sim.ledger import Ledger
from roost.sim.world import Action, Alarm, Process

COMMIT_S = 0.002


class Admit(Protocol):
    """The gateway, as conversations need it."""

    def admit(self, request: RequestId, asked: GenerateRequest, terms: Terms) -> None:
        """A turn is complete: decide about it."""
        ...

    def refuse(self, request: RequestId, failure: Failure) -> None:
        """A turn is not served."""
        ...

    def sealed(self, request: RequestId) -> None:
        """What was said is kept."""
        ...


@dataclass(slots=True)
class Speech:
    """One turn on its way."""

    key: ConversationKey
    request: GenerateRequest
    terms: Terms
    kept: bool = False

    @property
    def words(self) -> str:
        """What its client says."""
        assert isinstance(self.request.prompt, ChatPrompt), "clients here only chat"
        return self.request.prompt.messages[-1].content


class Talks:
    """The conversations of one gateway."""

    def __init__(
        self, process: Process, registry: Conversations, ledger: Ledger, gateway: Admit
    ) -> None:
        self.registry = registry
        self._process = process
        self._ledger = ledger
        self._gateway = gateway
        self._alarm = Alarm(process, self._tick)
        self._speeches: dict[RequestId, Speech] = {}
        self._said: dict[ConversationKey, tuple[Message, ...]] = {}

    @property
    def _now(self) -> float:
        return self._process.world.now

    def come(self, key: ConversationKey, request: GenerateRequest, terms: Terms) -> None:
        """A turn has come."""
        speech = Speech(key, request, terms)
        self._speeches[terms.request_id] = speech
        self._perform(self.registry.on_turn(key, terms.request_id, self._now))

    def recall(self, speech: Speech) -> tuple[Message, ...]:
        """What was said before."""
        return self._said.get(speech.key, ())

    def keep(self, request: RequestId, answered: str, pin: Pin | None) -> None:
        """The client has the whole text: keep it, which takes a moment."""
        self._process.after(COMMIT_S, partial(self._keep, request, answered, pin))

    def _keep(self, request: RequestId, answered: str, pin: Pin | None) -> None:
        speech = self._speeches.get(request)
        if speech is not None:
            self._note(speech, answered, pin)
            self._ledger.kept(request)
            self._gateway.sealed(request)

    def over(self, request: RequestId, answered: str, pin: Pin | None) -> Action:
        """A turn has ended: what its client has of it stays. Returns what lets the next begin."""
        speech = self._speeches.pop(request, None)
        if speech is None:
            return _nothing
        if not speech.kept:
            self._note(speech, answered, pin)
        return lambda: self._perform(self.registry.on_ended(request, pin, self._now))

    def _note(self, speech: Speech, answered: str, pin: Pin | None) -> None:
        speech.kept = True
        if answered and pin is not None:
            said = Message("user", speech.words), Message("assistant", answered)
            self._said[speech.key] = (*self._said.get(speech.key, ()), *said)

    def _perform(self, effects: list[ConversationEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Begin):
                self._begin(self._speeches[effect.request])
            elif isinstance(effect, Refuse):
                self._gateway.refuse(effect.request, effect.failure)
        self._alarm.set(self.registry.next_tick())

    def _begin(self, speech: Speech) -> None:
        messages = (*self.recall(speech), Message("user", speech.words))
        request = msgspec.structs.replace(speech.request, prompt=ChatPrompt(messages))
        terms = msgspec.structs.replace(
            speech.terms,
            chain=chain(speech.terms.tenant, request.model, messages),
            prompt_bytes=sum(len(message.content) for message in messages),
            pin=self.registry.pin(speech.key),
            has_past=len(messages) > 1,
        )
        self._ledger.began(terms.request_id, request)
        self._gateway.admit(terms.request_id, request, terms)

    def _tick(self) -> None:
        self._perform(self.registry.on_tick(self._now))


def _nothing() -> None:
    """A request that is no turn holds nobody up."""


MakeTalks = Callable[[Process, Conversations, Ledger, Admit], Talks]
