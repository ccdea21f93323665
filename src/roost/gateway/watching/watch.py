"""SHELL: looks for what is odd in the fleet, and says in the log when it begins and ends."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from roost.fleet.watching.hints import FLEET_KINDS, Hints
from roost.gateway.watching.gauges import Gauges

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from roost.core.events import Started
    from roost.fleet.effects import Dispatch
    from roost.fleet.watching.cache_misses import Miss
    from roost.fleet.watching.hints import Hint
    from roost.fleet.watching.views import NodeView
    from roost.gateway.turns.turn import Turn
    from roost.observe.logs import Log
    from roost.observe.metrics import Metrics

LOOK_S = 1.0
"""Between two looks, however many nodes report."""


class Watch:
    """Fed by the mind; `fleet` shows it the nodes."""

    def __init__(self, fleet: Callable[[], Iterable[NodeView]], metrics: Metrics, log: Log) -> None:
        self._fleet = fleet
        self._metrics = metrics
        self._log = log
        self._hints = Hints()
        self._looked_s = 0.0
        self._odd = Gauges(metrics)

    def on_dispatch(self, turn: Turn, dispatch: Dispatch, streams: int, now: float) -> None:
        """A node was chosen while it had so many streams."""
        model, chosen = turn.request.model, dispatch.candidates
        self._hints.picks.on_pick(model, dispatch.node, chosen, streams, now)

    def on_started(self, turn: Turn, started: Started) -> Miss | None:
        """A request holds a slot; what of its past was not there."""
        dispatch = turn.dispatch
        if dispatch is None or turn.request.counts:
            return None
        miss = self._hints.misses.on_started(turn.request.model, turn.terms, dispatch, started)
        if miss is not None:
            self._metrics("roost_cache_misses_total", miss.why).inc()
        return miss

    def on_report(self, now: float) -> None:
        """A node has reported: look, if the last look is a while ago."""
        if now - self._looked_s >= LOOK_S:
            self._look(now)

    def hints(self, now: float) -> tuple[Hint, ...]:
        """What is odd now."""
        self._look(now)
        return self._hints.hints()

    def _look(self, now: float) -> None:
        self._looked_s = now
        unix_ms = time.time_ns() // 1_000_000
        for hint, begins in self._hints.on_look(self._fleet(), now, unix_ms):
            facts = {"model": hint.model, "kind": hint.kind, "why": hint.text, "begins": begins}
            where = {} if hint.node is None else {"node": hint.node}
            self._log.warning("fleet_odd", **where, **facts)
        odd = [one for one in self._hints.hints() if one.kind in FLEET_KINDS]
        self._odd.refresh({("roost_fleet_anomaly", str(one.model), one.kind): 1 for one in odd})
