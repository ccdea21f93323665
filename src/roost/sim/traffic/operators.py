"""MACHINE: people who have nodes load, unload, pin and unpin models, at random."""

from __future__ import annotations

from functools import partial

from roost.core.ids import NodeId
from roost.core.snapshots import OrderKind
from roost.sim.history import History
from roost.sim.node.worker import Worker
from roost.sim.node_facts import Ordered, Trouble
from roost.sim.scenario import Scenario
from roost.sim.world import World
from roost.wire.messages import Order

KINDS: tuple[OrderKind, ...] = ("load", "unload", "pin", "unpin")
FORCED_S = 20.0
"""How long requests may feel that what they ran on was thrown out."""


class Operators:
    """Give orders until the scenario's end, and then take every pin off."""

    def __init__(
        self, scenario: Scenario, world: World, workers: dict[NodeId, Worker], history: History
    ) -> None:
        self._orders = scenario.orders
        self._until_s = scenario.duration_s
        self._world = world
        self._workers = workers
        self._history = history
        self._dice = world.dice("operators")
        self._given = 0

    def begin(self) -> None:
        """Plan the first one."""
        if self._orders.rate_per_s:
            self._plan()
            self._world.at(self._until_s, self._unpin_all)

    def _plan(self) -> None:
        self._world.at(self._dice.expovariate(self._orders.rate_per_s), self._one)

    def _one(self) -> None:
        if self._world.now >= self._until_s:
            return
        worker = self._workers[self._dice.choice(sorted(self._workers))]
        model = self._dice.choice([offer.model for offer in worker.spec.offers])
        what = self._dice.choice(KINDS)
        force = what == "unload" and self._dice.random() < self._orders.force
        wait_s = self._dice.uniform(*self._orders.wait_s)
        self._give(worker, Order(self._name(), model, what, force, wait_s))
        self._plan()

    def _unpin_all(self) -> None:
        for name in sorted(self._workers):
            for offer in self._workers[name].spec.offers:
                self._give(self._workers[name], Order(self._name(), offer.model, "unpin"))

    def _name(self) -> str:
        self._given += 1
        return f"order-{self._given}"

    def _give(self, worker: Worker, order: Order) -> None:
        node, now = worker.spec.id, self._world.now
        self._world.log(f"order {node} {order.what} {order.model}{' force' * order.force}")
        told = Ordered(node, order.model, order.what, order.force, now, order.wait_s)
        self._history.orders.append(told)
        if order.force:
            self._history.troubles.append(Trouble(node, "forced unload", now, now + FORCED_S))
        worker.process.do(partial(worker.order, order, told))
