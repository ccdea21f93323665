"""MACHINE: the streams on one simulated node's engines as facts: who ran, for whom, until when."""

from __future__ import annotations

from roost.core.fence import Fence
from roost.core.ids import NodeId
from roost.node.effects import Run, StreamKey
from roost.sim import history as facts
from roost.sim.history import History
from roost.sim.strangers import STRANGER
from roost.sim.world import Process


class Runs:
    """Those of one life of the node's process."""

    def __init__(self, node: NodeId, process: Process, history: History) -> None:
        self._node = node
        self._process = process
        self._world = process.world
        self._history = history
        self._fences: dict[StreamKey, Fence] = {}
        self._runs: dict[StreamKey, facts.Run] = {}
        self._owners: dict[StreamKey, facts.Ownership] = {}

    def fenced(self, key: StreamKey, fence: Fence) -> None:
        """A stream is asked for under this fence."""
        self._fences[key] = fence

    def began(self, effect: Run) -> None:
        """A stream is on an engine; what strangers run is nobody's answer, but owned as well."""
        now = self._world.now
        run = facts.Run(effect.request_id, self._node, effect.use.slot, now)
        run.life, run.runtime = self._process.name, effect.runtime
        run.reuse = effect.use.reuse
        if effect.key.link > STRANGER:
            self._history.runs.append(run)
        self._runs[effect.key] = run
        fence = self._fences.get(effect.key)
        if fence is not None:
            owner = facts.Ownership(self._node, fence, now)
            self._owners[effect.key] = owner
            self._history.owners.append(owner)

    def ended(self, key: StreamKey) -> None:
        """It has left its engine, if it was on one."""
        run, owner = self._runs.pop(key, None), self._owners.pop(key, None)
        if run is not None:
            run.ended_s = self._world.now
        if owner is not None:
            owner.ended_s = self._world.now

    def all_ended(self) -> None:
        """The node is dead, and so are its engines."""
        for key in list(self._runs):
            self.ended(key)
