"""MACHINE: the room that runtimes take on this node, and which of them would go for one more.

Counts runtimes, and their bytes: by what is known of a model before it runs, and as measured once
it does. Bytes are of a memory, by its name. Settings limit all of them together, and where a memory
is measured, what it has left does: from the moment at which a load begins its bytes are taken,
although no measurement shows them yet. Whoever decides asks `room` and nothing else.

Only a runtime that has nothing to do (`pinned` names the others) and has been resident for a while
may go. That while is at least as long as its load took: whatever is asked for in whatever order, a
node spends no more than half of its time on loading.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from roost.core.footprint import HOST
from roost.core.ids import RuntimeId
from roost.core.snapshots import NoRoom


class RoomSettings(msgspec.Struct, frozen=True):
    """Limits of a node's memory for runtimes.

    `max_runtimes` at once and `max_bytes` for all of them; 0 is no limit. A runtime stays for
    `min_resident_s` once it is ready. A model waits `turn_s` for busy runtimes to become idle
    before one of them gets no new work, and `wait_s` for room in all. Without `evict` nobody makes
    room for another: what is resident stays, and the next model is refused.
    `kept` are the most runtimes of single backends at once. Where that is 0 there is one at a time,
    which goes once nobody uses it, however short it has been there.
    """

    max_runtimes: int = 0
    max_bytes: int = 0
    min_resident_s: float = 2.0
    turn_s: float = 10.0
    wait_s: float = 30.0
    evict: bool = True
    kept: Mapping[str, int] = {}


class Room(msgspec.Struct, frozen=True):
    """Whether one more runtime fits.

    `why` is "" if it does, once the runtimes in `evict` have gone. Otherwise `at_s` is when that
    will be so, or None where nobody knows.
    """

    why: NoRoom = ""
    evict: tuple[RuntimeId, ...] = ()
    at_s: float | None = None


class _Need(NamedTuple):
    """What one more runtime takes, and of which memory."""

    size_bytes: int
    device: str
    backend: str


@dataclass(slots=True)
class _Resident:
    runtime: RuntimeId
    need_bytes: int
    entered_s: float
    used_s: float
    ready_s: float | None = None
    may_go_s: float = 0.0
    leaving: bool = False
    pinned: bool = False
    device: str = HOST
    backend: str = ""
    seen: bool = False


class Ledger:
    """Every runtime from the start of its load until it is gone."""

    def __init__(self, settings: RoomSettings) -> None:
        self.settings = settings
        self._residents: dict[RuntimeId, _Resident] = {}
        # What runtimes may take together of a memory that was measured.
        self._budgets: dict[str, int] = {}
        self.refused = 0

    def enter(
        self,
        runtime: RuntimeId,
        need_bytes: int,
        now: float,
        device: str = HOST,
        backend: str = "",
    ) -> None:
        """A load begins; 0 bytes are unknown ones, and reserved from now on are the others."""
        one = _Resident(runtime, need_bytes, now, now, device=device, backend=backend)
        self._residents[runtime] = one

    def measured(self, runtime: RuntimeId, size_bytes: int) -> bool:
        """A runtime was seen to take so much; False for one that is not ready.

        What it has ever taken is what it may take again.
        """
        one = self._residents.get(runtime)
        if one is None or one.ready_s is None:
            return False
        one.need_bytes = size_bytes if not one.seen else max(one.need_bytes, size_bytes)
        one.seen = True
        return True

    def allow(self, device: str, room_bytes: int | None, seen: Collection[RuntimeId]) -> None:
        """A memory was measured: so much of it may still be taken; None where nobody knows.

        `seen` are the runtimes whose bytes had gone from it by then; what others need, those that
        are being loaded, is still to come.
        """
        if room_bytes is None:
            self._budgets.pop(device, None)
            return
        here = (one for one in self._residents.values() if one.device == device)
        self._budgets[device] = room_bytes + sum(o.need_bytes for o in here if o.runtime in seen)

    def short_bytes(self, need_bytes: int, device: str = HOST) -> int:
        """How much of a measured memory is missing for one more of this size; 0 for nothing."""
        budget = self._budgets.get(device)
        if budget is None:
            return 0
        here = (one for one in self._residents.values() if one.device == device)
        return max(0, need_bytes + sum(one.need_bytes for one in here) - budget)

    def sums(self, device: str) -> tuple[int | None, int | None]:
        """What runtimes that are ready take of a memory, and what loads do; None if unknown."""
        here = [one for one in self._residents.values() if one.device == device]
        ready, loading = (_sum(o for o in here if (o.ready_s is None) == new) for new in (0, 1))
        return ready, loading

    def idle(
        self, device: str, over_bytes: int, pinned: Container[RuntimeId], now: float
    ) -> tuple[RuntimeId, ...]:
        """Who goes so that so many bytes of a memory become free, as far as they do."""
        gone, left = [], over_bytes
        for one in self._free(self._residents.values(), pinned):
            if left > 0 and one.device == device and one.may_go_s <= now and not one.leaving:
                gone.append(one.runtime)
                left -= one.need_bytes
        return tuple(gone)

    def settled(self, runtime: RuntimeId, now: float) -> None:
        """The runtime is ready."""
        one = self._residents[runtime]
        one.ready_s = one.used_s = now
        stays_s = max(self.settings.min_resident_s, now - one.entered_s)
        one.may_go_s = now if self.is_brief(runtime) else now + stays_s

    def is_brief(self, runtime: RuntimeId) -> bool:
        """Whether this runtime's backend keeps none that nobody uses."""
        one = self._residents.get(runtime)
        return one is not None and self.settings.kept.get(one.backend) == 0

    def used(self, runtime: RuntimeId, now: float) -> None:
        """A stream came to the runtime or left it."""
        one = self._residents.get(runtime)
        if one is not None:
            one.used_s = now

    def pin(self, runtime: RuntimeId, *, pinned: bool) -> None:
        """Let this runtime make room for nobody, or let it do so again."""
        one = self._residents.get(runtime)
        if one is not None:
            one.pinned = pinned

    def leaving(self, runtime: RuntimeId) -> None:
        """The runtime gets no new work and will go; until it has, it takes its room."""
        one = self._residents.get(runtime)
        if one is not None:
            one.leaving = True

    def has(self, runtime: RuntimeId) -> bool:
        """Whether this runtime takes room: it is being loaded, ready or on its way out."""
        return runtime in self._residents

    def leave(self, runtime: RuntimeId) -> None:
        """The runtime is gone, or its load has failed."""
        self._residents.pop(runtime, None)

    def room(
        self,
        need_bytes: int,
        pinned: Container[RuntimeId],
        now: float,
        device: str = HOST,
        backend: str = "",
    ) -> Room:
        """Whether one more runtime of this size fits, and who would have to go for it."""
        need = _Need(need_bytes, device, backend)
        everybody = tuple(self._residents.values())
        if self._fits(everybody, need):
            return Room()
        if not self._fits((), need):
            return Room("too_large")
        staying = [one for one in everybody if not one.leaving]
        if self._fits(staying, need):
            return Room("leaving")
        if not self.settings.evict:
            return Room("busy")
        free = self._free(staying, pinned)
        for at_s in sorted({max(now, one.may_go_s) for one in free}):
            old = [one for one in free if one.may_go_s <= at_s]
            evict = self._fewest(staying, old, need)
            if evict:
                return Room("young", evict, at_s) if at_s > now else Room("", evict)
        return Room("busy")

    def fits_alone(self, need_bytes: int) -> bool:
        """Whether the settings allow a runtime of this size, if nothing else is there."""
        return not self.settings.max_bytes or need_bytes <= self.settings.max_bytes

    def resident_s(self, runtime: RuntimeId, now: float) -> float | None:
        """How long the runtime has been ready; None if it is not."""
        one = self._residents.get(runtime)
        return None if one is None or one.ready_s is None else now - one.ready_s

    def idle_s(self, runtime: RuntimeId, now: float) -> float | None:
        """How long ago it was last used; None if it is not ready."""
        one = self._residents.get(runtime)
        return None if one is None or one.ready_s is None else now - one.used_s

    def evict_in_s(self, runtime: RuntimeId, now: float) -> float | None:
        """How long it is safe from going although it has nothing to do; None if it is not ready."""
        one = self._residents.get(runtime)
        if one is None or one.ready_s is None or one.leaving or one.pinned:
            return None
        return max(0.0, one.may_go_s - now)

    def rests_until_s(self, runtime: RuntimeId, keep_s: float) -> float | None:
        """Until when a runtime stays that is kept for so long without use; None if it is to stay.

        One that is not ready, or is on its way out, is not asked about.
        """
        one = self._residents.get(runtime)
        if one is None or one.ready_s is None or one.leaving or one.pinned:
            return None
        return max(one.may_go_s, one.used_s + keep_s)

    def pins(self) -> int:
        """How many runtimes make room for nobody."""
        return sum(one.pinned for one in self._residents.values())

    def _free(
        self, residents: Iterable[_Resident], pinned: Container[RuntimeId]
    ) -> list[_Resident]:
        """Those that may make room, the least recently used first."""
        idle = [r for r in residents if r.ready_s is not None and r.runtime not in pinned]
        return sorted((one for one in idle if not one.pinned), key=lambda one: one.used_s)

    def _fits(self, residents: Iterable[_Resident], need: _Need) -> bool:
        limits, device, here = self.settings, need.device, need.size_bytes
        count, alike, total = 1, 1, here
        for one in residents:
            count += 1
            alike += one.backend == need.backend
            total += one.need_bytes
            here += one.need_bytes if one.device == device else 0
        few = not limits.max_runtimes or count <= limits.max_runtimes
        few = few and alike <= max(1, limits.kept.get(need.backend, alike))
        small = not limits.max_bytes or total <= limits.max_bytes
        return few and small and here <= self._budgets.get(device, here)

    def _fewest(
        self, staying: Sequence[_Resident], old: Sequence[_Resident], need: _Need
    ) -> tuple[RuntimeId, ...]:
        """Who goes of these, the least recently used first; nobody who need not."""
        gone: list[_Resident] = []
        left = list(staying)
        for one in old:
            if self._fits(left, need):
                break
            left.remove(one)
            gone.append(one)
        if not self._fits(left, need):
            return ()
        # A small one that went first may be spared by a large one that went after it.
        for one in reversed(gone):
            if self._fits([*left, one], need):
                left.append(one)
        return tuple(one.runtime for one in gone if one not in left)


def _sum(residents: Iterable[_Resident]) -> int | None:
    """Add up what these take; None where one of them is not known."""
    sizes = [one.need_bytes for one in residents]
    return None if 0 in sizes else sum(sizes)
