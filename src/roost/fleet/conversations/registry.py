"""MACHINE: conversations with a name: their turns one after the other, and where their KV is.

    none ── turn ──▶ active ── last turn ends ──▶ idle ── TTL, or room is needed ──▶ gone
                       ▲                            │
                       └────────── turn ────────────┘

A turn runs or waits; of one conversation at most one runs, and those that wait go in the order in
which they came. Work in the background takes a conversation like a turn, but only one that is idle:
turns that come meanwhile wait for it. A conversation is idle from the end of its last turn: one
whose answer takes an hour is not. What was said is not here but in the store, and outlives what is
here.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import nlargest
from typing import Literal

import msgspec

from roost.core.ids import ConversationKey, ModelId, NodeId, RequestId, TenantId
from roost.core.pin import Pin
from roost.errors import Failure
from roost.fleet.conversations.effects import Begin, ConversationEffect, Gone, Refuse
from roost.fleet.deadlines import Deadlines

KEY_BYTES = 16
State = Literal["none", "active", "idle"]


class ConversationSettings(msgspec.Struct, frozen=True):
    """Limits of the registry.

    At most `most` conversations are known at a time; the longest idle one makes room. Of one
    conversation `waiting` turns may wait, each for `wait_s`. After `idle_ttl_s` without a turn it
    is gone from here, and after `lifetime_s` its pin is, at the end of the turn that runs then.
    """

    most: int = 100_000
    waiting: int = 8
    wait_s: float = 60.0
    idle_ttl_s: float = 300.0
    lifetime_s: float = 86_400.0
    retry_after_s: int = 5


class ConversationCounts(msgspec.Struct, frozen=True):
    """How many conversations have a turn, how many are idle, and how many turns wait."""

    active: int
    idle: int
    waiting: int


@dataclass(slots=True)
class _Talk:
    """One conversation that is known; `turns` counts those that have begun here."""

    began_s: float
    active_s: float
    pin: Pin | None = None
    turns: int = 0
    running: RequestId | None = None
    waiting: deque[RequestId] | None = field(default=None)


def conversation_key(tenant: TenantId, name: str) -> ConversationKey:
    """Give what a tenant's conversation of this name is called; no two tenants share one."""
    state = blake2b(digest_size=KEY_BYTES, person=b"conversation")
    for part in (tenant, name):
        raw = part.encode("utf-8", "surrogatepass")
        state.update(len(raw).to_bytes(8, "big"))
        state.update(raw)
    return ConversationKey(state.digest())


