"""MACHINE: orders of operators and the memory of one simulated machine, for one life of its node.

What it knows of pins, orders and bytes it knows by itself: a node's books are what is under test.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from roost.core.footprint import HOST
from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.node.agent import Agent
from roost.node.effects import Effect
from roost.node.models.pressure import Reading
from roost.node.relief import Weights
from roost.sim.history import History
from roost.sim.node.residents import Residents
from roost.sim.node_facts import Ordered, Weighing
from roost.sim.scenario import MemorySpec
from roost.sim.world import Process
from roost.wire.messages import Order

if TYPE_CHECKING:
    from random import Random

MB = 10**6
WEIGH_S = 5.0
SETTLE_S = 0.05
FULL = 0.95
Perform: TypeAlias = Callable[[list[Effect]], None]


class Place(NamedTuple):
    """Whose machine it is, and in which life."""

    node: NodeId
    life: int
    memory: MemorySpec


class Steward:
    """Gives a node its orders, and measures its machine."""

    def __init__(
        self,
        place: Place,
        process: Process,
        agent: Agent,
        history: History,
        residents: Residents,
        dice: Random,
    ) -> None:
        self._place = place
        self._process = process
        self._agent = agent
        self._history = history
        self._residents = residents
        self._dice = dice
        self.perform: Perform = _nobody
        self.engines: Mapping[RuntimeId, object] = {}
        self._open: dict[str, Ordered] = {}
        self._pinned: set[ModelId] = set()
        self._let_go: set[RuntimeId] = set()
        self._hog_mb = self._seen_hog_mb = 0.0
        self._weighings = 0
        if place.memory.size_mb:
            process.after(0.1, self._beat)
            self._plan_hog()

    # Orders.

    def order(self, order: Order, told: Ordered) -> None:
        """An operator wants this; `told` is written up with what comes of it."""
        views = self._agent.status().runtimes
        view = next((one for one in views if one.model == order.model), None)
        told.runtime = view.runtime if view is not None else None
        told.life = self._place.life
        self._open[order.job] = told
        if order.what == "pin":
            self._pinned.add(order.model)
            if view is not None and view.state == "stopping" and view.runtime is not None:
                # Nobody comes back who has been told to go.
                self._let_go.add(view.runtime)
        elif order.what == "unpin" or order.force:
            self._pinned.discard(order.model)
        self.perform(self._agent.on_order(order, self._now))

    def look(self) -> None:
        """See what the node says of open orders, and hold it against what is there."""
        if not self._open:
            return
        for view in self._agent.status().orders or ():
            told = self._open.get(view.job)
            if told is None or not view.is_over:
                continue
            del self._open[view.job]
            told.ended_s, told.done = self._now, view.done
            told.reason = view.failure.reason if view.failure is not None else ""
            ready = self._residents.ready_of(told.model)
            told.there = told.runtime in self.engines if told.what == "unload" else ready

    def leaves(self, runtime: RuntimeId, model: ModelId, preparing: int) -> None:
        """A runtime is told to go: note what should have kept it, and who wanted it."""
        orders = [o for o in self._history.orders if o.node == self._place.node]
        wanted = [o for o in orders if o.model == model and o.what == "unload" and self._is_open(o)]
        self._residents.why(
            runtime,
            ordered=bool(wanted),
            forced=any(one.force for one in wanted),
            pinned=model in self._pinned and runtime not in self._let_go,
            preparing=preparing,
        )

    def _is_open(self, order: Ordered) -> bool:
        # An order that waited for an idle moment lets go what was retired before its end.
        return order.ended_s is None or (order.done is True and order.ended_s >= self._now - 60.0)

    # Memory.

    def weigh(self, number: int) -> None:
        """The node asks for a measurement."""
        if self._place.memory.size_mb:
            self._process.after(SETTLE_S, lambda: self._measure(number))

    def begins(self, runtime: RuntimeId) -> None:
        """A load begins: note what is taken from then on, and what may be."""
        memory = self._place.memory
        if self._weighings:
            taken_mb = self._seen_hog_mb + memory.model_mb * len(self.engines)
            self._residents.takes(runtime, taken_mb, FULL * memory.size_mb)

    def _beat(self) -> None:
        self._measure(0)
        self._process.after(WEIGH_S, self._beat)

    def _measure(self, number: int) -> None:
        memory = self._place.memory
        ready = [one for one in self.engines if self._residents.is_ready(one)]
        loading = len(self.engines) - len(ready)
        taken_mb = memory.model_mb * (len(ready) + loading / 2)
        room = int(max(0.0, memory.size_mb - self._hog_mb - taken_mb) * MB)
        reading = Reading(HOST, memory.size_mb * MB, room)
        self._weighings += 1
        # What of it found no place is swapped out, and makes no difference to anybody here.
        self._seen_hog_mb = min(self._hog_mb, memory.size_mb - taken_mb)
        share = 1 - room / (memory.size_mb * MB)
        place = self._place
        self._history.weighings.append(Weighing(place.node, place.life, number > 0, share))
        runtimes = dict.fromkeys(ready, memory.model_mb * MB)
        self.perform(self._agent.on_weighed(Weights((reading,), runtimes, number), self._now))
        report = self._agent.status().memory
        if report is not None:
            self._history.weighings[-1].passes = report.passes

    def _plan_hog(self) -> None:
        memory = self._place.memory
        if memory.hog_mb:
            self._process.after(self._dice.uniform(*memory.hog_every_s), self._hog)

    def _hog(self) -> None:
        """Another program takes memory for a while."""
        self._hog_mb = self._dice.uniform(0.0, self._place.memory.hog_mb)
        self._process.after(self._dice.uniform(*self._place.memory.hog_for_s), self._unhog)

    def _unhog(self) -> None:
        self._hog_mb = 0.0
        self._plan_hog()

    @property
    def _now(self) -> float:
        return self._process.world.now


def _nobody(_effects: list[Effect]) -> None:
    """Stands in until the node has attached itself."""
