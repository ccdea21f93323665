"""MACHINE: what measured memory means for runtimes: what each takes, what all may, who has to go.

One pass frees what is asked for and no more, the cheapest first: conversations that were put aside
in memory, the longest unused first, then runtimes that nobody uses, the same way. Whoever is
pinned, in use, young or being loaded stays, whatever the pressure.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from roost.core.footprint import HOST
from roost.core.ids import RuntimeId
from roost.core.snapshots import DeviceView, MemoryReport, Pressure
from roost.node.desk import Outgoing
from roost.node.effects import Calibrate, Pressed, Weigh
from roost.node.models.pressure import Gauges, PressureSettings, Reading
from roost.node.workshop import Workshop

NEWS_SHARE = 0.01
"""Two figures for one runtime that differ by less are the same."""


class Weights(msgspec.Struct, frozen=True):
    """A measurement: the machine's memories, and what each runtime takes of them, in bytes.

    `number` is that of the last `Weigh` that was heard of before it. `mapped_bytes` of all that
    they take are pages of files, which readings count as taken and a system as available.
    """

    readings: tuple[Reading, ...]
    runtimes: Mapping[RuntimeId, int] = {}
    number: int = 0
    mapped_bytes: int = 0


class Relief:
    """Keeps the ledger to what was measured, and makes room when memory runs short."""

    def __init__(self, settings: PressureSettings, workshop: Workshop, outgoing: Outgoing) -> None:
        self._workshop = workshop
        self._outgoing = outgoing
        self.gauges = Gauges(settings)
        self._asked = 0
        self.passes = self.demoted = self.evicted = 0

    def on_weighed(self, weights: Weights, now: float) -> None:
        """The machine has been measured."""
        workshop, ledger = self._workshop, self._workshop.ledger
        for runtime, size_bytes in weights.runtimes.items():
            self._learn(runtime, size_bytes)
        for change in self.gauges.read(weights.readings):
            self._outgoing.add(Pressed(change.device, change.pressure, change.share))
        for reading in weights.readings:
            room_bytes = self.gauges.room_bytes(reading.device)
            ledger.allow(reading.device, room_bytes, weights.runtimes)
        for device, over_bytes in self.gauges.to_free(now).items():
            self._pass(device, over_bytes, now)
        if weights.number >= self._asked:
            workshop.residency.on_weighed()

    def look(self, now: float) -> None:
        """Make room for a model that lacks it, once; then the machine is measured again."""
        short = self._workshop.short_bytes
        if short is None:
            return
        self._workshop.short_bytes = None
        self.passes += 1
        self._put_off(short)
        self._asked += 1
        self._outgoing.add(Weigh(self._asked))

    def report(self) -> MemoryReport | None:
        """What is known of the machine's memories; None before anybody has measured."""
        devices = tuple(
            self._view(reading, pressure) for reading, pressure in self.gauges.readings()
        )
        if not devices:
            return None
        refused = self._workshop.ledger.refused
        return MemoryReport(devices, self.passes, self.demoted, self.evicted, refused)

    def _view(self, reading: Reading, pressure: Pressure) -> DeviceView:
        managed, reserved = self._workshop.ledger.sums(reading.device)
        view = DeviceView(reading.device, reading.capacity_bytes, reading.room_bytes)
        return msgspec.structs.replace(
            view, managed_bytes=managed, reserved_bytes=reserved, pressure=pressure
        )

    def _learn(self, runtime: RuntimeId, size_bytes: int) -> None:
        """A runtime takes so much: its ledger's figure, and the next load's, are that from now."""
        workshop = self._workshop
        model = workshop.residency.model_of(runtime)
        offer = workshop.offers.get(model) if model is not None else None
        if offer is None or not workshop.ledger.measured(runtime, size_bytes):
            return
        known = offer.measured_bytes
        if known is not None and size_bytes <= known * (1 + NEWS_SHARE):
            return
        workshop.offers[offer.model] = msgspec.structs.replace(offer, measured_bytes=size_bytes)
        self._outgoing.add(Calibrate(runtime, size_bytes))

    def _pass(self, device: str, over_bytes: int, now: float) -> None:
        self.passes += 1
        left = over_bytes - (self._put_off(over_bytes) if device == HOST else 0)
        workshop = self._workshop
        pinned = workshop.floors.pinned()
        for runtime in workshop.ledger.idle(device, left, pinned, now):
            self.evicted += 1
            workshop.let_go(runtime, now)

    def _put_off(self, over_bytes: int) -> int:
        """Forget conversations in memory until so much is free; how much that was."""
        sessions = self._workshop.sessions
        before = sessions.view()
        for effect in sessions.squeeze(over_bytes):
            self._outgoing.add(effect)
        after = sessions.view()
        self.demoted += before.ram - after.ram
        return before.ram_bytes - after.ram_bytes
