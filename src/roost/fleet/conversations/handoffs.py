"""MACHINE: prompts that were computed ahead, each waiting for the one answer that goes on from it.

    reserve ──▶ place ── spend ──▶ gone
       │          ╰── TTL ───────▶ gone
       ╰── give up ──▶ nothing

Whoever has the secret has the handoff, if it is the tenant who got it: what is kept here is a hash
of both. Room is reserved before any work, and nobody's handoff makes room for another one. It is
spent before the work begins, so that an answer that fails has spent it too.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from hashlib import blake2b

import msgspec

from roost.core.ids import TenantId
from roost.core.pin import Pin
from roost.core.request import Prompt
from roost.errors import Failure


class HandoffSettings(msgspec.Struct, frozen=True):
    """At most `each_max` of a tenant and `all_max` of everybody wait at a time, for `ttl_s`."""

    each_max: int = 128
    all_max: int = 1024
    ttl_s: float = 900.0


class Handoff(msgspec.Struct, frozen=True):
    """A prompt, and where its KV is."""

    prompt: Prompt
    pin: Pin


class _Kept(msgspec.Struct, frozen=True):
    tenant: TenantId
    handoff: Handoff
    until_s: float


EXPIRED = Failure(
    "expired_handoff", "This handoff was spent, is over its time, or was never yours: prefill anew."
)
RETRY_MAX_S = 120
FULL = "{} handoffs {} wait to be decoded. Decode some, or let them expire."


class Handoffs:
    """All of one gateway; they end with its process."""

    def __init__(self, settings: HandoffSettings) -> None:
        self._settings = settings
        # In the order of their ends, since all live equally long.
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._held: Counter[TenantId] = Counter()

    def __len__(self) -> int:
        """How many are reserved or wait."""
        return self._held.total()

    def reserve(self, tenant: TenantId, now: float) -> Failure | None:
        """Keep a place for one that is to be made; says why not."""
        self._sweep(now)
        settings = self._settings
        for held, most, whose in (
            (self._held[tenant], settings.each_max, "of yours"),
            (len(self), settings.all_max, "of all"),
        ):
            if held >= most:
                retry_s = min(RETRY_MAX_S, max(1, round(self._next_s(now))))
                message = FULL.format(most, whose)
                return Failure("rate_limit_exceeded", message, retry_after_s=retry_s)
        self._held[tenant] += 1
        return None

    def give_up(self, tenant: TenantId) -> None:
        """Nothing came of a place that was reserved."""
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]

    def place(self, tenant: TenantId, secret: str, handoff: Handoff, now: float) -> None:
        """It is made, and takes the place that was reserved."""
        kept = _Kept(tenant, handoff, now + self._settings.ttl_s)
        self._kept[_digest(tenant, secret)] = kept

    def spend(self, tenant: TenantId, secret: str, now: float) -> Handoff | Failure:
        """Take it, once."""
        self._sweep(now)
        kept = self._kept.pop(_digest(tenant, secret), None)
        if kept is None:
            return EXPIRED
        self.give_up(tenant)
        return kept.handoff

    def _next_s(self, now: float) -> float:
        """How long until the next place is free by itself."""
        first = next(iter(self._kept.values()), None)
        return self._settings.ttl_s if first is None else first.until_s - now

    def _sweep(self, now: float) -> None:
        while self._kept:
            key, kept = next(iter(self._kept.items()))
            if now < kept.until_s:
                return
            del self._kept[key]
            self.give_up(kept.tenant)


def _digest(tenant: TenantId, secret: str) -> bytes:
    state = blake2b(digest_size=32, person=b"handoff")
    for part in (tenant, secret):
        raw = part.encode("utf-8", "surrogatepass")
        state.update(len(raw).to_bytes(8, "big"))
        state.update(raw)
    return state.digest()
