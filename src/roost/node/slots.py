"""MACHINE: the slots of one runtime: who uses which, and whose KV each still holds.

    empty ──seat──▶ busy ──stop──▶ cleaning
      │             │  ▲              │
      │             │  ╰──seat──╮     │
    reserve         ╰──free──▶ kept ◀─╯   (kept = free, with a tenant's tokens in it)
      ▼                          │
    moving ◀──────reserve────────╯        (its content is being written or read)
      │ seat, release, fill, clear

They live as long as their runtime: with it goes all KV but what was parked.

Only the prompt's tokens are known by id: answers pass as text. That is enough, since a next turn
repeats the whole prompt before it: the common prefix is then everything the slot is known to hold.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Literal

import msgspec

from roost.backends.base import SlotUse
from roost.core.ids import TenantId
from roost.core.snapshots import SlotView

SlotState = Literal["free", "busy", "cleaning", "moving"]

TOKEN_BYTES = 8
"""Of one id in a packed sequence."""


class Content(msgspec.Struct, frozen=True):
    """What a slot holds: whose, which tokens for sure (see `pack`), how many in all.

    `shared` is how many of the known ones a prompt that was asked about begins with.
    """

    slot: int
    tenant: TenantId | None
    known: bytes
    held: int
    shared: int = 0

    @property
    def known_tokens(self) -> int:
        """How many tokens are known by id."""
        return len(self.known) // TOKEN_BYTES


class _Slot:
    """One slot; `known` is the ids it holds as packed 64-bit numbers, `held` counts all tokens."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.state: SlotState = "free"
        self.tenant: TenantId | None = None
        self.known = b""
        self.held = 0
        self.used = 0


