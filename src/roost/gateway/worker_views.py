"""SHELL: what the gateway tells clients of system 1 about its workers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from roost.dialects.infer_views import Caps, Worker, available_body, stats_body, workers_body
from roost.gateway.front.rendering import JSON_BODY

if TYPE_CHECKING:
    from roost.fleet.views import NodeView
    from roost.gateway.mind import Mind
    from roost.gateway.routes import Call, Routes


class WorkerViews:
    """Endpoints that read the mind's snapshots and change nothing."""

    def __init__(self, mind: Mind, caps: Caps) -> None:
        self._mind = mind
        self._caps = caps

    def add_to(self, routes: Routes) -> None:
        """Put these endpoints into the table."""
        routes.add("GET", "/coordinator/health", self.health)
        routes.add("GET", "/coordinator/health/workers", self.workers)
        routes.add("GET", "/coordinator/health/workers/available", self.available)
        routes.add("GET", "/coordinator/stats", self.stats)

    def health(self, call: Call) -> None:
        """GET /coordinator/health: the process lives."""
        call.exchange.reply(200, [(b"content-type", b"text/plain; charset=utf-8")], b"OK")

    def workers(self, call: Call) -> None:
        """GET /coordinator/health/workers: every node and how it is."""
        call.exchange.reply(200, JSON_BODY, workers_body(self._workers()))

    def available(self, call: Call) -> None:
        """GET /coordinator/health/workers/available: those that are alive."""
        call.exchange.reply(200, JSON_BODY, available_body(self._workers()))

    def stats(self, call: Call) -> None:
        """GET /coordinator/stats: totals, and what each node holds."""
        body = stats_body(self._workers(), self._caps, int(time.time() * 1000))
        call.exchange.reply(200, JSON_BODY, body)

    def _workers(self) -> list[Worker]:
        return [self._worker(node) for node in self._mind.coordinator.fleet()]

    def _worker(self, node: NodeView) -> Worker:
        mind = self._mind
        silent_s = mind.coordinator.silent_s(node.id, mind.now_s)
        heard = None if silent_s is None else int((time.time() - silent_s) * 1000)
        return Worker(
            *(node.id, node.state, heard, node.in_flight, node.draining),
            *(node.models, node.runtimes),
        )
