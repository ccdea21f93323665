"""MACHINE: how nodes look to a gateway from outside: what they said, who is out there, what fits.

Written apart from the gateway's own board, so that both have to agree.
"""

from __future__ import annotations

import math
from collections import Counter

from roost.core.engine import Mode
from roost.core.ids import ModelId, NodeId, RequestId
from roost.core.snapshots import NodeStatus
from roost.fleet.effects import Dispatch
from roost.sim.history import History
from roost.sim.node.outlook import Outlook, has_space, outlook, with_work
from roost.sim.world import World

FRESH_S = 2.0
"""A node that has said nothing for so long is not counted on."""

BACKED_OFF_S = 8.5
"""A node that refused is left alone for up to 8 s."""


class Sight:
    """What one gateway can know of its nodes; `reports` are the last ones, `out` its attempts."""

    def __init__(self, world: World, history: History) -> None:
        self.reports: dict[NodeId, NodeStatus] = {}
        self.out: dict[tuple[RequestId, int], tuple[NodeId, ModelId]] = {}
        self._world = world
        self._history = history
        self._heard_s: dict[NodeId, float] = {}
        self._places: Counter[tuple[NodeId, ModelId]] = Counter()
        self._refused_s: dict[NodeId, float] = {}
        self._broken: set[tuple[NodeId, ModelId | None]] = set()
        self._parked: set[NodeId] = set()
        self._asked: dict[tuple[NodeId, ModelId], float] = {}

    def heard(self, node: NodeId) -> None:
        """A node has said something."""
        self._heard_s[node] = self._world.now

    def silent_s(self, node: NodeId) -> float:
        """For how long a node has said nothing."""
        return self._world.now - self._heard_s.get(node, 0.0)

    def joined(self, node: NodeId) -> None:
        """A node has a new link, and a new chance."""
        self._broken = {key for key in self._broken if key[0] != node}
        self._asked = {key: until for key, until in self._asked.items() if key[0] != node}
        self.heard(node)

    def forget(self) -> None:
        """The gateway has died, and with it what it was told."""
        for memory in (self._parked, self._broken, self._asked, self._heard_s):
            memory.clear()

    def park(self, node: NodeId, *, parked: bool) -> None:
        """An operator has spoken."""
        self._parked.add(node) if parked else self._parked.discard(node)

    def breaks(self, node: NodeId, model: ModelId | None, *, opened: bool) -> None:
        """The breaker of a node for a model has opened, or closed."""
        key = node, model
        self._broken.add(key) if opened else self._broken.discard(key)

    def refused(self, node: NodeId) -> None:
        """A node had no room."""
        self._refused_s[node] = self._world.now

    def asked(self, node: NodeId, model: ModelId) -> None:
        """A node was asked to load a model."""
        self._asked[node, model] = self._world.now + self._history.want_s

    def take(self, effect: Dispatch, model: ModelId) -> None:
        """An attempt is out on a node."""
        self.out[effect.request, effect.attempt] = (effect.node, model)
        self._places[effect.node, model] += 1

    def give_back(self, key: tuple[RequestId, int]) -> bool:
        """An attempt holds nothing any more; return whether it did."""
        place = self.out.pop(key, None)
        if place is not None:
            self._places[place] -= 1
        return place is not None

    def held(self, node: NodeId, model: ModelId) -> int:
        """Count the places that are taken on a node for a model."""
        return self._places[node, model]

    def drains(self, node: NodeId) -> bool:
        """Whether a node is to get nothing new, by its own word or an operator's."""
        report = self.reports.get(node)
        return node in self._parked or (report is not None and report.draining)

    def limit(self, node: NodeId, model: ModelId) -> int:
        """How many of a model a node takes at once; 0 where nothing is known of it."""
        report = self.reports.get(node)
        if report is None:
            return 0
        slots = [offer.slots for offer in report.models if offer.model == model]
        return min(report.max_in_flight, *slots) if slots else 0

    def idle(self, model: ModelId, mode: Mode) -> NodeId | None:
        """A node where somebody who waits for this model, to be for that, could be."""
        open_to = with_work(self.outlooks(model, mode), self._history.replicas)
        rooms = (node for node in sorted(open_to) if self.has_room(node, model))
        return next(rooms, None)

    def outlooks(self, model: ModelId, mode: Mode) -> dict[NodeId, Outlook]:
        """How far each node that takes work is with this model, where it is for that."""
        able = (node for node in self.reports if self.mode(node, model) == mode)
        well = [node for node in able if self._is_well(node, model)]
        return {
            node: outlook(self.reports[node], model, sent=self._is_sent(node, model))
            for node in well
        }

    def _is_sent(self, node: NodeId, model: ModelId) -> bool:
        return (
            self._places[node, model] > 0 or self._asked.get((node, model), 0.0) > self._world.now
        )

    def _is_well(self, node: NodeId, model: ModelId) -> bool:
        report = self.reports[node]
        if (node, model) in self._broken or node in self._parked:
            return False
        if report.draining or self._world.now >= self._heard_s[node] + FRESH_S:
            return False
        return any(one.model == model and one.usable for one in report.models)

    def has_room(self, node: NodeId, model: ModelId) -> bool:
        """Whether one more of a model has a place on a node."""
        report = self.reports[node]
        free_s = self._refused_s.get(node, -math.inf) + BACKED_OFF_S
        if self._capped(node) or self._world.now < free_s:
            return False
        offer = next(one for one in report.models if one.model == model)
        limit = min(offer.slots, report.max_in_flight)
        return self._places[node, model] < limit and has_space(report, model)

    def digest(self, node: NodeId, model: ModelId) -> str:
        """What a node has said a model is."""
        report = self.reports.get(node)
        offers = () if report is None else report.models
        return next((offer.digest for offer in offers if offer.model == model), "")

    def mode(self, node: NodeId, model: ModelId) -> Mode | None:
        """What a node has said a model is for."""
        report = self.reports.get(node)
        offers = () if report is None else report.models
        return next((offer.mode for offer in offers if offer.model == model), None)

    def _capped(self, node: NodeId) -> bool:
        """Whether a cap of the settings forbids more, here or everywhere."""
        history = self._history
        if 0 < history.max_decodes <= len(self.out):
            return True
        if not history.max_decodes_per_node:
            return False
        return history.max_decodes_per_node <= self.decodes(node)

    def decodes(self, node: NodeId) -> int:
        """Count a node's places, but for those of whom it has said that they wait for a load."""
        report, mine = self.reports.get(node), sum(on == node for on, _ in self.out.values())
        views = report.runtimes if report is not None else ()
        return mine - sum(min(self._places[node, view.model], view.waiting) for view in views)

    def costs_nobody(self, node: NodeId, model: ModelId) -> bool:
        """Whether a load there would cost no other model its runtime."""
        return all(load.model != model for load in self.reports[node].loads or ())

    def is_roomy(self, node: NodeId, model: ModelId) -> bool:
        """Whether a load there would cost no other model its runtime, nor any wait."""
        return self.costs_nobody(node, model) and self.has_room(node, model)

    def tie(self, effect: Dispatch, model: ModelId, mode: Mode) -> int:
        """How many nodes were equally idle; 0 where something else than chance decided."""
        if effect.placement != "cold" or self.out:
            return 0
        fresh = [node for node, seen in self._heard_s.items() if self._world.now < seen + FRESH_S]
        offers = [
            node
            for node in fresh
            if (report := self.reports.get(node)) is not None
            and not report.draining
            and node not in self._parked
            and any(o.model == model and o.usable and o.mode == mode for o in report.models)
        ]
        return len(offers)
