"""MACHINE: the streams on one simulated node's engines as facts: who ran, for whom, until when."""

from __future__ import annotations

from roost.core.events import PrefillProgress, Started, StreamEvent
from roost.core.fence import Fence
from roost.core.ids import NodeId
from roost.node.effects import Run, StreamKey
from roost.sim import node_facts as facts
from roost.sim.history import History
from roost.sim.node.strangers import STRANGER
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
        self._owned: dict[StreamKey, facts.Ownership] = {}
        self._ready: dict[StreamKey, float] = {}

    def fenced(self, key: StreamKey, fence: Fence) -> None:
        """A stream is asked for under this fence."""
        self._fences[key] = fence

    def ready(self, key: StreamKey) -> None:
        """A stream's prompt is rendered: it needs nothing but a slot."""
        self._ready[key] = self._world.now

    def heard(self, key: StreamKey, event: StreamEvent) -> None:
        """An engine says how far a stream is."""
        run = self._runs.get(key)
        if run is None:
            return
        if isinstance(event, Started):
            run.cached = event.cached_tokens
        elif isinstance(event, PrefillProgress) and event.done == event.total:
            run.computed_s = self._world.now

    def began(self, effect: Run) -> None:
        """A stream is on an engine; what strangers run is nobody's answer, but owned as well."""
        now = self._world.now
        run = facts.Run(effect.request_id, self._node, effect.use.slot, now)
        run.life, run.runtime = self._process.name, effect.runtime
        run.reuse, run.prompt = effect.use.reuse, effect.prepared.tokens
        # Who runs again has not waited since its prompt was ready.
        run.ready_s = self._ready.pop(effect.key, now)
        if effect.key.link > STRANGER:
            self._history.runs.append(run)
        self._runs[effect.key] = run
        fence, owner = self._fences.get(effect.key), self._owned.get(effect.key)
        if owner is not None:
            # It steps back for a moment and runs again, for the same owner.
            owner.ended_s = None
            self._owners[effect.key] = owner
        elif fence is not None:
            owner = facts.Ownership(self._node, fence, now)
            self._owners[effect.key] = self._owned[effect.key] = owner
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
