"""MACHINE: the room that runtimes take on this node, and which of them would go for one more.

Counts runtimes, and their bytes by what is known of a model before it runs. It is a small machine
of its own so that measured figures can take its place: whoever decides asks `room` and nothing
else, and never adds up bytes itself.

Only a runtime that has nothing to do (`pinned` names the others) and has been resident for a while
may go. That while is at least as long as its load took: whatever is asked for in whatever order, a
node spends no more than half of its time on loading.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from roost.core.ids import RuntimeId
from roost.core.snapshots import NoRoom


class RoomSettings(msgspec.Struct, frozen=True):
    """Limits of a node's memory for runtimes.

    `max_runtimes` at once and `max_bytes` for all of them; 0 is no limit. A runtime stays for
    `min_resident_s` once it is ready. A model waits `turn_s` for busy runtimes to become idle
    before one of them gets no new work, and `wait_s` for room in all. Without `evict` nobody makes
    room for another: what is resident stays, and the next model is refused.
    """

    max_runtimes: int = 0
    max_bytes: int = 0
    min_resident_s: float = 2.0
    turn_s: float = 10.0
    wait_s: float = 30.0
    evict: bool = True


class Room(msgspec.Struct, frozen=True):
    """Whether one more runtime fits.

    `why` is "" if it does, once the runtimes in `evict` have gone. Otherwise `at_s` is when that
    will be so, or None where nobody knows.
    """

    why: NoRoom = ""
    evict: tuple[RuntimeId, ...] = ()
    at_s: float | None = None


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


class Ledger:
    """Every runtime from the start of its load until it is gone."""

    def __init__(self, settings: RoomSettings) -> None:
        self._settings = settings
        self._residents: dict[RuntimeId, _Resident] = {}

    def enter(self, runtime: RuntimeId, need_bytes: int, now: float) -> None:
        """A load begins; 0 bytes are unknown ones."""
        self._residents[runtime] = _Resident(runtime, need_bytes, now, now)

    def settled(self, runtime: RuntimeId, now: float) -> None:
        """The runtime is ready."""
        one = self._residents[runtime]
        one.ready_s = one.used_s = now
        one.may_go_s = now + max(self._settings.min_resident_s, now - one.entered_s)

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

    def leave(self, runtime: RuntimeId) -> None:
        """The runtime is gone, or its load has failed."""
        self._residents.pop(runtime, None)

    def room(self, need_bytes: int, pinned: Container[RuntimeId], now: float) -> Room:
        """Whether one more runtime of this size fits, and who would have to go for it."""
        everybody = tuple(self._residents.values())
        if self._fits(everybody, need_bytes):
            return Room()
        if not self.fits_alone(need_bytes):
            return Room("too_large")
        staying = [one for one in everybody if not one.leaving]
        if self._fits(staying, need_bytes):
            return Room("leaving")
        if not self._settings.evict:
            return Room("busy")
        idle = [r for r in staying if r.ready_s is not None and r.runtime not in pinned]
        free = [one for one in idle if not one.pinned]
        free.sort(key=lambda one: one.used_s)
        for at_s in sorted({max(now, one.may_go_s) for one in free}):
            old = [one for one in free if one.may_go_s <= at_s]
            evict = self._fewest(staying, old, need_bytes)
            if evict:
                return Room("young", evict, at_s) if at_s > now else Room("", evict)
        return Room("busy")

    def fits_alone(self, need_bytes: int) -> bool:
        """Whether a runtime of this size fits if nothing else is there."""
        return self._fits((), need_bytes)

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

    def _fits(self, residents: Iterable[_Resident], need_bytes: int) -> bool:
        limits, count, total = self._settings, 1, need_bytes
        for one in residents:
            count += 1
            total += one.need_bytes
        few = not limits.max_runtimes or count <= limits.max_runtimes
        return few and (not limits.max_bytes or total <= limits.max_bytes)

    def _fewest(
        self, staying: Sequence[_Resident], old: Sequence[_Resident], need_bytes: int
    ) -> tuple[RuntimeId, ...]:
        """Who goes of these, the least recently used first; nobody who need not."""
        gone: list[_Resident] = []
        left = list(staying)
        for one in old:
            if self._fits(left, need_bytes):
                break
            left.remove(one)
            gone.append(one)
        if not self._fits(left, need_bytes):
            return ()
        # A small one that went first may be spared by a large one that went after it.
        for one in reversed(gone):
            if self._fits([*left, one], need_bytes):
                left.append(one)
        return tuple(one.runtime for one in gone if one not in left)
