"""MACHINE: the list of conversations that are put aside, and who can read what others wrote."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeAlias

import msgspec

from roost.backends.base import SavedState
from roost.core.ids import ModelId, RuntimeId, SessionId, TenantId
from roost.node.effects import Demote, Promote, Restore
from roost.node.slots import TOKEN_BYTES, Content, common_tokens

Place: TypeAlias = Literal["saving", "ram", "moving", "disk", "restoring", "leaving", "rising"]
AT_REST = ("ram", "disk")
TAKEABLE = ("ram", "moving", "disk")
NOTHING = SavedState(0, 0)
NOBODY = RuntimeId("")
"""The runtime of what no living one can read."""
UNKNOWN = ModelId("")
NO_WRITER = "", 0
LOOKS = 16
"""Conversations with one beginning that are compared to its end: some hundred microseconds."""


def model_of(runtime: RuntimeId) -> ModelId:
    """Name the model of a runtime, whose name is that and a number."""
    return ModelId(runtime.rpartition("#")[0])


@dataclass(slots=True)
class Parked:
    """One session that is not in a slot; `used_at` is when it was last in one.

    `kin` names what wrote it: runtimes of the same kin can read it, "" none but the writer itself.
    """

    session: SessionId
    runtime: RuntimeId
    content: Content
    used_at: float
    ram_bytes: int
    disk_bytes: int = 0
    place: Place = "saving"
    saved: SavedState = NOTHING
    # Its bytes are being written to disk; whatever else happens to it, that ends first.
    is_demoting: bool = False
    # Its tenant is gone: it is forgotten as soon as what moves it has ended.
    is_unwanted: bool = False
    kin: str = ""
    pinned: bool = False
    model: ModelId = UNKNOWN
    # Slots that are being filled from it as from a copy: it is not forgotten before they are.
    readers: int = 0
    # Whether it is copied at all: not after that has failed, and for its own sake it stays.
    lends: bool = True

    @property
    def tenant(self) -> TenantId | None:
        """Whose it is."""
        return self.content.tenant

    def to_disk(self) -> Demote:
        """Have it copied to disk."""
        assert self.tenant is not None, "what nobody left is not put aside"
        known = self.content.known
        return Demote(self.session, self.saved, known, self.tenant, self.kin, self.pinned)

    def to_memory(self) -> Promote:
        """Have it copied from disk."""
        return Promote(self.session, self.saved, self.content.known, self.kin)

    def to_slot(self, slot: int, *, copies: bool = False) -> Restore:
        """Have it read into a reserved slot, from memory where it is there."""
        tier: Literal["ram", "disk"] = "ram" if self.ram_bytes else "disk"
        known = self.content.known
        return Restore(
            self.runtime, slot, self.session, tier, self.saved, known, self.kin, copies=copies
        )

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing is done with it."""
        return self.place in AT_REST and not self.readers

    @property
    def may_yield(self) -> bool:
        """Whether it goes where there is no room for others."""
        return self.is_at_rest and not self.pinned

    @property
    def is_shadowed(self) -> bool:
        """Whether it is on disk as well as in memory, and nothing is done with it."""
        return self.place == "ram" and self.is_at_rest and self.disk_bytes > 0


class Lot:
    """All of them, in the order of their last use, which is that of their being put aside.

    Sums are kept: they are asked for at every event, and there may be thousands of sessions.
    """

    def __init__(self) -> None:
        self._all: dict[SessionId, Parked] = {}
        self.ram_bytes = self.disk_bytes = 0

    def __iter__(self) -> Iterator[Parked]:
        """All there are now; who goes through them may change them."""
        return iter(tuple(self._all.values()))

    def __len__(self) -> int:
        """How many there are."""
        return len(self._all)

    def counts(self) -> tuple[int, int, int]:
        """How many are in memory, on disk alone, and of no living runtime."""
        places = [one.place for one in self._all.values()]
        on_disk = places.count("disk")
        dormant = sum(one.runtime == NOBODY for one in self._all.values())
        return len(places) - on_disk, on_disk, dormant

    def get(self, session: SessionId) -> Parked | None:
        """The one of this name."""
        return self._all.get(session)

    def add(self, one: Parked) -> None:
        """One more, used last."""
        self._all[one.session] = one

    def drop(self, one: Parked) -> None:
        """It is not put aside any more."""
        del self._all[one.session]
        self.ram_bytes -= one.ram_bytes
        self.disk_bytes -= one.disk_bytes

    def yielding_bytes(self, tier: Literal["ram", "disk"]) -> int:
        """What would become free there if all made room that may."""
        everyone = self._all.values()
        if tier == "disk":
            return sum(one.disk_bytes for one in everyone if one.may_yield)
        return sum(one.ram_bytes for one in everyone if one.may_yield or one.is_shadowed)

    def hold_ram(self, one: Parked, size_bytes: int) -> None:
        """It takes so much memory now."""
        self.ram_bytes += size_bytes - one.ram_bytes
        one.ram_bytes = size_bytes

    def hold_disk(self, one: Parked, size_bytes: int) -> None:
        """It takes so much of the disk now."""
        self.disk_bytes += size_bytes - one.disk_bytes
        one.disk_bytes = size_bytes


