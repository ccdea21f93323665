"""DECIDER: the memory of each node as `/roost/v1/memory` shows it; unknown is None, never 0.

What a node has measured and booked itself counts. What it does not say is worked out from its
machine and its models, as far as that goes; pressure then is how much of what there is has gone:
soft from 75 %, hard from 85 %, emergency from 95 %.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from roost.core.about import NodeAbout
from roost.core.footprint import HOST
from roost.core.ids import NodeId
from roost.core.snapshots import PRESSURES, ModelOffer, Pressure
from roost.fleet.watching.views import NodeView

Topology = Literal["discrete", "unified", "unknown"]

SOFT, HARD, EMERGENCY = 0.75, 0.85, 0.95


class PoolView(msgspec.Struct, frozen=True):
    """One kind of memory of a node, in bytes.

    `managed_bytes` is what runtimes that are ready take by calculation, `reserved_bytes` what those
    take that are being loaded; None where a model's need is not known.
    """

    capacity_bytes: int | None = None
    available_bytes: int | None = None
    managed_bytes: int | None = None
    reserved_bytes: int | None = None
    pressure: Pressure = "unknown"


class MemoryCounters(msgspec.Struct, frozen=True):
    """Loads under way, runtimes that are ready, and what was done about pressure.

    What nobody counts is None.
    """

    active_reservations: int
    managed_allocations: int
    pressure_actions_in_flight: int | None = None
    completed_demotions: int | None = None
    completed_evictions: int | None = None
    failed_releases: int | None = None
    orphaned_release_bytes: int | None = None
    telemetry_errors: int | None = None
    backend_cleanup_failures: int | None = None
    backend_cleanup_latched: bool | None = None


class MemoryView(msgspec.Struct, frozen=True):
    """A node's memory: main, and of all its accelerators together.

    `observed_at_unix_ms` is when the node was last heard of, by this gateway's clock.
    """

    node: NodeId
    observed_at_unix_ms: int | None
    overall_pressure: Pressure
    topology: Topology
    host: PoolView
    accelerator: PoolView
    counters: MemoryCounters
    last_action_unix_ms: int | None = None


def memory_of(node: NodeView, observed_at_unix_ms: int | None) -> MemoryView:
    """Show what a node has told of its memory."""
    host = _booked(node, _host(node), on_host=True)
    accelerator = _booked(node, _accelerator(node), on_host=False)
    return MemoryView(
        node=node.id,
        observed_at_unix_ms=observed_at_unix_ms,
        overall_pressure=_worst(host.pressure, accelerator.pressure),
        topology=_topology(node.about),
        host=host,
        accelerator=accelerator,
        counters=_counters(node),
    )


def _counters(node: NodeView) -> MemoryCounters:
    ready = sum(one.state == "ready" for one in node.runtimes)
    loading = sum(one.state == "loading" for one in node.runtimes)
    memory = node.memory
    if memory is None:
        return MemoryCounters(loading, ready)
    demoted, evicted = memory.demoted, memory.evicted
    return MemoryCounters(loading, ready, completed_demotions=demoted, completed_evictions=evicted)


def _booked(node: NodeView, worked_out: PoolView, *, on_host: bool) -> PoolView:
    """Prefer what the node has measured and booked of a memory."""
    devices = node.memory.devices if node.memory is not None else ()
    own = [one for one in devices if (one.name == HOST) == on_host]
    if not own:
        return worked_out
    capacity = _sum(one.capacity_bytes for one in own)
    available = _sum(one.available_bytes for one in own)
    managed = _sum(one.managed_bytes for one in own)
    reserved = _sum(one.reserved_bytes for one in own)
    return PoolView(
        worked_out.capacity_bytes if capacity is None else capacity,
        worked_out.available_bytes if available is None else available,
        worked_out.managed_bytes if managed is None else managed,
        worked_out.reserved_bytes if reserved is None else reserved,
        _worst(worked_out.pressure if not on_host else "unknown", *(one.pressure for one in own)),
    )


def pressure(capacity_bytes: int | None, available_bytes: int | None) -> Pressure:
    """Name how full a memory is."""
    if not capacity_bytes or available_bytes is None:
        return "unknown"
    gone = 1 - min(available_bytes, capacity_bytes) / capacity_bytes
    if gone < SOFT:
        return "normal"
    return "soft" if gone < HARD else "hard" if gone < EMERGENCY else "emergency"


def _worst(*known: Pressure) -> Pressure:
    return max(known, key=PRESSURES.index)


def _topology(about: NodeAbout | None) -> Topology:
    if about is None:
        return "unknown"
    if any(one.usable and one.accelerator == "metal" for one in about.backends):
        return "unified"
    return "discrete" if about.devices else "unknown"


def _host(node: NodeView) -> PoolView:
    if node.about is None:
        return PoolView()
    memory = node.about.memory
    capacity, room = memory.capacity_bytes, memory.room_bytes
    return PoolView(
        capacity,
        room,
        _taken(node, _ready(node), on_host=True),
        _taken(node, _loading(node), on_host=True),
        pressure(capacity, room),
    )


def _accelerator(node: NodeView) -> PoolView:
    devices = node.about.devices if node.about is not None else ()
    if not devices:
        return PoolView()
    capacity = _sum(one.total_bytes for one in devices)
    free = _sum(one.free_bytes for one in devices)
    return PoolView(
        capacity,
        free,
        _taken(node, _ready(node), on_host=False),
        _taken(node, _loading(node), on_host=False),
        pressure(capacity, free),
    )


def _ready(node: NodeView) -> list[ModelOffer]:
    return _offers(node, "ready")


def _loading(node: NodeView) -> list[ModelOffer]:
    return _offers(node, "loading")


def _offers(node: NodeView, state: str) -> list[ModelOffer]:
    models = {one.model for one in node.runtimes if one.state == state}
    return [offer for offer in node.models if offer.model in models]


def _taken(node: NodeView, offers: Iterable[ModelOffer], *, on_host: bool) -> int | None:
    """Add up what models take in one kind of memory; None where one of them is not known."""
    backends = node.about.backends if node.about is not None else ()
    on_cpu = {one.name for one in backends if one.accelerator == "cpu"}
    total = 0
    for offer in offers:
        if (offer.backend in on_cpu) != on_host:
            continue
        if not offer.size_bytes or offer.kv_bytes is None:
            return None
        total += offer.size_bytes + offer.kv_bytes
    return total


def _sum(sizes: Iterable[int | None]) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total
