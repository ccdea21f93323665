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

from roost.core.compacted import Trigger
from roost.core.ids import ConversationKey, ModelId, NodeId, RequestId, TenantId
from roost.core.pin import Pin
from roost.core.request import ChatPrompt, GenerateRequest, Message, Terms
from roost.errors import Failure
from roost.fleet.choice.affinity import chain
from roost.fleet.conversations import compacting
from roost.fleet.conversations.compaction import Asked, Compaction
from roost.fleet.conversations.compaction_effects import GiveUp, Go
from roost.fleet.conversations.effects import Begin, ConversationEffect, Refuse
from roost.fleet.conversations.registry import Conversations
from roost.fleet.coordinator import Coordinator
from roost.sim.gateway.handovers import Done
from roost.sim.gateway.ledger import Ledger
from roost.sim.gateway.shortening import Desk, Shortening
from roost.sim.world import Action, Alarm, Process

COMMIT_S = 0.002


class Admit(Desk, Protocol):
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

    def when_free(self, request: RequestId, done: Action) -> None:
        """Call `done` when the place of a request's last attempt is free."""
        ...

    @property
    def coordinator(self) -> Coordinator:
        """Who knows the nodes."""
        ...


@dataclass(slots=True)
class Speech:
    """One turn on its way."""

    key: ConversationKey
    request: GenerateRequest
    terms: Terms
    kept: bool = False
    refusal: Failure | None = None

    @property
    def words(self) -> str:
        """What its client says."""
        assert isinstance(self.request.prompt, ChatPrompt), "clients here only chat"
        return self.request.prompt.messages[-1].content


class TalkParts(msgspec.Struct, frozen=True):
    """The machines that conversations are made of."""

    registry: Conversations
    compaction: Compaction


