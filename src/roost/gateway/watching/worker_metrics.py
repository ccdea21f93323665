"""SHELL: what nodes say of their runtimes as gauges; what is not known has no series."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from roost.fleet.watching.runtime_views import RuntimeLine, runtime_lines

if TYPE_CHECKING:
    from roost.fleet.watching.views import NodeView
    from roost.observe.metrics import Metrics

Series = tuple[str, ...]
"""A metric's name and the values of its labels."""


class WorkerMetrics:
    """Keeps the series that there are as they are, and drops those that there are no more."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._told: set[Series] = set()

    def refresh(self, nodes: Iterable[NodeView]) -> None:
        """Copy what linked nodes last said."""
        known = _Known({})
        for line in runtime_lines(node for node in nodes if node.state != "dead"):
            if line.view.state == "ready":
                _note(known, line)
        for series, value in known.values.items():
            self._metrics(*series).set(value)
        for gone in self._told - set(known.values):
            self._metrics.forget(*gone)
        self._told = set(known.values)


class _Known(NamedTuple):
    """Series that have a value."""

    values: dict[Series, float]

    def __call__(self, name: str, *labels: str) -> _Noted:
        return _Noted(self.values, (name, *labels))


class _Noted(NamedTuple):
    """A series that will be there if somebody knows its value."""

    values: dict[Series, float]
    series: Series

    def set(self, value: float | None) -> None:
        if value is not None:
            self.values[self.series] = value


def _note(metrics: _Known, line: RuntimeLine) -> None:
    where, vitals, figures = (line.node, line.view.model), line.view.vitals, line.figures
    metrics("roost_worker_kv_cache_bytes", *where).set(line.kv_bytes)
    metrics("roost_worker_kv_tokens", *where).set(line.kv_tokens)
    metrics("roost_worker_waiting", *where).set(line.view.waiting)
    slots, pace = line.view.slots, figures.prefill_tokens_per_s if figures else None
    metrics("roost_worker_prefill_tokens_per_second", *where).set(pace)
    if slots:
        busy = sum(slot.busy for slot in slots)
        metrics("roost_worker_slots", *where, "busy").set(busy)
        metrics("roost_worker_slots", *where, "idle").set(len(slots) - busy)
        # A context of 0 is one that nobody knows.
        metrics("roost_worker_kv_room_tokens", *where).set(len(slots) * line.view.ctx or None)
    metrics("roost_worker_rss_bytes", *where).set(figures.rss_bytes if figures else None)
    if vitals is None:
        return
    took_s = vitals.prefill_avg_s
    took_ms = None if took_s is None else 1000 * took_s
    metrics("roost_worker_prefill_latency_ms", *where).set(took_ms)
    metrics("roost_worker_decode_tokens_per_second", *where).set(vitals.decode_tokens_per_s)
    metrics("roost_worker_generated_tokens", *where).set(vitals.generated_tokens)
    metrics("roost_worker_decode_failures", *where).set(vitals.failures)
    for kind in vitals.anomalies:
        metrics("roost_worker_anomaly", *where, kind).set(1)
