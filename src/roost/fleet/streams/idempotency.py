"""MACHINE: which requests have run under a key of their client's, and what they were told.

A key belongs to a tenant. It is taken while its request runs, and afterwards stands for the ending
that the client was told: the whole answer, or the failure that cut it. A request that ended before
a byte of its answer was out, or whose client had left, frees its key: there is nothing to tell
again. Answers are opaque here. What a full memory gives up first is the oldest answers, then the
oldest keys; a key whose request runs is never given up. Whoever has its share of either, or more,
gives up its own.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from roost.core.ids import RequestId, TenantId

Name: TypeAlias = tuple[TenantId, str]


class IdempotencySettings(msgspec.Struct, frozen=True):
    """How much is remembered, and for how long.

    `ttl_s` counts from the ending. At most `entries` keys are known at a time. Answers over
    `answer_max_bytes`, and the oldest ones when all together have over `answers_max_bytes`, are
    known to have been given and are not kept.
    """

    ttl_s: float = 86_400.0
    entries: int = 10_000
    answer_max_bytes: int = 1024 * 1024
    answers_max_bytes: int = 64 * 1024 * 1024


class Claim(msgspec.Struct, frozen=True):
    """A request that comes with a key; `fingerprint` is a hash of all that makes it this one."""

    tenant: TenantId
    key: str
    fingerprint: bytes
    request: RequestId


class Fresh(msgspec.Struct, frozen=True):
    """The key is this request's now: let it run."""


class Running(msgspec.Struct, frozen=True):
    """The same request is running, under this id."""

    request: RequestId


class Changed(msgspec.Struct, frozen=True):
    """The key stands for another request than this one."""


class Told(msgspec.Struct, frozen=True):
    """The same request has been answered under this id; `answer` is None where it is not kept."""

    request: RequestId
    answer: bytes | None


class Full(msgspec.Struct, frozen=True):
    """There is room for no more keys: all that are known are running."""


Verdict: TypeAlias = Fresh | Running | Changed | Told | Full


@dataclass(slots=True)
class _Entry:
    """One key. `size` is what its answer weighs here; `kept` False: it is not being kept."""

    fingerprint: bytes
    request: RequestId
    running: bool = True
    kept: bool = True
    size: int = 0
    answer: bytes | None = None
    told_s: float = 0.0


class _Lineup:
    """Names in the order in which they came, all together and each tenant's own."""

    def __init__(self) -> None:
        self._all: OrderedDict[Name, None] = OrderedDict()
        self._own: dict[TenantId, OrderedDict[Name, None]] = {}

    def __len__(self) -> int:
        return len(self._all)

    def add(self, name: Name) -> None:
        self._all[name] = None
        self._own.setdefault(name[0], OrderedDict())[name] = None

    def drop(self, name: Name) -> None:
        if name not in self._all:
            return
        del self._all[name]
        own = self._own[name[0]]
        del own[name]
        if not own:
            del self._own[name[0]]

    def first(self, tenant: TenantId | None = None) -> Name | None:
        """The oldest of all, or of this tenant's."""
        line = self._all if tenant is None else self._own.get(tenant, ())
        return next(iter(line), None)

    def crowded_by(self, tenant: TenantId) -> bool:
        """Whether this tenant has its share, or more."""
        own = self._own.get(tenant)
        return own is not None and len(own) * len(self._own) >= len(self._all)