class Conversations:
    """The registry of one gateway."""

    def __init__(self, settings: ConversationSettings) -> None:
        self._settings = settings
        self._active: dict[ConversationKey, _Talk] = {}
        self._idle: OrderedDict[ConversationKey, _Talk] = OrderedDict()
        self._keys: dict[RequestId, ConversationKey] = {}
        self._patience: Deadlines[RequestId] = Deadlines()
        self._held: Counter[ModelId] = Counter()

    def state(self, key: ConversationKey) -> State:
        """Whether a conversation has a turn, has had one lately, or is not known here."""
        if key in self._active:
            return "active"
        return "idle" if key in self._idle else "none"

    def pin(self, key: ConversationKey) -> Pin | None:
        """Where its KV is, as far as is known here."""
        talk = self._active.get(key) or self._idle.get(key)
        return None if talk is None else talk.pin

    def counts(self) -> ConversationCounts:
        """Gauges as of the last event."""
        # Whoever is active has exactly one turn that runs.
        waiting = len(self._keys) - len(self._active)
        return ConversationCounts(len(self._active), len(self._idle), waiting)

    def is_awaited(self, key: ConversationKey) -> bool:
        """Whether a turn waits for whoever has this conversation now."""
        talk = self._active.get(key)
        return talk is not None and bool(talk.waiting)

    def held(self) -> Mapping[ModelId, int]:
        """How many tokens of KV the conversations known here should have, by model."""
        return self._held

    def largest(self, count: int) -> list[ConversationKey]:
        """Of those that nobody talks in, the ones with the most KV."""
        pinned = ((t.pin.tokens, key) for key, t in self._idle.items() if t.pin is not None)
        return [key for _, key in nlargest(count, pinned)]

    def on_node(self, node: NodeId) -> list[ConversationKey]:
        """Of those that nobody talks in, the ones whose KV is on this node."""
        return [key for key, t in self._idle.items() if t.pin is not None and t.pin.node == node]

    def on_turn(
        self, key: ConversationKey, request: RequestId, now: float
    ) -> list[ConversationEffect]:
        """A turn has come: it begins, waits, or is refused."""
        assert request not in self._keys, "a turn comes once"
        out: list[ConversationEffect] = self._swept(now)
        talk = self._active.get(key)
        if talk is not None:
            return out + self._line_up(talk, key, request, now)
        talk = self._idle.pop(key, None)
        if talk is None:
            out += self._make_room()
            if len(self._active) + len(self._idle) >= self._settings.most:
                return [*out, Refuse(request, self._full())]
            talk = _Talk(began_s=now, active_s=now)
        self._active[key] = talk
        self._keys[request] = key
        return [*out, self._begin(talk, key, request)]

    def on_work(self, key: ConversationKey, job: RequestId) -> bool:
        """Somebody wants to work on a conversation; False, unless it is known and idle.

        The work ends as a turn does, by `on_ended`, and counts as one for the time it is idle.
        """
        assert job not in self._keys, "a piece of work begins once"
        talk = self._idle.pop(key, None)
        if talk is None:
            return False
        self._active[key] = talk
        self._keys[job] = key
        talk.running = job
        return True

    def on_recalled(self, key: ConversationKey, pin: Pin, idle_s: float) -> None:
        """The store knows a pin of a conversation that is new here, from `idle_s` ago."""
        talk = self._active.get(key)
        if talk is not None and talk.turns <= 1 and talk.pin is None:
            self._pin(talk, pin if idle_s < self._settings.idle_ttl_s else None)

    def on_ended(self, request: RequestId, pin: Pin | None, now: float) -> list[ConversationEffect]:
        """A turn is over, however it ended, also while it waited; `pin` None changes no pin."""
        key = self._keys.pop(request, None)
        if key is None:
            return []
        self._patience.drop(request)
        talk = self._active[key]
        if talk.running != request:
            assert talk.waiting is not None, "a turn runs or waits"
            talk.waiting.remove(request)
            return []
        talk.running = None
        talk.active_s = now
        self._pin(talk, pin or talk.pin)
        if now >= talk.began_s + self._settings.lifetime_s:
            talk.began_s = now
            self._pin(talk, None)
        if talk.waiting:
            following = talk.waiting.popleft()
            self._patience.drop(following)
            return [self._begin(talk, key, following)]
        talk.waiting = None
        del self._active[key]
        self._idle[key] = talk
        return []

    def on_forgotten(self, key: ConversationKey) -> bool:
        """Somebody wants a conversation to be gone; False while a turn of it runs or waits."""
        talk = self._idle.pop(key, None)
        if talk is not None:
            self._pin(talk, None)
        return key not in self._active

    def on_tick(self, now: float) -> list[ConversationEffect]:
        """Time passed; due when `next_tick` says so, and harmless at any other time."""
        out: list[ConversationEffect] = self._swept(now)
        for request in self._patience.due(now):
            talk = self._active[self._keys.pop(request)]
            assert talk.waiting is not None, "whoever runs has no patience to lose"
            talk.waiting.remove(request)
            out.append(Refuse(request, self._busy("took too long")))
        return out

    def next_tick(self) -> float | None:
        """When `on_tick` has something to do."""
        due = [self._patience.next_s()]
        if self._idle:
            due.append(next(iter(self._idle.values())).active_s + self._settings.idle_ttl_s)
        return min((when for when in due if when is not None), default=None)

    def _pin(self, talk: _Talk, pin: Pin | None) -> None:
        """Change where a conversation's KV is, and how much there is of it in all."""
        if talk.pin is not None:
            self._held[talk.pin.model] -= talk.pin.tokens
        if pin is not None:
            self._held[pin.model] += pin.tokens
        talk.pin = pin

    def _begin(self, talk: _Talk, key: ConversationKey, request: RequestId) -> Begin:
        talk.running = request
        talk.turns += 1
        return Begin(key, request)

    def _line_up(
        self, talk: _Talk, key: ConversationKey, request: RequestId, now: float
    ) -> list[ConversationEffect]:
        if talk.waiting is None:
            talk.waiting = deque()
        if len(talk.waiting) >= self._settings.waiting:
            return [Refuse(request, self._busy(f"is followed by {len(talk.waiting)} others"))]
        talk.waiting.append(request)
        self._keys[request] = key
        self._patience.set(request, now + self._settings.wait_s)
        return []

    def _swept(self, now: float) -> list[ConversationEffect]:
        """Let go of whoever has been idle for too long; the longest idle one comes first."""
        out: list[ConversationEffect] = []
        while self._idle:
            key, talk = next(iter(self._idle.items()))
            if now < talk.active_s + self._settings.idle_ttl_s:
                break
            del self._idle[key]
            self._pin(talk, None)
            out.append(Gone(key, "idle"))
        return out

    def _make_room(self) -> list[ConversationEffect]:
        if self._idle and len(self._active) + len(self._idle) >= self._settings.most:
            key, talk = self._idle.popitem(last=False)
            self._pin(talk, None)
            return [Gone(key, "crowded")]
        return []

    def _busy(self, why: str) -> Failure:
        return Failure(
            "conversation_busy",
            f"The turn before this one in its conversation {why}. Send one turn after the other.",
            retry_after_s=self._settings.retry_after_s,
        )

    def _full(self) -> Failure:
        return Failure(
            "conversations_full",
            f"{self._settings.most} conversations are in progress. Retry later.",
            retry_after_s=self._settings.retry_after_s,
        )
