"""MACHINE: what goes wrong: each fault has a beginning, a victim, and an end.

Every span of trouble is noted, so that checkers can tell a failure that had a cause from one that
had none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from roost.core.ids import NodeId
from roost.sim.gateway.front import Front
from roost.sim.history import History
from roost.sim.network import Network
from roost.sim.node.worker import Worker
from roost.sim.node_facts import Trouble
from roost.sim.scenario import Fault, FaultKind, Scenario
from roost.sim.world import Action, World

GATEWAY = NodeId("gateway")
"""Under this name troubles of the gateway itself are noted."""

GATEWAY_FAULTS = frozenset({"late_ticks", "pause_gateway", "drain_gateway", "kill_gateway"})
REJOIN_S = 3.0
"""How long after a gateway's start its nodes may take to be back."""
AFTERMATH_S = 16.0
"""How long after its end a fault may still be felt: a link counts as dead after 15 s of silence."""

_Breaker: TypeAlias = Callable[[Worker, Fault], Action]


class Faults:
    """Draws and performs the faults of a scenario."""

    def __init__(
        self,
        scenario: Scenario,
        world: World,
        network: Network,
        front: Front,
        workers: dict[NodeId, Worker],
        history: History,
    ) -> None:
        self._faults = scenario.faults
        self._world = world
        self._network = network
        self._front = front
        self._workers = workers
        self._history = history
        self._dice = world.dice("faults")
        self._busy: set[NodeId] = set()
        self._breakers: dict[FaultKind, _Breaker] = {
            "kill_runtime": self._kill_runtime,
            "kill_node": self._kill_node,
            "pause_node": self._pause_node,
            "hang_runtime": self._hang_runtime,
            "partition": self._partition,
            "half_open": self._half_open,
            "cut_link": self._cut_link,
            "slow_node": self._slow_node,
            "load_failures": self._load_failures,
            "hang_loads": self._hang_loads,
            "drain_node": self._drain_node,
            "crowd": self._crowd,
            "repeat_opens": self._repeat_opens,
            "usurp": self._usurp,
            "park_node": self._park_node,
        }

    def plan(self) -> None:
        """Draw when everything happens."""
        for fault in self._faults:
            for _ in range(fault.times):
                at_s = self._dice.uniform(*fault.at_s)
                for_s = self._dice.uniform(*fault.for_s)
                self._schedule(fault, at_s, for_s)

    def _schedule(self, fault: Fault, at_s: float, for_s: float) -> None:
        self._history.healed_s = max(self._history.healed_s, at_s + for_s)
        self._world.at(at_s, lambda: self._strike(fault, for_s))

    def _strike(self, fault: Fault, for_s: float) -> None:
        if fault.kind in GATEWAY_FAULTS:
            self._strike_gateway(fault, for_s)
            return
        free = [node for node in self._workers if node not in self._busy]
        if not free:
            return
        node = self._dice.choice(free)
        self._busy.add(node)
        self._world.log(f"fault {fault.kind} {node} for {for_s:.3f}")
        trouble = Trouble(node, fault.kind, self._world.now)
        self._history.troubles.append(trouble)
        heal = self._breakers[fault.kind](self._workers[node], fault)
        self._world.at(for_s, lambda: self._heal(node, trouble, heal))

    def _heal(self, node: NodeId, trouble: Trouble, heal: Action) -> None:
        self._world.log(f"heal {trouble.kind} {node}")
        heal()
        self._busy.discard(node)
        trouble.until_s = self._world.now + AFTERMATH_S

    def _strike_gateway(self, fault: Fault, for_s: float) -> None:
        now = self._world.now
        trouble = Trouble(GATEWAY, fault.kind, now, now + for_s + AFTERMATH_S)
        self._history.troubles.append(trouble)
        self._world.log(f"fault {fault.kind} gateway for {for_s:.3f}")
        if fault.kind == "late_ticks":
            self._front.tick_delay_s = fault.factor
            self._world.at(for_s, self._ticks_again)
        elif fault.kind == "pause_gateway":
            self._front.process.stop()
            self._world.at(for_s, self._front.process.resume)
        elif fault.kind == "kill_gateway":
            self._network.shut()
            self._front.kill()
            trouble.until_s = now + for_s + REJOIN_S
            self._world.at(for_s, self._start_gateway)
        else:
            self._front.drain()

    def _start_gateway(self) -> None:
        self._front.boot()
        self._network.is_open = True

    def _ticks_again(self) -> None:
        self._front.tick_delay_s = 0.0

    # One function per fault: does the harm and returns what undoes it.

    def _kill_runtime(self, worker: Worker, _fault: Fault) -> Action:
        worker.kill_runtime(first=self._dice.random() < 0.5)
        return _nothing

    def _kill_node(self, worker: Worker, _fault: Fault) -> Action:
        worker.kill()
        return worker.boot

    def _pause_node(self, worker: Worker, _fault: Fault) -> Action:
        worker.freeze()
        return worker.thaw

    def _hang_runtime(self, worker: Worker, _fault: Fault) -> Action:
        engines = list(worker.engines.values())
        for engine in engines:
            engine.stop()

        def go_on() -> None:
            for engine in engines:
                engine.resume()

        return go_on

    def _partition(self, worker: Worker, _fault: Fault) -> Action:
        node = worker.spec.id
        self._network.partition(node)
        return lambda: self._network.heal(node)

    def _half_open(self, worker: Worker, _fault: Fault) -> Action:
        connection = self._network.connections.get(worker.spec.id)
        if connection is not None:
            connection.go_half_open()
        return _nothing

    def _cut_link(self, worker: Worker, _fault: Fault) -> Action:
        connection = self._network.connections.get(worker.spec.id)
        if connection is not None:
            connection.reset()
        return _nothing

    def _slow_node(self, worker: Worker, fault: Fault) -> Action:
        worker.slow_down(fault.factor)
        return lambda: worker.slow_down(1.0)

    def _load_failures(self, worker: Worker, _fault: Fault) -> Action:
        worker.failing_loads = True
        worker.kill_runtime(first=False)

        def mend() -> None:
            worker.failing_loads = False

        return mend

    def _hang_loads(self, worker: Worker, _fault: Fault) -> Action:
        worker.hanging_loads = True
        worker.kill_runtime(first=False)

        def mend() -> None:
            worker.hanging_loads = False

        return mend

    def _drain_node(self, worker: Worker, _fault: Fault) -> Action:
        worker.drain()

        def restart() -> None:
            worker.kill()
            worker.boot()

        return restart

    def _park_node(self, worker: Worker, _fault: Fault) -> Action:
        node, front = worker.spec.id, self._front
        front.process.do(lambda: front.park(node, parked=True))

        def give_back() -> None:
            front.note_drained(node, worker.agent.status())
            front.process.do(lambda: front.park(node, parked=False))

        return give_back

    def _crowd(self, worker: Worker, _fault: Fault) -> Action:
        worker.crowd()
        return worker.uncrowd

    def _repeat_opens(self, worker: Worker, _fault: Fault) -> Action:
        return worker.repeat(generation=0)

    def _usurp(self, worker: Worker, _fault: Fault) -> Action:
        return worker.repeat(generation=2)


def _nothing() -> None:
    """Some harm is done once and needs no undoing."""
