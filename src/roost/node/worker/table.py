"""MACHINE: the sessions of a node's worker API: who they are, what they hold, what they may.

    (none) ──create──▶ busy ──▶ idle ──continue, decode──▶ busy
                        │        │
                        ▼        ▼ removed, replaced, unused too long, too old, or room is needed
                       gone ◀────╯

A session's past is kept as text, and its KV is the node's own business: in a slot, put aside, or
computed again when neither was possible. Every session is a tenant of its own there, so that no KV
passes from one to another. Room is reserved before anything begins, and given back when it has
ended, whatever came of it. Who is busy is never evicted.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

from roost.core.ids import ModelId, TenantId
from roost.core.request import Message
from roost.core.snapshots import ModelOffer
from roost.dialects.system1.worker import Denial, SessionLine, Totals

Answer: TypeAlias = Literal["none", "open", "ended", "cut"]


class WorkerLimits(msgspec.Struct, frozen=True):
    """Limits of what a worker API holds.

    `context_tokens` is the budget of one session for its prompts, `session_kv_bytes` and `kv_bytes`
    what one, and all of them, may hold. After `idle_s` without use, or `lifetime_s` in all, a
    session ends. Who was used within `young_s` makes no room for others.
    """

    sessions_max: int = 100
    session_kv_bytes: int = 512 * 2**20
    kv_bytes: int = 8 * 2**30
    context_tokens: int = 2048
    idle_s: float = 300.0
    lifetime_s: float = 86_400.0
    young_s: float = 10.0


@dataclass(slots=True, eq=False)
class WorkerSession:
    """One session; `reserved` tokens are what it may hold when what it is busy with has ended.

    The answer is `open` as long as it could go on from its `answer_ids`, which `cut` ones lack.
    """

    number: int
    owner: TenantId
    name: str
    model: ModelId
    token_bytes: int
    ctx: int
    digest: str
    born_s: float
    used_s: float
    max_tokens: int = 0
    tokens: int = 0
    reserved: int = 0
    busy: bool = True
    gone: bool = False
    messages: tuple[Message, ...] = ()
    answer: str = ""
    answer_ids: tuple[int, ...] = ()
    answer_state: Answer = "none"

    @property
    def tenant(self) -> TenantId:
        """Whose KV the node thinks it is: nobody else's, ever."""
        return TenantId(f"session:{self.number}")

    @property
    def kv_bytes(self) -> int:
        """What it holds, or may hold in a moment."""
        return max(self.tokens, self.reserved) * self.token_bytes

    def turns(self, prompt: str) -> tuple[Message, ...]:
        """Everything said, with this prompt last; two prompts without an answer are one message."""
        if self.answer_state != "none":
            said = Message("assistant", self.answer)
            return (*self.messages, said, Message("user", prompt))
        if self.messages:
            both = f"{self.messages[-1].content}\n\n{prompt}"
            return (*self.messages[:-1], Message("user", both))
        return (Message("user", prompt),)