def goes_on(known: bytes, wanted: bytes) -> bool:
    """Whether a prompt continues at least half of what is known of a conversation."""
    return wanted.startswith(known[: len(known) // 2])


def furthest(sessions: Iterable[Parked], wanted: bytes) -> tuple[Parked, int] | None:
    """The session that a prompt continues furthest, and how far, in tokens.

    It has to be continued for at least half of what is known of it: a common beginning alone is not
    worth the end of somebody's conversation. Of those that share as much, the shortest.
    """
    best: Parked | None = None
    best_rank = (0, 0, 0.0)
    for one in sessions:
        known = one.content.known
        if one.place not in TAKEABLE or not goes_on(known, wanted):
            continue
        rank = (common_tokens(known, wanted), -len(known), one.used_at)
        if rank > best_rank:
            best, best_rank = one, rank
    return (best, best_rank[0]) if best else None


def nearest(sessions: Sequence[Parked], wanted: bytes, least: int) -> tuple[Parked, int] | None:
    """The session whose beginning a prompt shares most of, `least` tokens or more, and how many.

    Of those that share the same, the smallest, as it has to be read. Only the last used are looked
    at, or a thousand chats with one system prompt would be compared for each that comes.
    """
    best: Parked | None = None
    best_rank = (0, 0)
    beginning = wanted[: max(1, least) * TOKEN_BYTES]
    alike = (one for one in reversed(sessions) if one.content.known.startswith(beginning))
    for one in islice(alike, LOOKS):
        rank = (common_tokens(one.content.known, wanted), -one.saved.size_bytes)
        if one.place in TAKEABLE and one.lends and rank > best_rank:
            best, best_rank = one, rank
    return (best, best_rank[0]) if best and best_rank[0] >= least else None


class Kept(msgspec.Struct, frozen=True):
    """A session on disk that an earlier life of this node has left; `age_s` since it was saved."""

    session: SessionId
    kin: str
    tenant: TenantId
    known: bytes
    saved: SavedState
    age_s: float
    pinned: bool = False
    model: ModelId = UNKNOWN

    def parked(self, now: float) -> Parked:
        """It as a session of this life, which no living runtime can read yet."""
        content = Content(-1, self.tenant, self.known, self.saved.tokens)
        return Parked(
            *(self.session, NOBODY, content, now - self.age_s, 0),
            place="disk",
            saved=self.saved,
            kin=self.kin,
            pinned=self.pinned,
            model=self.model,
        )


class Writers:
    """The living runtimes that can put aside what their slots hold.

    Each has its kin, which can read what it writes, and takes so many bytes for a token.
    """

    def __init__(self) -> None:
        self._all: dict[RuntimeId, tuple[str, int]] = {}

    def __contains__(self, runtime: RuntimeId) -> bool:
        """Whether this is one of them."""
        return runtime in self._all

    def add(self, runtime: RuntimeId, kin: str, token_bytes: int) -> None:
        """A runtime is about to be loaded."""
        self._all[runtime] = kin, token_bytes

    def remove(self, runtime: RuntimeId) -> None:
        """A runtime is gone."""
        self._all.pop(runtime, None)

    def kin(self, runtime: RuntimeId) -> str:
        """What this runtime's files can be read by."""
        return self._all.get(runtime, NO_WRITER)[0]

    def token_bytes(self, runtime: RuntimeId) -> int:
        """What this runtime's files take for a token."""
        return self._all.get(runtime, NO_WRITER)[1]

    def heir(self, kin: str) -> RuntimeId:
        """A living runtime of this kin, or nobody."""
        return next((name for name, (its, _) in self._all.items() if kin and its == kin), NOBODY)
