"""MACHINE: beginnings that several prompts share, as files that slots are filled from.

A seed is a copy: the slot it was written from goes on with what it holds, and filling another slot
does not use it up. So a beginning alone is enough to find one, where a conversation that was put
aside has to be gone on with. Seeds are a tenant's and a runtime's own, as slots are. They are part
of the memory that sessions may have; while a seed is written or read it is not forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from roost.backends.base import SavedState
from roost.core.ids import RuntimeId, SessionId, TenantId
from roost.node.effects import Effect, Forget, Park, Restore
from roost.node.slots import Content, common_tokens

NOTHING = SavedState(0, 0)


@dataclass(slots=True)
class Seed:
    """One file; `readers` slots are being filled from it, and `saved` is empty until it is whole.

    `is_unwanted` goes as soon as nothing is done with it any more.
    """

    session: SessionId
    runtime: RuntimeId
    content: Content
    used_at: float
    size_bytes: int
    saved: SavedState = NOTHING
    readers: int = 0
    is_unwanted: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether it has been written."""
        return self.saved is not NOTHING

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is done with it."""
        return self.is_whole and not self.readers


class Seeds:
    """All seeds of one node, at most `max_bytes` of them."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._seeds: dict[SessionId, Seed] = {}

    def __iter__(self) -> Iterator[Seed]:
        """All there are, the longest unused first."""
        return iter(sorted(self._seeds.values(), key=lambda one: (one.used_at, one.session)))

    def __contains__(self, session: SessionId) -> bool:
        """Whether this is the name of a seed."""
        return session in self._seeds

    @property
    def size_bytes(self) -> int:
        """Bytes of all of them."""
        return sum(one.size_bytes for one in self._seeds.values())

    def in_the_way(self, need_bytes: int) -> list[Seed] | None:
        """Those that go for one of this size, the longest unused first; None if it cannot fit."""
        over_bytes = self.size_bytes + need_bytes - self.max_bytes
        going: list[Seed] = []
        for one in self:
            if over_bytes > 0 and one.is_at_rest:
                over_bytes -= one.size_bytes
                going.append(one)
        return going if over_bytes <= 0 else None

    def drop(self, going: Iterable[Seed]) -> list[Effect]:
        """Forget these."""
        return [effect for one in going for effect in self._forget(one)]

    def add(self, seed: Seed) -> list[Effect]:
        """Write this one from its reserved slot; there has to be room for it."""
        self._seeds[seed.session] = seed
        return [Park(seed.runtime, seed.content.slot, seed.session, shared=True)]

    def on_saved(self, session: SessionId, saved: SavedState | None) -> list[Effect]:
        """A seed is whole, or could not be written."""
        one = self._seeds.get(session)
        if one is None or one.is_whole:
            return []
        if saved is not None:
            one.saved, one.size_bytes = saved, saved.size_bytes
        return self._forget(one) if saved is None or one.is_unwanted else []

    def alike(self, runtime: RuntimeId, tenant: TenantId, wanted: bytes) -> list[tuple[Seed, int]]:
        """The whole seeds that a prompt begins like, the smallest first, and how far."""
        mine = [
            (one, common_tokens(one.content.known, wanted))
            for one in self._seeds.values()
            if one.runtime == runtime and one.content.tenant == tenant
            if one.is_whole and not one.is_unwanted
        ]
        mine.sort(key=lambda found: found[0].size_bytes)
        return [found for found in mine if found[1]]

    def take(self, one: Seed, now: float) -> None:
        """A slot is about to be filled from this one."""
        one.readers += 1
        one.used_at = now

    def read(self, one: Seed, slot: int) -> list[Effect]:
        """Fill a reserved slot from a seed that was taken."""
        known = one.content.known
        return [Restore(one.runtime, slot, one.session, "ram", one.saved, known, copies=True)]

    def put_back(self, one: Seed, *, ok: bool = True) -> list[Effect]:
        """A slot has been filled from it, needs it no more, or found it spoilt."""
        if self._seeds.get(one.session) is not one:
            return []
        one.readers -= 1
        one.is_unwanted = one.is_unwanted or not ok
        return self._forget(one) if one.is_unwanted and one.is_at_rest else []

    def forget(self, tenant: TenantId | None) -> list[Effect]:
        """Nobody asks for this tenant, or anybody, any more."""
        effects: list[Effect] = []
        for one in self:
            if tenant in {None, one.content.tenant}:
                one.is_unwanted = True
                effects += self._forget(one) if one.is_at_rest else []
        return effects

    def erase(self, content: Content) -> list[Effect]:
        """Keep no copy of this conversation, as it is or as it was; beginnings of others stay."""
        known = content.known
        effects: list[Effect] = []
        for one in self:
            its = one.content.known
            if one.content.tenant == content.tenant and (
                known.startswith(its) or its.startswith(known)
            ):
                one.is_unwanted = True
                effects += self._forget(one) if one.is_at_rest else []
        return effects

    def tidy(self, before: float) -> list[Effect]:
        """Forget what was not used since."""
        return self.drop([one for one in self if one.is_at_rest and one.used_at <= before])

    def oldest_s(self) -> float | None:
        """When the longest unused was used last."""
        return min((one.used_at for one in self._seeds.values() if one.is_at_rest), default=None)

    def on_gone(self, runtime: RuntimeId) -> list[Effect]:
        """A runtime is gone, and nobody else begins with what it has computed."""
        return self.drop([one for one in self if one.runtime == runtime])

    def _forget(self, one: Seed) -> list[Effect]:
        del self._seeds[one.session]
        return [Forget(one.runtime, one.session)]