class WorkerTable:
    """All sessions of one worker API."""

    def __init__(self, limits: WorkerLimits) -> None:
        self.limits = limits
        self._sessions: dict[tuple[TenantId, str], WorkerSession] = {}
        self._born = 0
        self._loose: list[WorkerSession] = []

    def __iter__(self) -> Iterator[WorkerSession]:
        """All there are, the longest unused first."""
        return iter(sorted(self._sessions.values(), key=lambda one: (one.used_s, one.number)))

    def get(self, owner: TenantId, name: str) -> WorkerSession | None:
        """The session of this name."""
        return self._sessions.get((owner, name))

    # What is asked of them; whoever gets a session calls `settle` for it, once.

    def create(
        self, owner: TenantId, name: str, offer: ModelOffer, now: float
    ) -> WorkerSession | Denial:
        """Begin a session; one of the same name is replaced."""
        old = self.get(owner, name)
        self._born += 1
        session = WorkerSession(
            *(self._born, owner, name, offer.model, offer.kv_token_bytes or 0),
            *(offer.ctx, offer.digest, now, now),
        )
        budget = self.budget(session)
        if budget < 1:
            return "session_kv_cache_too_large"
        surplus = 0 if old is not None else len(self._sessions) + 1 - self.limits.sessions_max
        denial = self._make_room(budget * session.token_bytes, old, now, surplus)
        if denial is not None:
            return denial
        if old is not None:
            self._let_go(old)
        session.reserved = budget
        self._sessions[owner, name] = session
        return session

    def resume(
        self, owner: TenantId, name: str, model: ModelId, now: float
    ) -> WorkerSession | Denial:
        """Begin to prefill the next turn of a session."""
        session = self.get(owner, name)
        if session is None:
            return "session_gone"
        if session.model != model:
            return "model_mismatch"
        if session.busy:
            return "session_busy"
        budget = self.budget(session)
        if session.tokens >= budget:
            return "session_full"
        return self._occupy(session, budget, now)

    def decode(
        self, owner: TenantId, name: str, max_tokens: int, now: float
    ) -> WorkerSession | Denial:
        """Begin to decode at most this many tokens."""
        session = self.get(owner, name)
        if session is None:
            return "session_gone"
        if session.busy:
            return "session_busy"
        if session.answer_state == "cut":
            return "nothing_to_decode"
        most = session.tokens + min(max_tokens, session.max_tokens)
        return self._occupy(session, min(most, session.ctx) if session.ctx else most, now)

    def prefilled(
        self, session: WorkerSession, messages: tuple[Message, ...], tokens: int, max_tokens: int
    ) -> int | None:
        """These turns are in: how many tokens that added; None if the session is gone meanwhile."""
        if session.gone:
            return None
        added = max(0, tokens - session.tokens)
        session.messages, session.tokens, session.max_tokens = messages, tokens, max_tokens
        session.answer, session.answer_ids, session.answer_state = "", (), "none"
        return added

    def spoke(self, session: WorkerSession, text: str, tokens: int, ids: tuple[int, ...]) -> None:
        """More of an answer has come."""
        session.answer += text
        session.answer_ids += ids
        session.tokens += tokens
        whole = session.answer_state != "cut" and len(ids) == tokens
        session.answer_state = "open" if whole else "cut"

    def ended(self, session: WorkerSession) -> None:
        """The model has said all it had to say."""
        session.answer_state = "ended"

    def settle(self, session: WorkerSession, now: float) -> None:
        """What it was busy with has ended, whatever came of it."""
        session.busy, session.reserved, session.used_s = False, 0, now
        if session.gone:
            self._loose.append(session)
        elif not session.messages:
            self._let_go(session)

    # How they end.

    def remove(self, owner: TenantId, name: str) -> WorkerSession | None:
        """End a session; None where there is none."""
        session = self.get(owner, name)
        if session is not None:
            self._let_go(session)
        return session

    def sweep(self, now: float) -> int:
        """End those that were unused for too long or are too old; how many that were."""
        limits, before = self.limits, len(self._sessions)
        for one in self:
            over = now >= min(one.used_s + limits.idle_s, one.born_s + limits.lifetime_s)
            if over and not one.busy:
                self._let_go(one)
        return before - len(self._sessions)

    def take_loose(self) -> WorkerSession | None:
        """One that has ended and holds KV on the node that nobody wants; None without any.

        Whoever cannot have that forgotten gives it back with `put_back`.
        """
        return self._loose.pop(0) if self._loose else None

    def put_back(self, session: WorkerSession) -> None:
        """The node was not told to forget what this one holds: somebody else has to tell it."""
        self._loose.append(session)

    # What there is.

    def lines(self, owner: TenantId, now: float) -> list[SessionLine]:
        """An owner's sessions that hold anything."""
        return [
            SessionLine(
                session_id=one.name,
                model=one.model,
                max_tokens=one.max_tokens,
                kv_cache_bytes=one.tokens * one.token_bytes,
                idle_ms=0 if one.busy else round(1000 * max(0.0, now - one.used_s)),
                tokens=one.tokens,
            )
            for one in self
            if one.owner == owner and one.messages
        ]

    def totals(self) -> Totals:
        """Everybody's sessions together."""
        held = sum(one.tokens * one.token_bytes for one in self._sessions.values())
        limits = self.limits
        return Totals(len(self._sessions), held, limits.sessions_max, limits.kv_bytes)

    def budget(self, session: WorkerSession) -> int:
        """How many tokens its prompts may come to."""
        most = self.limits.context_tokens
        if session.token_bytes:
            most = min(most, self.limits.session_kv_bytes // session.token_bytes)
        return min(most, session.ctx) if session.ctx else most

    def is_bound_by_kv(self, session: WorkerSession) -> bool:
        """Whether it is the bytes of KV that limit its prompts, and not the context."""
        context = min(self.limits.context_tokens, session.ctx or self.limits.context_tokens)
        return self.budget(session) < context

    def _occupy(self, session: WorkerSession, tokens: int, now: float) -> WorkerSession | Denial:
        denial = self._make_room(tokens * session.token_bytes, session, now)
        if denial is not None:
            return denial
        session.busy, session.reserved, session.used_s = True, tokens, now
        return session

    def _make_room(
        self, need_bytes: int, instead: WorkerSession | None, now: float, surplus: int = 0
    ) -> Denial | None:
        """Evict the least recently used until so much fits in the place of `instead`, if it can.

        At least `surplus` sessions have to go. Where that is not enough nobody goes.
        """
        used = sum(one.kv_bytes for one in self._sessions.values() if one is not instead)
        over = used + need_bytes - self.limits.kv_bytes
        leaving: list[WorkerSession] = []
        for one in self._evictable(now):
            if over <= 0 and len(leaving) >= surplus:
                break
            if one is not instead and (one.kv_bytes or len(leaving) < surplus):
                leaving.append(one)
                over -= one.kv_bytes
        if len(leaving) < surplus:
            return "max_sessions_exceeded"
        if over > 0:
            return "total_kv_cache_exceeded"
        for one in leaving:
            self._let_go(one)
        return None

    def _evictable(self, now: float) -> Iterator[WorkerSession]:
        young_s = self.limits.young_s
        return (one for one in self if not one.busy and now >= one.used_s + young_s)

    def _let_go(self, session: WorkerSession) -> None:
        del self._sessions[session.owner, session.name]
        session.gone = True
        if not session.busy:
            self._loose.append(session)
