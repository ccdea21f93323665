"""SHELL: shows the fleet to whoever knows how many nodes it needs, and tells what comes of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from roost.fleet.watching.scaling import Scaling, ScalingSettings, ScalingView
from roost.gateway.watching.gauges import Gauges

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roost.core.ids import ModelId, RequestId
    from roost.fleet.coordinator import Coordinator
    from roost.gateway.turns.turn import Turn
    from roost.gateway.watching.gauges import Values
    from roost.observe.logs import Log
    from roost.observe.metrics import Metrics

REPORT_S = 20.0
"""Between two reports in the log."""


class Scale:
    """Fed by the mind."""

    def __init__(
        self,
        coordinator: Coordinator,
        turns: Mapping[RequestId, Turn],
        metrics: Metrics,
        log: Log,
        settings: ScalingSettings,
    ) -> None:
        self._coordinator = coordinator
        self._turns = turns
        self._gauges = Gauges(metrics)
        self._log = log
        self._machine = Scaling(settings)
        self._reported_s = float("-inf")
        self._requests = self._reported = 0

    def on_ended(self, turn: Turn, now: float) -> None:
        """A turn is over."""
        self._requests += 1
        if turn.request.counts:
            return
        if turn.started_s is not None:
            self._machine.on_served(turn.request.model, now - turn.started_s)
        elif turn.ended_by is not None:
            self._machine.on_refused(turn.request.model, turn.ended_by.reason, now)

    def on_tick(self, now: float) -> None:
        """Time has passed; how much decides whether anybody looks or reports."""
        self._look(now)
        if now >= self._reported_s + REPORT_S:
            self._report(now)

    def view(self, now: float) -> ScalingView:
        """How many nodes are needed, as of less than a second ago."""
        self._look(now)
        return self._machine.view()

    def refresh(self, now: float) -> None:
        """Copy it into the metrics; models that nobody asks for any more lose their series."""
        view = self.view(now)
        values: Values = {
            ("roost_wanted_nodes",): view.wanted_nodes,
            ("roost_serving_nodes",): view.nodes,
        }
        for one in view.models:
            values["roost_model_slots", one.model] = one.slots
            values["roost_model_demand_slots", one.model] = one.demand_slots
            values["roost_model_wanted_slots", one.model] = one.wanted_slots
            values["roost_model_unmet_requests", one.model] = one.unmet
        self._gauges.refresh(values)

    def _look(self, now: float) -> None:
        if not self._machine.is_due(now):
            return
        coordinator = self._coordinator
        running: Counter[ModelId] = Counter(
            turn.request.model
            for turn in self._turns.values()
            if turn.dispatch is not None and not turn.request.counts
        )
        waiting = coordinator.statistics().waiting_by_model
        self._machine.on_look(coordinator.fleet(), running, waiting, now)

    def _report(self, now: float) -> None:
        """Say how the fleet does, unless nothing was asked of it since the last time."""
        self._reported_s = now
        if self._requests == self._reported and not self._turns:
            return
        ended, self._reported = self._requests - self._reported, self._requests
        view, statistics = self._machine.view(), self._coordinator.statistics()
        self._log.info(
            "fleet_report",
            nodes=view.nodes,
            wanted=view.wanted_nodes,
            slots=sum(one.slots for one in view.models),
            busy=sum(one.running for one in view.models),
            waiting=statistics.waiting,
            unmet=sum(one.unmet for one in view.models),
            ended=ended,
        )
