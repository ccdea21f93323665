"""SHELL: what the gateway tells clients of system 1 about its workers."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from roost.dialects.system1.infer_views import (
    Caps,
    Holdings,
    Worker,
    available_body,
    heard,
    holding,
    node_worker,
    stats_body,
    workers_body,
)
from roost.gateway.front.rendering import JSON_BODY

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.fleet.watching.views import NodeView
    from roost.gateway.foreign.guests import Guests
    from roost.gateway.mind import Mind
    from roost.gateway.routes import Call, Routes
    from roost.gateway.tasks import Tasks


class WorkerViews:
    """Endpoints that read snapshots, of nodes and of `guests`, and change nothing."""

    def __init__(self, mind: Mind, guests: Guests, tasks: Tasks, caps: Callable[[], Caps]) -> None:
        self._mind = mind
        self._guests = guests
        self._tasks = tasks
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
        """GET /coordinator/health/workers: every worker and how it is."""
        call.exchange.reply(200, JSON_BODY, workers_body(self._workers()))

    def available(self, call: Call) -> None:
        """GET /coordinator/health/workers/available: those that are alive."""
        call.exchange.reply(200, JSON_BODY, available_body(self._workers()))

    def stats(self, call: Call) -> None:
        """GET /coordinator/stats: totals, and what each worker holds."""
        self._tasks.start(self._stats(call), "stats")

    async def _stats(self, call: Call) -> None:
        held = await self._guests.held()
        told = [holding(one, held.get(one.id, one.held)) for one in self._workers()]
        body = stats_body(told, self._caps(), int(time.time() * 1000))
        call.exchange.reply(200, JSON_BODY, body)

    def _workers(self) -> list[Worker]:
        guests = self._guests.lines()
        names = {guest.id for guest in guests}
        nodes = self._mind.coordinator.fleet()
        return [*(self._worker(node) for node in nodes if node.id not in names), *guests]

    def _worker(self, node: NodeView) -> Worker:
        mind = self._mind
        silent_s = mind.coordinator.silent_s(node.id, mind.now_s)
        holdings = Holdings(node.models, node.runtimes)
        worker = node_worker(
            *(node.id, node.state, holdings), in_flight=node.in_flight, draining=node.draining
        )
        return heard(worker, None if silent_s is None else int((time.time() - silent_s) * 1000))
