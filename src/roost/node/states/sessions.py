"""MACHINE: the conversations that are put aside: what slots held, as files in memory and on disk.

    (slot) ──park──▶ saving ──▶ ram ──demote──▶ moving ──▶ disk
                        │        │                │          │
                        ▼        ╰────────────────┴──────────┤ take
                       gone ◀── forgotten (least recent first), expired, too large
                                                             ▼
                                                         restoring ──▶ (slot)

A session is in one of these places or in a slot, never in two: what was restored is forgotten here,
and what was parked leaves its slot to somebody else. Bytes are reserved before a file is written
and given back when it is forgotten, so limits hold at every moment, as far as the estimate of a
file that does not exist yet goes. What is being written or read is never forgotten.

Where they outlive their runtime, sessions at rest stay when it goes, and are those of the next one
of the same kin: the same model, build and options. Where they outlive the node, each is copied to
disk soon after it was put aside, whatever room there is in memory, and has both for a while.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from roost.backends.base import SavedState
from roost.core.ids import RuntimeId, SessionId, TenantId
from roost.core.snapshots import SessionsView
from roost.node.effects import Effect, Forget, Mark, Park
from roost.node.slots import Content
from roost.node.states.parked import NOBODY, TAKEABLE, Kept, Lot, Parked, Writers, model_of
from roost.node.states.seeds import Seed, Seeds
from roost.node.states.session_settings import SessionSettings

UNHEARD_TOKENS = 1
"""What a slot may hold beyond what its stream has told."""
SPARE = 0.25
"""Share of the memory that is kept free as long as there is a disk."""
SEEDS = 0.5
"""Share of the memory that beginnings which several prompts share may have."""


class Sessions:
    """Everything that is put aside on one node; says what has to be done with the files."""

    def __init__(self, settings: SessionSettings) -> None:
        self.settings = settings
        self.seeds = Seeds(int(settings.ram_bytes * SEEDS))
        self._parked = Lot()
        self._writers = Writers()
        self._born = 0
        self._largest_bytes = 0
        self._disk_rests_until = 0.0
        self._closes_at: float | None = None
        self.parks = self.restores = self.failures = self.forgotten = 0
        self.quarantined = 0
        self.moving_s = 0.0

    def __iter__(self) -> Iterator[Parked]:
        """All there are, the longest unused first."""
        return iter(self._parked)

    # Runtimes.

    def on_states(self, runtime: RuntimeId, token_bytes: int, kin: str = "") -> None:
        """What this runtime's slots hold can be put aside, at so many bytes a token.

        What its kin has left is its own now.
        """
        if not self.settings.ram_bytes:
            return
        self._writers.add(runtime, kin, token_bytes)
        for one in self._parked:
            if kin and one.runtime == NOBODY and one.kin == kin:
                one.runtime = runtime

    def on_kept(self, kept: Iterable[Kept], now: float) -> list[Effect]:
        """An earlier life of this node has left these on disk, the longest unused first."""
        for one in kept:
            parked = one.parked(now)
            self._parked.add(parked)
            self._parked.hold_disk(parked, one.saved.size_bytes)
            self._born = max(self._born, one.session)
        effects: list[Effect] = []
        for parked in self:
            if (
                self._parked.disk_bytes > self.settings.disk_bytes
                or len(self._parked) > self.settings.parked_max
            ):
                effects += self._forget(parked) if not parked.pinned else []
        return [*effects, *self.tidy(now)]

    def can_park(self, runtime: RuntimeId) -> bool:
        """Whether this runtime's slots can be put aside at all."""
        return runtime in self._writers

    def on_gone(self, runtime: RuntimeId) -> list[Effect]:
        """A runtime is gone: what may not outlive it goes, and what it was moving when it ended.

        A file that it was reading may be what has ended it.
        """
        self._writers.remove(runtime)
        effects = self.seeds.on_gone(runtime)
        for one in self:
            if one.runtime != runtime:
                continue
            lasts = self.settings.persistence != "ephemeral" and one.kin and not one.is_unwanted
            was_read, one.readers = one.readers > 0, 0
            if one.place == "rising" or (lasts and one.place in TAKEABLE and not was_read):
                one.runtime = self._writers.heir(one.kin)
            else:
                effects += self._forget(one, counts=False)
        return effects

    # Into a file.

    def park(self, runtime: RuntimeId, content: Content, now: float) -> list[Effect]:
        """Put aside what a reserved slot holds; nothing where there is no room for it."""
        need_bytes = self.need_bytes(runtime, content.held)
        effects = self._make_room(need_bytes, files=1)
        if self._room_bytes() < need_bytes or self._is_full(1):
            return effects
        session = self._new()
        kin = self._writers.kin(runtime)
        one = Parked(session, runtime, content, now, 0, kin=kin, model=model_of(runtime))
        self._parked.add(one)
        self._parked.hold_ram(one, need_bytes)
        return [*effects, Park(runtime, content.slot, session)]

    def on_parked(self, session: SessionId, saved: SavedState | None, now: float) -> list[Effect]:
        """A slot has been written to memory, or could not be."""
        one = self._parked.get(session)
        if one is None:
            # Its runtime has gone since, and the file may have been there already.
            return [Forget(NOBODY, session)] if saved is not None else []
        if one.place != "saving":
            return []
        if saved is None:
            self.failures += 1
            self._parked.drop(one)
            return [Forget(one.runtime, session)]
        self.parks += 1
        one.place, one.saved = "ram", saved
        self._parked.hold_ram(one, saved.size_bytes)
        self._largest_bytes = max(self._largest_bytes, saved.size_bytes)
        if one.is_unwanted:
            return self._forget(one, counts=False)
        return [*self._make_room(0), *self.tidy(now)]

    def discard(self, session: SessionId) -> list[Effect]:
        """A session stays in its slot after all: it is not in a file as well."""
        one = self._parked.get(session)
        return [] if one is None else self._forget(one, counts=False)

    # Into a file that stays.

    def can_seed(self, runtime: RuntimeId, tokens: int) -> bool:
        """Whether so many tokens can be written once and read into other slots."""
        fits = self.need_bytes(runtime, tokens) <= self.seeds.max_bytes
        return fits and self.can_park(runtime)

    def seed(self, runtime: RuntimeId, content: Content, now: float) -> list[Effect]:
        """Copy what a reserved slot holds; nothing where there is no room for it."""
        need_bytes = self.need_bytes(runtime, content.held)
        going = self.seeds.in_the_way(need_bytes)
        freed_bytes = sum(one.size_bytes for one in going or ()) + self._parked.yielding_bytes(
            "ram"
        )
        if going is None or self._room_bytes() + freed_bytes < need_bytes:
            return []
        effects = [*self.seeds.drop(going), *self._make_room(need_bytes)]
        seed = Seed(self._new(), runtime, content, now, need_bytes)
        return [*effects, *self.seeds.add(seed)]

    def on_seeded(self, session: SessionId, saved: SavedState | None) -> list[Effect]:
        """A beginning has been written, or could not be."""
        self.failures += saved is None
        return [*self.seeds.on_saved(session, saved), *self._make_room(0)]

    def on_sown(self, one: Seed, *, ok: bool) -> list[Effect]:
        """A slot was filled from a seed, or its file was not as it was written."""
        self.restores += ok
        self.failures += not ok
        return self.seeds.put_back(one, ok=ok)

    # From memory to disk.

    def tidy(self, now: float) -> list[Effect]:
        """Forget what was not used for too long, and keep a part of the memory free.

        Copying to disk takes longer than parking, and a request never waits for a disk: so it
        begins early, or sessions would be forgotten for want of room that is on its way.
        """
        effects = self.seeds.tidy(now - self.settings.idle_s)
        for one in self:
            if now < one.used_at + self.settings.idle_s:
                break
            if one.is_at_rest:
                effects += self._forget(one)
        if self._is_crowded():
            for one in self:
                effects += self._unshadow(one) if self._is_crowded() else []
        if now >= self._disk_rests_until and (self._closes_at is None or now < self._closes_at):
            effects += self._demote_one()
        return effects

    def close(self, now: float) -> list[Effect]:
        """The node ends: what is to outlive it gets to disk, as far as there is time for that.

        Asked for once more, nothing further is begun.
        """
        lasts = self.settings.persistence == "disk" and self._closes_at is None
        self._closes_at = now + self.settings.close_s if lasts else now
        return self.tidy(now)

    @property
    def writing(self) -> int:
        """How many files are on their way to disk, or to be there before the node ends."""
        lasts = self.settings.persistence == "disk"
        return sum(one.is_demoting or (lasts and one.place == "saving") for one in self._parked)

    def on_demoted(self, session: SessionId, *, ok: bool, now: float) -> list[Effect]:
        """A file has been copied to disk, or could not be; then it stays in memory."""
        one = self._parked.get(session)
        if one is None or not one.is_demoting:
            return []
        one.is_demoting = False
        if not ok:
            self.failures += 1
            self._disk_rests_until = now + self.settings.disk_rest_s
        if one.place == "leaving":
            return self._leave(one)
        if not ok or one.place == "restoring":
            self._parked.hold_disk(one, 0)
            one.place = "ram" if one.place == "moving" else one.place
            return [Forget(one.runtime, session, "disk")]
        one.place = "ram"
        stays = self.settings.persistence == "disk" and not self._is_crowded()
        return [*([] if stays else self._unshadow(one)), *self.tidy(now)]

    # What operators want of those at rest.

    def pin(self, one: Parked, *, pinned: bool) -> list[Effect]:
        """Have this one stay for want of room, or go like others."""
        one.pinned = pinned
        return [Mark(one.session, pinned)] if one.disk_bytes else []

    def erase(self, one: Parked) -> list[Effect]:
        """Have nobody read this one any more, nor a copy; at rest or on its way to disk."""
        return [*self._forget(one, counts=False), *self.seeds.erase(one.content)]

    def lower(self, one: Parked) -> list[Effect]:
        """Have one that is on disk as well there alone."""
        return self._unshadow(one)

    def demote(self, one: Parked) -> list[Effect]:
        """Copy one to disk, if there is room for it."""
        over_bytes = self._parked.disk_bytes + one.ram_bytes - self.settings.disk_bytes
        if over_bytes > self._parked.yielding_bytes("disk"):
            return []
        effects: list[Effect] = []
        for other in self if over_bytes > 0 else ():
            if over_bytes > 0 and other.disk_bytes and other.may_yield:
                over_bytes -= other.disk_bytes
                effects += self._forget(other)
        one.place, one.is_demoting = "moving", True
        self._parked.hold_disk(one, one.ram_bytes)
        return [*effects, one.to_disk()]

    def promote(self, one: Parked) -> list[Effect]:
        """Copy one from disk to memory, if there is room without the loss of another."""
        size_bytes = one.saved.size_bytes
        self._parked.hold_ram(one, size_bytes)
        if self._is_crowded():
            self._parked.hold_ram(one, 0)
            return []
        one.place = "rising"
        return [one.to_memory()]

    def on_promoted(self, session: SessionId, *, ok: bool) -> list[Effect]:
        """A file is in memory as well, or was not as it was written, and goes."""
        one = self._parked.get(session)
        if one is None or one.place != "rising":
            return []
        self.failures += not ok
        one.place = "ram"
        if ok and not one.is_unwanted:
            return []
        return self._forget(one, counts=False)

    # Out of a file.

    def take(self, one: Parked) -> None:
        """This session is about to be restored: it is neither forgotten nor found any more."""
        assert one.place in TAKEABLE, f"session {one.session} is {one.place}"
        one.place = "restoring"

    def put_back(self, one: Parked) -> list[Effect]:
        """A session that was taken is not needed after all."""
        if self._parked.get(one.session) is not one or one.place != "restoring":
            return []
        one.place = "moving" if one.is_demoting else "ram" if one.ram_bytes else "disk"
        return self._forget(one, counts=False) if one.is_unwanted else []

    def on_restored(self, session: SessionId, *, ok: bool) -> list[Effect]:
        """A session is in a slot, or its file was not as it was written; the file goes anyway."""
        one = self._parked.get(session)
        if one is None or one.place != "restoring":
            return []
        self.restores += ok
        self.failures += not ok
        one.place = "ram"
        return self._forget(one, counts=False)

    # Out of a file that stays.

    def lend(self, one: Parked) -> None:
        """A slot is about to be filled from a copy of this one, which may be moved meanwhile."""
        assert one.place in TAKEABLE, f"session {one.session} is {one.place}"
        one.readers += 1

    def give_back(self, one: Parked) -> list[Effect]:
        """A copy has been read, or is not needed after all."""
        if self._parked.get(one.session) is not one or not one.readers:
            return []
        one.readers -= 1
        return self._leave(one) if one.place == "leaving" else []

    def on_lent(self, one: Parked, *, ok: bool) -> list[Effect]:
        """A slot was filled from a copy, or could not be; then none is made of this one again."""
        self.restores += ok
        self.failures += not ok
        one.lends = one.lends and ok
        return self.give_back(one)

    def forget(self, tenant: TenantId | None) -> list[Effect]:
        """Nobody comes back to what this tenant, or anybody, has; what moves is let go of then."""
        effects = self.seeds.forget(tenant)
        for one in self:
            if tenant not in {None, one.tenant}:
                continue
            one.is_unwanted = True
            if one.place in TAKEABLE:
                effects += self._forget(one, counts=False)
        return effects

    def squeeze(self, over_bytes: int) -> list[Effect]:
        """Free so much memory: copying to disk takes memory and time, and there is neither."""
        effects: list[Effect] = []
        until_bytes = self._room_bytes() + over_bytes
        for one in self if over_bytes > 0 else ():
            if self._room_bytes() < until_bytes:
                gone = one.place == "ram" and one.may_yield and not one.is_shadowed
                effects += self._forget(one) if gone else self._unshadow(one)
        return effects + (self.seeds.tidy(float("inf")) if self._room_bytes() < until_bytes else [])

    # What there is.

    def view(self) -> SessionsView:
        """Everything at a glance."""
        ram, disk, dormant = self._parked.counts()
        return SessionsView(
            *(ram, disk, self.settings.ram_bytes - self._room_bytes(), self._parked.disk_bytes),
            *(self.parks, self.restores, self.failures, self.forgotten),
            moving_s=self.moving_s,
            dormant=dormant,
            quarantined=self.quarantined,
            persistence=self.settings.persistence,
        )

    def next_tick(self) -> float | None:
        """When the next session will have been unused for too long."""
        resting = next((one.used_at for one in self._parked if one.is_at_rest), None)
        times = [used_s for used_s in (resting, self.seeds.oldest_s()) if used_s is not None]
        return min(times) + self.settings.idle_s if times else None

    def _make_room(self, need_bytes: int, files: int = 0) -> list[Effect]:
        """Forget the least recently used until a file of this size fits; nobody if it cannot.

        `files` is how many more conversations there are with it: a seed is none.
        """
        effects: list[Effect] = []
        over_bytes = need_bytes - self._room_bytes()
        if over_bytes <= 0 and not self._is_full(files):
            return effects
        if need_bytes and over_bytes > self._parked.yielding_bytes("ram"):
            return effects
        for one in self:
            crowded = over_bytes > 0
            if crowded and one.is_shadowed:
                over_bytes -= one.ram_bytes
                effects += self._unshadow(one)
            if one.may_yield and (self._is_full(files) or (crowded and one.place == "ram")):
                over_bytes -= one.ram_bytes
                effects += self._forget(one)
        return effects

    def _demote_one(self) -> list[Effect]:
        """Copy the least recently used session that is to be on disk, one at a time."""
        limits, lot = self.settings, self._parked
        is_wanted = limits.persistence == "disk" or self._is_crowded()
        if not is_wanted or any(one.is_demoting for one in lot):
            return []
        room_bytes = limits.disk_bytes - lot.disk_bytes + lot.yielding_bytes("disk")
        waiting = (one for one in self if one.place == "ram" and not one.disk_bytes)
        first = next((one for one in waiting if one.ram_bytes <= room_bytes), None)
        return [] if first is None else self.demote(first)

    def _forget(self, one: Parked, *, counts: bool = True) -> list[Effect]:
        self.forgotten += counts
        if one.place == "rising":
            one.is_unwanted = True
            return []
        one.place = "leaving"
        return self._leave(one)

    def _leave(self, one: Parked) -> list[Effect]:
        """Have a session that is leaving go, unless something is still done with its file."""
        if one.is_demoting or one.readers:
            return []
        self._parked.drop(one)
        return [Forget(one.runtime, one.session)]

    def _unshadow(self, one: Parked) -> list[Effect]:
        """Have what is on disk there alone."""
        if not one.is_shadowed:
            return []
        one.place = "disk"
        self._parked.hold_ram(one, 0)
        return [Forget(one.runtime, one.session, "ram")]

    def _is_crowded(self) -> bool:
        """Whether less of the memory is free than is kept free as long as there is a disk."""
        wanted_bytes = max(self._largest_bytes, int(self.settings.ram_bytes * SPARE))
        return self._room_bytes() < wanted_bytes

    def _is_full(self, more: int) -> bool:
        return len(self._parked) + more > self.settings.parked_max

    def _new(self) -> SessionId:
        self._born += 1
        return SessionId(self._born)

    def need_bytes(self, runtime: RuntimeId, tokens: int) -> int:
        """What a file of so many tokens takes, as far as is known before it is written."""
        return (tokens + UNHEARD_TOKENS) * self._writers.token_bytes(runtime)

    def _room_bytes(self) -> int:
        """How much of the memory is free; less than nothing where files became larger."""
        return self.settings.ram_bytes - self.seeds.size_bytes - self._parked.ram_bytes