class Talks:
    """The conversations of one gateway."""

    def __init__(self, process: Process, parts: TalkParts, ledger: Ledger, gateway: Admit) -> None:
        self.registry = parts.registry
        self.shortening = Shortening(process, parts.compaction, ledger, gateway, self.go_on)
        self._process = process
        self._ledger = ledger
        self._gateway = gateway
        self._alarm = Alarm(process, self._tick)
        self._speeches: dict[RequestId, Speech] = {}
        self._works: dict[RequestId, ConversationKey] = {}
        self._movers: dict[RequestId, tuple[ConversationKey, Done]] = {}
        self._said: dict[ConversationKey, tuple[Message, ...]] = {}
        self._pins: dict[ConversationKey, tuple[Pin, float]] = {}
        self._tenants: dict[ConversationKey, TenantId] = {}

    def inherit(self, before: Talks) -> None:
        """Find in the store what an earlier life has kept there."""
        self._said, self._pins, self._tenants = before._said, before._pins, before._tenants
        self.shortening.inherit(before.shortening)

    @property
    def _now(self) -> float:
        return self._process.world.now

    @property
    def said(self) -> dict[ConversationKey, tuple[Message, ...]]:
        """All that is kept of what was said."""
        return self._said

    def come(self, key: ConversationKey, request: GenerateRequest, terms: Terms) -> None:
        """A turn has come."""
        speech = Speech(key, request, terms)
        self._speeches[terms.request_id] = speech
        self._tenants[key] = terms.tenant
        is_new = self.registry.state(key) == "none"
        self._perform(self.registry.on_turn(key, terms.request_id, self._now))
        if is_new:
            self._relieve()
        else:
            self.shortening.hurry(key)

    def recall(self, speech: Speech) -> tuple[Message, ...]:
        """What was said before."""
        return self._said.get(speech.key, ())

    def keep(self, request: RequestId, answered: str, pin: Pin | None) -> None:
        """The client has the whole text: keep it, which takes a moment, and then hear of it."""
        # What a disk has begun to write it may finish although whoever asked for it has died.
        self._process.world.at(COMMIT_S / 2, partial(self._keep, request, answered, pin))
        self._process.after(COMMIT_S, partial(self._kept, request))

    def _keep(self, request: RequestId, answered: str, pin: Pin | None) -> None:
        speech = self._speeches.get(request)
        if speech is not None and not speech.kept:
            self._note(speech, answered, pin)
            self._ledger.kept(request)

    def _kept(self, request: RequestId) -> None:
        if request in self._speeches:
            self._gateway.sealed(request)

    def over(self, request: RequestId, answered: str, pin: Pin | None) -> Action:
        """A turn has ended: what its client has of it stays. Returns what lets the next begin."""
        speech = self._speeches.pop(request, None)
        if speech is None:
            return _nothing
        self.shortening.over(request)
        if not speech.kept:
            self._note(speech, answered, pin)
        return partial(self._ended, speech, pin)

    def _ended(self, speech: Speech, pin: Pin | None) -> None:
        self._perform(self.registry.on_ended(speech.terms.request_id, pin, self._now))
        kept = self.registry.pin(speech.key)
        ahead = self.shortening.machine.is_ahead
        if kept is not None and ahead(kept.tokens, partial(self._ctx, kept.model)):
            self.work(speech.key, "proactive")

    def _note(self, speech: Speech, answered: str, pin: Pin | None) -> None:
        speech.kept = True
        if answered and pin is not None:
            said = Message("user", speech.words), Message("assistant", answered)
            self._said[speech.key] = (*self._said.get(speech.key, ()), *said)
            self.repin(speech.key, pin)

    def repin(self, key: ConversationKey, pin: Pin) -> None:
        """The store knows where a conversation's KV is."""
        self._pins[key] = pin, self._now

    def _perform(self, effects: list[ConversationEffect]) -> None:
        for effect in effects:
            if isinstance(effect, Begin):
                self._begin(self._speeches[effect.request])
            elif isinstance(effect, Refuse):
                self._gateway.refuse(effect.request, effect.failure)
        self._alarm.set(self.registry.next_tick())

    def _begin(self, speech: Speech) -> None:
        """What was said is known: look whether it has to be shorter."""
        if speech.key in self._pins:
            stored, since_s = self._pins[speech.key]
            self.registry.on_recalled(speech.key, stored, self._now - since_s)
        pin, request = self.registry.pin(speech.key), speech.request
        self._ledger.begun(speech.terms.request_id)
        asked = Asked(
            speech.key,
            speech.terms.tenant,
            request.model,
            self.shortening.kept(speech.key, self.recall(speech), pin),
            len(speech.words),
            request.max_tokens,
            self._ctx(request.model),
            is_gone=pin is not None and not self._linked(pin.node),
        )
        self.shortening.turn(speech.terms.request_id, asked)

    def _ctx(self, model: ModelId) -> int:
        """The largest context there is for a model."""
        offers = self._gateway.coordinator.models()
        return max((offer.ctx for offer in offers if offer.model == model), default=0)

    def _linked(self, node: NodeId) -> bool:
        return self._gateway.coordinator.silent_s(node, self._now) is not None

    def go_on(self, effect: Go | GiveUp) -> None:
        """A past is as short as it gets."""
        if effect.job in self._movers:
            assert isinstance(effect, Go), "nobody refuses work in the background"
            key, done = self._movers.pop(effect.job)
            self.shortening.over(effect.job)
            done(self._tenants[key], effect.kept)
            return
        if effect.job in self._works:
            assert isinstance(effect, Go), "nobody refuses work in the background"
            self.work_ended(effect)
            return
        speech = self._speeches[effect.job]
        if isinstance(effect, GiveUp):
            assert speech.refusal is not None, "only what was refused is given up"
            self._gateway.refuse(effect.job, speech.refusal)
            return
        messages = (*compacting.past_of(effect.kept), Message("user", speech.words))
        request = msgspec.structs.replace(speech.request, prompt=ChatPrompt(messages))
        pin = self.registry.pin(speech.key)
        if pin is not None and effect.kept.compacted is not None:
            pin = msgspec.structs.replace(pin, tokens=0)
        terms = msgspec.structs.replace(
            speech.terms,
            chain=chain(speech.terms.tenant, request.model, messages),
            prompt_bytes=sum(len(message.content) for message in messages),
            pin=pin,
            require=speech.terms.require and len(messages) > 1,
            has_past=len(messages) > 1,
            fresh=len(messages) == 1,
            compacted=effect.kept.compacted,
        )
        self._ledger.began(terms.request_id, request)
        self._gateway.admit(terms.request_id, request, terms)

    def rescued(self, request: RequestId, failure: Failure) -> bool:
        """A turn's prompt is too long: try a shorter one; False where that is not possible."""
        speech = self._speeches.get(request)
        if speech is None or failure.reason != "context_length_exceeded":
            return False
        speech.refusal = failure
        self._gateway.when_free(request, partial(self._again, request))
        return True

    def _again(self, request: RequestId) -> None:
        if request in self._speeches:
            self.shortening.too_long(request)

    # Work in the background.

    def past(self, job: RequestId, key: ConversationKey, pin: Pin, done: Done) -> bool:
        """Give a past to `done` once it is as short as it has to be; False where there is none."""
        said = self._said.get(key, ())
        if not said:
            return False
        self._movers[job] = key, done
        kept, ctx = self.shortening.kept(key, said, pin), self._ctx(pin.model)
        asked = Asked(key, self._tenants[key], pin.model, kept, ctx=ctx)
        self.shortening.work(job, asked, "worker_drain")
        return True

    def worked(self, effects: list[ConversationEffect]) -> None:
        """Turns that have waited for work in the background may begin."""
        self._perform(effects)

    def _relieve(self) -> None:
        """Where KV has become scarce, make the largest smaller."""
        held = sum(self.registry.held().values())
        for key in self.registry.largest(self.shortening.machine.relief(held)):
            self.work(key, "kv_pressure")

    def work(self, key: ConversationKey, trigger: Trigger) -> None:
        """Compact a conversation, if nobody talks in it."""
        job = RequestId(f"w{self._process.world.now:.6f} {key.hex()}")
        pin = self.registry.pin(key)
        if pin is None or not self.take(key, job):
            return
        self._works[job] = key
        kept = self.shortening.kept(key, self._said.get(key, ()), pin)
        ctx = self._ctx(pin.model)
        asked = Asked(key, self._tenants[key], pin.model, kept, ctx=ctx)
        self.shortening.work(job, asked, trigger)

    def take(self, key: ConversationKey, job: RequestId) -> bool:
        """Take a conversation's lock."""
        return self.registry.on_work(key, job)

    def work_ended(self, effect: Go) -> None:
        """Work has ended; turns that have come meanwhile may begin."""
        key = self._works.pop(effect.job)
        pin = self.registry.pin(key)
        if pin is not None:
            pin = msgspec.structs.replace(pin, tokens=effect.kept.pin.tokens)
        self.shortening.over(effect.job)
        self._perform(self.registry.on_ended(effect.job, pin, self._now))

    def _tick(self) -> None:
        self._perform(self.registry.on_tick(self._now))


def _nothing() -> None:
    """A request that is no turn holds nobody up."""


MakeTalks = Callable[[Process, TalkParts, Ledger, Admit], Talks]
