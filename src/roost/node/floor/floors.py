"""MACHINE: every runtime that is ready, or was and is on its way out; each is told once to stop."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from roost.core.ids import ModelId, RuntimeId, TenantId
from roost.core.snapshots import ModelOffer
from roost.node.desk import Outgoing
from roost.node.effects import Unload
from roost.node.floor.floor import Floor


class Floors:
    """Those that go away take no new streams; they stop when the last one has left."""

    def __init__(self, outgoing: Outgoing, *, keeps: bool = False) -> None:
        self._outgoing = outgoing
        self._keeps = keeps
        self._floors: dict[RuntimeId, Floor] = {}
        self._unloading: set[RuntimeId] = set()

    def __iter__(self) -> Iterator[Floor]:
        """Give them as they are now: whoever asks may change them on the way."""
        return iter(list(self._floors.values()))

    def __getitem__(self, runtime: RuntimeId) -> Floor:
        """The floor of a runtime that is ready."""
        return self._floors[runtime]

    def get(self, runtime: RuntimeId | None) -> Floor | None:
        """The floor of a runtime, or None where it is not ready."""
        return self._floors.get(runtime) if runtime is not None else None

    def add(self, floor: Floor) -> None:
        """A runtime is ready."""
        self._floors[floor.runtime] = floor

    def remove(self, floor: Floor) -> None:
        """A runtime has ended, and nobody is on it any more."""
        del self._floors[floor.runtime]

    def pinned(self) -> frozenset[RuntimeId]:
        """The runtimes with something to do: who waited for one is on it from its start."""
        return frozenset(floor.runtime for floor in self._floors.values() if floor.streams)

    def next_tick(self) -> float | None:
        """When the next one counts as hung, or somebody on one has waited for long enough."""
        times = (
            at
            for floor in self._floors.values()
            for at in (floor.stalls_at(), floor.seating.next_tick())
        )
        return min((at for at in times if at is not None), default=None)

    def impatient(self, now: float) -> Iterator[Floor]:
        """Yield those on which somebody has waited for long enough for another one's prompt."""
        for floor in self:
            due = floor.seating.next_tick()
            if due is not None and now >= due:
                yield floor

    def retire(self, floor: Floor, now: float) -> None:
        """Give this one no more work; it stops when nobody is on it."""
        floor.is_retiring = True
        self.unload_if_idle(floor, now)

    def unload_if_idle(self, floor: Floor, now: float) -> None:
        """Stop a runtime that is to go, if nobody is on it any more and its slots are packed."""
        for effect in floor.pack(now):
            self._outgoing.add(effect)
        if floor.is_retiring and not floor.streams and not floor.seating.is_packing:
            self.unload(floor.runtime)

    def pack(self, runtime: RuntimeId) -> Floor:
        """Put aside what is in slots before this runtime goes, if that is to outlive it."""
        floor = self._floors[runtime]
        floor.packs = self._keeps
        return floor

    def pack_all(self, now: float) -> None:
        """Put aside what is left in slots, now and whenever another one becomes idle."""
        for floor in self:
            floor.packs = True
            self.unload_if_idle(floor, now)

    def close(self, runtime: RuntimeId, now: float) -> None:
        """Stop a runtime whoever is on it, but not before its slots are packed, if they are."""
        floor = self._floors.get(runtime)
        if floor is not None and floor.packs and not floor.streams:
            self.retire(floor, now)
        else:
            self.unload(runtime)

    def unload(self, runtime: RuntimeId) -> None:
        """Stop a runtime, ready or loading, whoever is on it."""
        if runtime not in self._unloading:
            self._unloading.add(runtime)
            self._outgoing.add(Unload(runtime))

    def on_gone(self, runtime: RuntimeId) -> None:
        """A runtime has ended: what was told to stop has stopped."""
        self._unloading.discard(runtime)

    def forget(self, tenant: TenantId | None) -> None:
        """Nobody asks for this tenant any more: its content in slots is nobody's."""
        for floor in self._floors.values():
            floor.slots.forget(tenant)

    def on_memory(
        self, runtime: RuntimeId, rss_bytes: int | None, offers: Mapping[ModelId, ModelOffer]
    ) -> None:
        """A runtime's process takes so much memory."""
        floor = self._floors.get(runtime)
        offer = offers.get(floor.model) if floor is not None else None
        if floor is not None and offer is not None:
            floor.vitals.on_memory(rss_bytes, offer.kv_token_bytes)

    def on_slept(self, slept_s: float, now: float) -> None:
        """The node did not run for so long: what its runtimes said meanwhile is still unread."""
        for floor in self._floors.values():
            floor.on_slept(slept_s, now)