class Slots:
    """Allocates a fixed number of slots; never one slot to two streams, never KV across tenants."""

    def __init__(self, count: int) -> None:
        assert count > 0
        self._slots = [_Slot(number) for number in range(count)]
        self._uses = 0

    def pick(self, wanted: bytes, tenant: TenantId) -> Content | None:
        """Say which slot is for this prompt, and what is in it; None when every slot is taken.

        In this order: the free slot of the same tenant with the longest common prefix, when that
        keeps at least half of what the slot holds; an empty slot; the least recently used. The
        second condition spares a long conversation from being overwritten for a shared preamble
        while an empty slot is at hand.
        """
        free = [slot for slot in self._slots if slot.state == "free"]
        if not free:
            return None
        slot = _warmest(free, wanted, tenant) or min(free, key=_age)
        shared = common_tokens(slot.known, wanted) if slot.tenant == tenant else 0
        return _content(slot, shared)

    def content(self, number: int) -> Content:
        """What a slot holds."""
        return _content(self._slots[number])

    def idle(self) -> list[Content]:
        """What the free slots hold that anybody has left there, the longest unused first."""
        left = [slot for slot in self._slots if slot.state == "free" and slot.tenant is not None]
        return [_content(slot) for slot in sorted(left, key=_age)]

    def is_in_use(self, number: int) -> bool:
        """Whether something runs there, or is about to."""
        return self._slots[number].state != "free"

    def coldest(self) -> Content | None:
        """A free slot to lose: an empty one, or the least recently used."""
        free = [slot for slot in self._slots if slot.state == "free"]
        return _content(min(free, key=_age)) if free else None

    def seat(self, number: int, wanted: bytes, tenant: TenantId) -> SlotUse:
        """Give a free or reserved slot to a stream with this prompt (see `pack`).

        `reuse` is True only for content of the same tenant.

        A slot changes its tenant once a stream of the new one is known to have put something there.
        One that left before it began may have left all that the old one had, so where nothing is
        known, nothing is reused.
        """
        slot = self._slots[number]
        assert slot.state in ("free", "moving"), f"slot {number} is {slot.state}"
        reuse = slot.tenant == tenant and bool(slot.known)
        self._uses += 1
        slot.state, slot.tenant, slot.used = "busy", tenant, self._uses
        slot.known = wanted if reuse else b""
        return SlotUse(slot.number, reuse)

    def reserve(self, number: int) -> None:
        """The content of a free slot is about to be written or read: nobody else may have it."""
        slot = self._slots[number]
        assert slot.state == "free", f"slot {number} is {slot.state}"
        slot.state = "moving"

    def fill(self, number: int, content: Content) -> None:
        """A reserved slot holds this now."""
        slot = self._slots[number]
        assert slot.state == "moving", f"slot {number} is {slot.state}"
        slot.tenant, slot.known, slot.held = content.tenant, content.known, content.held

    def clear(self, number: int) -> None:
        """A reserved slot holds nothing any more."""
        self.fill(number, Content(number, None, b"", 0))
        self._slots[number].used = 0

    def release(self, number: int) -> None:
        """A reserved slot is free again, with what it holds."""
        slot = self._slots[number]
        assert slot.state == "moving", f"slot {number} is {slot.state}"
        slot.state = "free"

    def note(self, number: int, held: int) -> None:
        """The slot holds this many tokens now, as far as reports tell."""
        self._slots[number].held = held

    def stop(self, number: int) -> None:
        """The stream on this slot was told to leave; the slot is not free before it has."""
        slot = self._slots[number]
        assert slot.state == "busy", f"slot {number} is {slot.state}"
        slot.state = "cleaning"

    def free(self, number: int, kept: Sequence[int], held: int | None = None) -> None:
        """The stream has left. The slot holds `kept` for sure and `held` tokens in all.

        Its tenant stays: whatever is kept, what lies in the slot is theirs.
        """
        slot = self._slots[number]
        assert slot.state != "free", f"slot {number} was freed twice"
        slot.state = "free"
        slot.known = pack(kept)
        slot.held = len(kept) if held is None else held

    def forget(self, tenant: TenantId | None) -> None:
        """Nobody comes back to what this tenant, or anybody, has here: idle slots count as empty.

        One whose content is being written is still nobody's until that has ended.
        """
        for slot in self._slots:
            if slot.state in ("free", "moving") and tenant in {None, slot.tenant}:
                self.forget_one(slot.number)

    def forget_one(self, number: int) -> None:
        """Let an idle slot count as empty: the next prompt there is computed from its beginning."""
        slot = self._slots[number]
        slot.tenant, slot.known, slot.held, slot.used = None, b"", 0, 0

    def views(self) -> tuple[SlotView, ...]:
        """Every slot, as it is reported to gateways."""
        return tuple(SlotView(s.number, s.state != "free", s.held) for s in self._slots)


def _content(slot: _Slot, shared: int = 0) -> Content:
    return Content(slot.number, slot.tenant, slot.known, slot.held, shared)


def _warmest(free: list[_Slot], wanted: bytes, tenant: TenantId) -> _Slot | None:
    """The slot with the longest prefix worth keeping; on equal prefixes the most recently used."""
    best, best_rank = None, (0, 0)
    for slot in free:
        if slot.tenant != tenant:
            continue
        shared = common_tokens(slot.known, wanted)
        rank = (shared, slot.used)
        if shared and 2 * shared >= len(slot.known) // TOKEN_BYTES and rank > best_rank:
            best, best_rank = slot, rank
    return best


def _age(slot: _Slot) -> int:
    """Sorts empty slots first, by number, then the least recently used."""
    return slot.used


def pack(tokens: Sequence[int]) -> bytes:
    """Token ids as 64-bit numbers in a row, which is how they are kept and compared."""
    return array("q", tokens).tobytes()


def common_tokens(one: bytes, other: bytes) -> int:
    """Length in tokens of the common prefix of two packed sequences.

    Comparing slices runs at memory speed: 4096 tokens take 5 µs where a loop over them takes 100.
    Equal halves are skipped, so the slices shrink with every step.
    """
    low, high = 0, min(len(one), len(other)) // TOKEN_BYTES
    if one[: high * TOKEN_BYTES] == other[: high * TOKEN_BYTES]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        start, end = low * TOKEN_BYTES, middle * TOKEN_BYTES
        if one[start:end] == other[start:end]:
            low = middle
        else:
            high = middle
    return low
