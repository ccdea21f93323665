"""SHELL: what the gateway tells about itself: liveness, readiness, models, the fleet, metrics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from roost.core.ids import ModelId
from roost.dialects.openai.errors import model_not_found
from roost.dialects.openai.models import model_body, models_body
from roost.errors import Failure
from roost.gateway.desk.operations import sees_tenants
from roost.gateway.front.rendering import JSON_BODY
from roost.gateway.watching.gauges import Gauges
from roost.gateway.watching.node_gauges import RANKS, of_nodes
from roost.gateway.watching.tenant_metrics import of_tenants
from roost.gateway.watching.worker_metrics import of_runtimes
from roost.observe.metrics import CONTENT_TYPE

if TYPE_CHECKING:
    from roost.core.snapshots import ModelOffer
    from roost.gateway.mind import Mind
    from roost.gateway.routes import Call, Routes
    from roost.gateway.watching.gauges import Values
    from roost.observe.metrics import Instrument


class Admin:
    """Endpoints that read the mind's snapshots and change nothing.

    `aliases` are other names of models.
    """

    def __init__(self, mind: Mind, aliases: dict[str, str]) -> None:
        self._mind = mind
        self.aliases = aliases
        self._counted: dict[Instrument, int] = {}
        self._gauges = Gauges(mind.metrics)

    def add_to(self, routes: Routes) -> None:
        """Put these endpoints into the table."""
        routes.add("GET", "/health", self.health)
        routes.add("GET", "/ready", self.ready)
        routes.add("GET", "/metrics", self.metrics)
        routes.add("GET", "/v1/models", self.models)
        routes.add("GET", "/v1/models/{rest}", self.model)
        routes.add("GET", "/roost/v1/fleet", self.fleet)
        routes.add("GET", "/roost/v1/placement", self.placement)
        routes.add("GET", "/roost/v1/scaling", self.scaling)

    def health(self, call: Call) -> None:
        """GET /health: the process lives."""
        call.exchange.reply(200, JSON_BODY, b'{"status":"ok"}')

    def ready(self, call: Call) -> None:
        """GET /ready: a request could be served; 503 with the reason otherwise."""
        if self._mind.coordinator.ready(self._mind.now_s):
            call.exchange.reply(200, JSON_BODY, b'{"status":"ready"}')
            return
        call.exchange.fail(
            Failure("starting", "No node with a usable model is connected.", retry_after_s=1)
        )

    def metrics(self, call: Call) -> None:
        """GET /metrics: Prometheus text, of tenants for operators alone; gauges are read now."""
        self.refresh()
        headers = [(b"content-type", CONTENT_TYPE.encode())]
        text = self._mind.metrics.render(tenants=sees_tenants(call))
        call.exchange.reply(200, headers, text)

    def refresh(self) -> None:
        """Copy the coordinator's gauges and counters into the metrics, and how full streams are."""
        metrics, coordinator = self._mind.metrics, self._mind.coordinator
        statistics = coordinator.statistics()
        metrics("roost_queued").set(statistics.waiting)
        metrics("roost_running").set(statistics.running)
        metrics("roost_tasks").set(len(asyncio.all_tasks()))
        for state in RANKS:
            metrics("roost_nodes", state).set(statistics.nodes.get(state, 0))
        self._count(metrics("roost_dispatched_total"), statistics.dispatched)
        self._count(metrics("roost_warm_total"), statistics.warm)
        self._count(metrics("roost_bounced_total"), statistics.bounced)
        self._count(metrics("roost_breakers_opened_total"), statistics.breakers_opened)
        for by, count in statistics.stopped.items():
            self._count(metrics("roost_stopped_total", by), count)
        held = [turn.relay.held_messages for turn in self._mind.turns.values()]
        metrics("roost_stream_held_messages").set(sum(held))
        fullest = max((turn.relay.fullness for turn in self._mind.turns.values()), default=0.0)
        metrics("roost_stream_fullest_ratio").set(fullest)
        self._mind.scale.refresh(self._mind.now_s)
        fleet = coordinator.fleet()
        self._gauges.refresh(of_nodes(fleet) | of_runtimes(fleet) | self._of_tenants())

    def _of_tenants(self) -> Values:
        mind = self._mind
        waiting = {one.request for one in mind.coordinator.queue(mind.now_s)}
        labels: dict[bool, list[str]] = {True: [], False: []}
        for request, turn in mind.turns.items():
            labels[request in waiting].append(mind.limiter.label(turn.terms.account))
        return of_tenants(labels[True], labels[False])

    def _count(self, counter: Instrument, total: int) -> None:
        """Bring a counter to what the coordinator has counted itself."""
        counter.inc(total - self._counted.get(counter, 0))
        self._counted[counter] = total

    def models(self, call: Call) -> None:
        """GET /v1/models."""
        call.exchange.reply(200, JSON_BODY, models_body(self.listed(call)))

    def model(self, call: Call) -> None:
        """GET /v1/models/{id}; the id may hold slashes and colons, encoded or not."""
        for offer in self.listed(call):
            if offer.model == call.rest:
                call.exchange.reply(200, JSON_BODY, model_body(offer))
                return
        call.exchange.fail(model_not_found(call.rest))

    def listed(self, call: Call) -> list[ModelOffer]:
        """What a caller can ask for at any address, other names behind the models' own."""
        served = [one for one in self._mind.coordinator.models() if one.serves == "all"]
        known = {offer.model: offer for offer in served}
        named = [
            msgspec.structs.replace(known[ModelId(model)], model=ModelId(name))
            for name, model in self.aliases.items()
            if model in known
        ]
        may_use = self._mind.limiter.may_use
        account = call.principal.account
        return [offer for offer in served + named if may_use(account, offer.model)]

    def fleet(self, call: Call) -> None:
        """GET /roost/v1/fleet: nodes, their models, runtimes and slots, the queue, other names."""
        mind = self._mind
        body = {
            "nodes": mind.coordinator.fleet(),
            "statistics": mind.coordinator.statistics(),
            "aliases": self.aliases,
        }
        call.exchange.reply(200, JSON_BODY, msgspec.json.encode(body))

    def placement(self, call: Call) -> None:
        """GET /roost/v1/placement: for each model where it runs, and what a load would cost."""
        mind = self._mind
        body = {"models": mind.coordinator.placement(mind.now_s)}
        call.exchange.reply(200, JSON_BODY, msgspec.json.encode(body))

    def scaling(self, call: Call) -> None:
        """GET /roost/v1/scaling: how many nodes what is asked for needs, and by which models."""
        view = self._mind.scale.view(self._mind.now_s)
        call.exchange.reply(200, JSON_BODY, msgspec.json.encode(view))
