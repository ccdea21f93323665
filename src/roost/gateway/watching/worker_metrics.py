"""DECIDER: what nodes say of their runtimes as gauges; what is not known has no value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.fleet.watching.runtime_views import RuntimeLine, runtime_lines

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roost.fleet.watching.views import NodeView
    from roost.gateway.watching.gauges import Values


def of_runtimes(nodes: Iterable[NodeView]) -> Values:
    """Give what linked nodes last said."""
    values: Values = {}
    for line in runtime_lines(node for node in nodes if node.state != "dead"):
        if line.view.state == "ready":
            _note(values, line)
    return values


def _note(values: Values, line: RuntimeLine) -> None:
    where, vitals, figures = (line.node, line.view.model), line.view.vitals, line.figures
    values["roost_worker_kv_cache_bytes", *where] = line.kv_bytes
    values["roost_worker_kv_tokens", *where] = line.kv_tokens
    values["roost_worker_waiting", *where] = line.view.waiting
    slots, pace = line.view.slots, figures.prefill_tokens_per_s if figures else None
    values["roost_worker_prefill_tokens_per_second", *where] = pace
    if slots:
        busy = sum(slot.busy for slot in slots)
        values["roost_worker_slots", *where, "busy"] = busy
        values["roost_worker_slots", *where, "idle"] = len(slots) - busy
        # A context of 0 is one that nobody knows.
        values["roost_worker_kv_room_tokens", *where] = len(slots) * line.view.ctx or None
    values["roost_worker_rss_bytes", *where] = figures.rss_bytes if figures else None
    if vitals is None:
        return
    took_s = vitals.prefill_avg_s
    took_ms = None if took_s is None else 1000 * took_s
    values["roost_worker_prefill_latency_ms", *where] = took_ms
    values["roost_worker_decode_tokens_per_second", *where] = vitals.decode_tokens_per_s
    values["roost_worker_generated_tokens", *where] = vitals.generated_tokens
    values["roost_worker_decode_failures", *where] = vitals.failures
    for kind in vitals.anomalies:
        values["roost_worker_anomaly", *where, kind] = 1
