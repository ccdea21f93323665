"""SHELL: the control plane under /roost/v1: what is here, what it can do, and how it is doing.

Everything is a view of what nodes last reported: nobody is asked and nothing waits, so it answers
while a model loads and while a node is silent.
"""

from __future__ import annotations

import time
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from roost import __version__
from roost.core.conformance import read_runs, tried
from roost.fleet.watching.memory_views import MemoryView, memory_of
from roost.fleet.watching.promises import promises_of
from roost.fleet.watching.runtime_views import RuntimeLine, backend_samples, runtime_lines
from roost.fleet.watching.tenant_views import by_tenant
from roost.gateway.control_words import LIMITS, MAJOR, MINOR, ROOT
from roost.gateway.desk.endpoints import ADMIN, answered, spoken

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.fleet.watching.views import NodeView
    from roost.gateway.mind import Mind
    from roost.gateway.routes import Call, Routes

SERVICE = "roost"
SCHEMA_VERSION = 1


class Control:
    """Endpoints that read the mind's snapshots and change nothing."""

    def __init__(self, mind: Mind) -> None:
        self._mind = mind
        # What this release was tried with; nodes of another one say what they claim themselves.
        self._runs = read_runs(files("roost.core").joinpath("conformance.json").read_bytes())
        self._started_ms = _unix_ms()
        self._started_s = mind.now_s

    def add_to(self, routes: Routes) -> None:
        """Put these endpoints into the table."""
        for verb, show in (
            ("info", self._info),
            ("capabilities", self._capabilities),
            ("memory", self._memory),
            ("runtimes", self._runtimes),
            ("observability", self._observability),
        ):
            routes.add("GET", ROOT + verb, spoken(partial(_show, show)))

    def _info(self, _call: Call) -> object:
        nodes = self._nodes()
        backends = sorted({one.backend for node in nodes for one in node.models if one.backend})
        return {
            "service": SERVICE,
            "service_version": __version__,
            "protocol": {"major": MAJOR, "minor": MINOR},
            # Several nodes may have several: then there is no one that is active.
            "active_backend": backends[0] if len(backends) == 1 else None,
            "backends": backends,
            "limits": LIMITS,
        }

    def _capabilities(self, _call: Call) -> object:
        nodes = [promises_of(node) for node in self._nodes()]
        claims = {one.name: one.claims for node in nodes for one in node.backends or ()}
        return {"nodes": nodes, "conformance": tried(self._runs, dict(sorted(claims.items())))}

    def _memory(self, _call: Call) -> object:
        return {"nodes": [self._memory_of(node) for node in self._nodes()]}

    def _runtimes(self, _call: Call) -> object:
        return {"runtimes": [_flat(line) for line in runtime_lines(self._nodes())]}

    def _observability(self, call: Call) -> object:
        mind, nodes = self._mind, self._nodes()
        memory = [self._memory_of(node) for node in nodes]
        seen = [one.observed_at_unix_ms for one in memory if one.observed_at_unix_ms is not None]
        # A tenant sees its own requests; of others' it does not even learn that they exist.
        tenant = None if call.role == ADMIN else call.tenant
        # First, so that what it finds is among the events.
        odd = mind.watch.hints(mind.now_s)
        spent = {request: turn.spent for request, turn in mind.turns.items()}
        doing = {request: turn.relay.state for request, turn in mind.turns.items()}
        live = [turn.terms.tenant for turn in mind.turns.values()]
        return {
            "schema_version": SCHEMA_VERSION,
            "observed_at_ms": _unix_ms(),
            "server_started_ms": self._started_ms,
            "uptime_seconds": round(mind.now_s - self._started_s, 3),
            "totals": mind.telemetry.totals(),
            "requests": mind.telemetry.rows(tenant, mind.now_s, spent, doing),
            "role": call.role,
            "queue": by_tenant(mind.coordinator.queue(mind.now_s), live, tenant),
            "events": mind.happenings.rows(everything=tenant is None),
            "anomalies": odd,
            "backends": list(backend_samples(runtime_lines(nodes))),
            "memory": memory,
            "backend_observed_at_ms": max(seen, default=None),
        }

    def _nodes(self) -> list[NodeView]:
        """Every node with a link that has reported; what is gone promises nothing."""
        fleet = self._mind.coordinator.fleet()
        return [node for node in fleet if node.state != "dead" and node.reported]

    def _memory_of(self, node: NodeView) -> MemoryView:
        silent_s = self._mind.coordinator.silent_s(node.id, self._mind.now_s)
        seen_ms = None if silent_s is None else _unix_ms() - round(1000 * silent_s)
        return memory_of(node, seen_ms)


def _show(view: Callable[[Call], object], call: Call) -> None:
    answered(call, view(call))


def _flat(line: RuntimeLine) -> dict[str, object]:
    """Write a runtime as one object, as the fleet's view does."""
    figures = {"figures": line.figures, "kv_tokens": line.kv_tokens, "kv_bytes": line.kv_bytes}
    return {"node": line.node, **msgspec.structs.asdict(line.view), **figures}


def _unix_ms() -> int:
    return time.time_ns() // 1_000_000