class Idempotency:
    """Every key that counts."""

    def __init__(self, settings: IdempotencySettings) -> None:
        self._settings = settings
        self._entries: dict[Name, _Entry] = {}
        # In the order of their endings, which is that of their ends: all live equally long.
        self._over = _Lineup()
        self._answers = _Lineup()
        self._held_bytes = 0
        self._own_bytes: dict[TenantId, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def held_bytes(self) -> int:
        """What all answers weigh, those that are being collected included."""
        return self._held_bytes

    def on_request(self, claim: Claim, now: float) -> Verdict:
        """A request came with a key; `Fresh` is followed by `on_told` or `on_untold`, once."""
        self._expire(now)
        known = self._entries.get(self._name(claim))
        if known is not None:
            return self._judge(known, claim)
        if len(self._entries) >= self._settings.entries and not self._give_up(claim.tenant):
            return Full()
        self._entries[self._name(claim)] = _Entry(claim.fingerprint, claim.request)
        return Fresh()

    def on_bytes(self, claim: Claim, count: int) -> bool:
        """The answer has grown by so many bytes; False once it is too large to be kept."""
        entry = self._live(claim)
        if entry is None or not entry.kept:
            return False
        name = self._name(claim)
        over = entry.size + count > self._settings.answer_max_bytes
        if over or not self._make_room(name[0], count):
            self._weigh(name, 0)
            entry.kept = False
            return False
        self._weigh(name, entry.size + count)
        return True

    def on_told(self, claim: Claim, answer: bytes | None, now: float) -> None:
        """The client was told how it ended; `answer` None was too large to be kept.

        What the answer weighs was said by `on_bytes`.
        """
        entry = self._live(claim)
        if entry is None:
            return
        name = self._name(claim)
        entry.running, entry.told_s = False, now
        self._over.add(name)
        if answer is None or not entry.kept:
            self._weigh(name, 0)
        else:
            entry.answer = answer
            self._answers.add(name)

    def on_untold(self, claim: Claim) -> None:
        """Nothing of an answer was told, or to nobody: the key is free again."""
        entry = self._live(claim)
        if entry is not None:
            self._weigh(self._name(claim), 0)
            del self._entries[self._name(claim)]

    def _name(self, claim: Claim) -> Name:
        return (claim.tenant, claim.key)

    def _same(self, known: _Entry, claim: Claim) -> bool:
        return known.fingerprint == claim.fingerprint

    def _judge(self, known: _Entry, claim: Claim) -> Verdict:
        if not self._same(known, claim):
            return Changed()
        return Running(known.request) if known.running else Told(known.request, known.answer)

    def _live(self, claim: Claim) -> _Entry | None:
        """Return the entry, if it is this very request's that runs."""
        entry = self._entries.get(self._name(claim))
        mine = entry is not None and entry.running and entry.request == claim.request
        return entry if mine else None

    def _expire(self, now: float) -> None:
        while (name := self._over.first()) is not None:
            if self._entries[name].told_s + self._settings.ttl_s > now:
                return
            self._forget(name)

    def _give_up(self, newcomer: TenantId) -> bool:
        """Forget one key that is over; a tenant with its share or more gives up one of its own."""
        oldest = self._over.first(newcomer if self._over.crowded_by(newcomer) else None)
        if oldest is not None:
            self._forget(oldest)
        return oldest is not None

    def _forget(self, name: Name) -> None:
        self._over.drop(name)
        self._drop_answer(name)
        del self._entries[name]

    def _drop_answer(self, name: Name) -> None:
        self._answers.drop(name)
        self._weigh(name, 0)
        self._entries[name].answer = None

    def _make_room(self, tenant: TenantId, count: int) -> bool:
        """Drop the oldest answers; a tenant whose own weigh their share or more drops its own."""
        while self._held_bytes + count > self._settings.answers_max_bytes:
            own_bytes = self._own_bytes.get(tenant, 0) + count
            crowded = own_bytes * len({*self._own_bytes, tenant}) >= self._held_bytes + count
            oldest = self._answers.first(tenant if crowded else None)
            if oldest is None:
                return False
            self._drop_answer(oldest)
        return True

    def _weigh(self, name: Name, size: int) -> None:
        """An answer weighs so many bytes now."""
        entry, tenant = self._entries[name], name[0]
        more, entry.size = size - entry.size, size
        self._held_bytes += more
        own_bytes = self._own_bytes.get(tenant, 0) + more
        if own_bytes:
            self._own_bytes[tenant] = own_bytes
        else:
            self._own_bytes.pop(tenant, None)
