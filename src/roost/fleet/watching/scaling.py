"""MACHINE: how many nodes the fleet would need for what is asked of it, for whoever adds them.

What is asked of a model is counted in slots: those that are used, one for each request that waits,
and what the refused would have used, which is how many come in a second times how long one takes
(Little's law). That is a mean over the last minute, so that a burst is no reason, and more nodes
are wanted at once, but fewer only when all of `calm_s` would have done with fewer: a node that
comes takes long to load and a node that goes takes what it keeps of conversations with it.

Nothing here starts or stops a machine.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from roost.core.ids import ModelId
from roost.fleet.watching.views import NodeView

LOOK_S = 1.0
"""Between two looks, however often somebody offers one."""
WINDOW_S = 60.0
MODELS_MAX = 256
REFUSED_MAX = 100_000
FOLLOWS = 0.1
"""How far what a request takes follows each that has ended."""
UNMET = frozenset({"queue_full", "queue_timeout", "node_busy", "no_nodes"})
"""Reasons for a refusal that another node would have made needless."""


class ScalingSettings(msgspec.Struct, frozen=True):
    """Slots are to be used by `target_share` on average; `calm_s` is as the module says."""

    target_share: float = 0.8
    calm_s: float = 300.0


class ModelScaling(msgspec.Struct, frozen=True):
    """One model: the slots it has, what is asked of it in slots, how many it should have.

    `running` and `waiting` are as of the last look, `unmet` was refused in the last minute.
    `service_s` is how long a request holds its slot, None before any has ended. `node_slots` is
    what one more node would bring, None where no node has ever offered the model.
    """

    model: ModelId
    slots: int
    running: int
    waiting: int
    unmet: int
    demand_slots: float
    wanted_slots: int
    service_s: float | None
    node_slots: float | None


class ScalingView(msgspec.Struct, frozen=True):
    """Nodes that take work, how many it should be, and by which models.

    `advice` is the difference: above 0, add so many; below, so many may go.
    """

    nodes: int
    wanted_nodes: int
    advice: int
    models: tuple[ModelScaling, ...] = ()


@dataclass(slots=True)
class _Model:
    loads: deque[tuple[float, int]] = field(default_factory=deque)
    unmet: deque[float] = field(default_factory=lambda: deque(maxlen=REFUSED_MAX))
    demands: deque[tuple[float, float]] = field(default_factory=deque)
    service_s: float | None = None
    node_slots: float | None = None
    slots: int = 0
    running: int = 0
    waiting: int = 0


class Scaling:
    """Fed with the ends of requests and a look at the fleet each second."""

    def __init__(self, settings: ScalingSettings) -> None:
        self._settings = settings
        self._models: dict[ModelId, _Model] = {}
        self._nodes = 0
        self._looked_s = float("-inf")

    def on_served(self, model: ModelId, service_s: float) -> None:
        """A request has given its slot back after so long."""
        one = self._of(model)
        if one is None:
            return
        known = one.service_s
        one.service_s = service_s if known is None else known + FOLLOWS * (service_s - known)

    def on_refused(self, model: ModelId, reason: str, now: float) -> None:
        """A request was refused; counts if it was for want of nodes."""
        one = self._of(model) if reason in UNMET else None
        if one is not None:
            one.unmet.append(now)

    def is_due(self, now: float) -> bool:
        """Whether it is time for another look."""
        return now >= self._looked_s + LOOK_S

    def on_look(
        self,
        nodes: Iterable[NodeView],
        running: Mapping[ModelId, int],
        waiting: Mapping[ModelId, int],
        now: float,
    ) -> None:
        """See what there is and how many requests of each model run and wait.

        A look that is not due changes nothing: who looks often must not weigh more in a mean.
        """
        if not self.is_due(now):
            return
        self._looked_s = now
        takers = [one for one in nodes if _takes_work(one)]
        self._nodes = len(takers)
        slots, hosts, each = _slots(takers)
        for model in {*each, *running, *waiting, *self._models}:
            one = self._of(model)
            if one is None:
                continue
            one.slots, one.running = slots[model], running.get(model, 0)
            one.waiting = waiting.get(model, 0)
            if model in each:
                one.node_slots = each[model] / hosts[model]
            one.loads.append((now, one.running + one.waiting))
            self._age(one, now)
            one.demands.append((now, _demand(one)))
            if model not in each and not any(demand for _, demand in one.demands):
                del self._models[model]

    def view(self) -> ScalingView:
        """What the last look has shown."""
        models = tuple(self._view(*item) for item in sorted(self._models.items()))
        parts = (one.wanted_slots / (one.node_slots or 1.0) for one in models)
        # What is left over of rounding must not want a whole node.
        wanted = math.ceil(sum(parts) - 1e-9)
        return ScalingView(self._nodes, wanted, wanted - self._nodes, models)

    def _of(self, model: ModelId) -> _Model | None:
        """Give what is known of a model; None for one more than there can be."""
        one = self._models.get(model)
        if one is None and len(self._models) < MODELS_MAX:
            one = self._models[model] = _Model()
        return one

    def _age(self, one: _Model, now: float) -> None:
        while one.loads[0][0] <= now - WINDOW_S:
            one.loads.popleft()
        while one.unmet and one.unmet[0] <= now - WINDOW_S:
            one.unmet.popleft()
        while one.demands and one.demands[0][0] <= now - self._settings.calm_s:
            one.demands.popleft()

    def _view(self, model: ModelId, one: _Model) -> ModelScaling:
        most = max((demand for _, demand in one.demands), default=0.0)
        return ModelScaling(
            model,
            one.slots,
            one.running,
            one.waiting,
            len(one.unmet),
            round(one.demands[-1][1], 3) if one.demands else 0.0,
            math.ceil(most / self._settings.target_share - 1e-9),
            None if one.service_s is None else round(one.service_s, 3),
            one.node_slots,
        )


def _demand(one: _Model) -> float:
    load = sum(load for _, load in one.loads) / len(one.loads)
    return load + len(one.unmet) / WINDOW_S * (one.service_s or 1.0)


def _takes_work(node: NodeView) -> bool:
    return node.state in ("alive", "suspect") and node.reported and not node.draining


def _slots(
    nodes: Iterable[NodeView],
) -> tuple[Counter[ModelId], Counter[ModelId], Counter[ModelId]]:
    """Count by model the slots there are, the nodes that offer it, and what those could have."""
    ready: Counter[ModelId] = Counter()
    hosts: Counter[ModelId] = Counter()
    offered: Counter[ModelId] = Counter()
    for node in nodes:
        runs = {view.model: len(view.slots) for view in node.runtimes if view.state == "ready"}
        there = {model: slots for model, slots in runs.items() if slots}
        for offer in node.models:
            if not offer.usable:
                continue
            # Not every runtime shows its slots one by one.
            slots = there.get(offer.model, max(1, offer.slots))
            ready[offer.model] += slots if offer.model in runs else 0
            hosts[offer.model] += 1
            offered[offer.model] += slots
    return ready, hosts, offered
