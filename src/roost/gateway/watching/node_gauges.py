"""SHELL: what nodes say of themselves as metrics, and the end of their series when they leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from roost.core.snapshots import PRESSURES, DeviceView, MemoryReport, SessionsView

if TYPE_CHECKING:
    from roost.core.ids import NodeId
    from roost.fleet.watching.views import NodeView
    from roost.observe.metrics import Metrics


class NodeGauges:
    """Remembers which memories a node has told of, since those series have to end with it."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._devices: dict[NodeId, set[str]] = {}

    def tell(self, node: NodeView) -> None:
        """Copy what a node has reported; what is not known has no series."""
        self._sessions(node.id, node.sessions or SessionsView())
        metrics = _Known(self._metrics)
        metrics("roost_node_load_1m", node.id).set(node.load_1m)
        metrics("roost_node_rss_bytes", node.id).set(node.rss_bytes)
        metrics("roost_kv_reserved_bytes", node.id).set(node.kv_reserved_bytes)
        if node.memory is not None:
            self._memory(node.id, node.memory)

    def forget(self, node: NodeId) -> None:
        """A node is gone: so are its series."""
        metrics = self._metrics
        for place in ("memory", "disk"):
            metrics.forget("roost_sessions", node, place)
            metrics.forget("roost_session_bytes", node, place)
        for move, _ in _moves(SessionsView()):
            metrics.forget("roost_session_moves", node, move)
        metrics.forget("roost_session_moving_s", node)
        for name in ("roost_kv_reserved_bytes", "roost_node_load_1m", "roost_node_rss_bytes"):
            metrics.forget(name, node)
        for device in self._devices.pop(node, ()):
            metrics.forget("roost_memory_pressure", node, device)
            for kind, _ in _sizes(DeviceView(device)):
                metrics.forget("roost_memory_bytes", node, device, kind)
        for outcome, _ in _outcomes(MemoryReport(())):
            metrics.forget("roost_memory_relief", node, outcome)

    def _sessions(self, node: NodeId, sessions: SessionsView) -> None:
        metrics = self._metrics
        for place, count, size_bytes in (
            ("memory", sessions.ram, sessions.ram_bytes),
            ("disk", sessions.disk, sessions.disk_bytes),
        ):
            metrics("roost_sessions", node, place).set(count)
            metrics("roost_session_bytes", node, place).set(size_bytes)
        for move, times in _moves(sessions):
            metrics("roost_session_moves", node, move).set(times)
        metrics("roost_session_moving_s", node).set(sessions.moving_s)

    def _memory(self, node: NodeId, memory: MemoryReport) -> None:
        for device in memory.devices:
            self._devices.setdefault(node, set()).add(device.name)
            for kind, size_bytes in _sizes(device):
                if size_bytes is None:
                    self._metrics.forget("roost_memory_bytes", node, device.name, kind)
                else:
                    self._metrics("roost_memory_bytes", node, device.name, kind).set(size_bytes)
            if device.pressure == "unknown":
                self._metrics.forget("roost_memory_pressure", node, device.name)
                continue
            level = PRESSURES.index(device.pressure) - PRESSURES.index("normal")
            self._metrics("roost_memory_pressure", node, device.name).set(level)
        for outcome, times in _outcomes(memory):
            self._metrics("roost_memory_relief", node, outcome).set(times)


class _Known(NamedTuple):
    """Series that there are only while somebody knows their value."""

    metrics: Metrics

    def __call__(self, name: str, *labels: str) -> _Series:
        return _Series(self.metrics, (name, *labels))


class _Series(NamedTuple):
    metrics: Metrics
    series: tuple[str, ...]

    def set(self, value: float | None) -> None:
        if value is None:
            self.metrics.forget(*self.series)
        else:
            self.metrics(*self.series).set(value)


def _moves(sessions: SessionsView) -> tuple[tuple[str, int], ...]:
    return (
        ("parked", sessions.parks),
        ("restored", sessions.restores),
        ("failed", sessions.failures),
        ("forgotten", sessions.forgotten),
    )


def _sizes(device: DeviceView) -> tuple[tuple[str, int | None], ...]:
    return (
        ("capacity", device.capacity_bytes),
        ("available", device.available_bytes),
        ("managed", device.managed_bytes),
        ("reserved", device.reserved_bytes),
    )


def _outcomes(memory: MemoryReport) -> tuple[tuple[str, int], ...]:
    return (
        ("passes", memory.passes),
        ("demoted", memory.demoted),
        ("evicted", memory.evicted),
        ("refused", memory.refused),
    )
