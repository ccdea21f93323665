"""MACHINE: the runtimes of one simulated node as facts: who came, how long it stayed, who went."""

from __future__ import annotations

from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.node.models.ledger import RoomSettings
from roost.sim.node_facts import Residence


class Residents:
    """Everything that takes room there, counted apart from the node's own books."""

    def __init__(self, node: NodeId, room: RoomSettings, told: list[Residence]) -> None:
        self._node = node
        self._room = room
        self._told = told
        self._here: dict[RuntimeId, Residence] = {}

    def loading(self, runtime: RuntimeId, model: ModelId, now: float) -> None:
        """A load begins."""
        # Where a backend has a limit, all of a simulated node's models have that backend.
        limits = [self._room.max_runtimes, *(max(1, most) for most in self._room.kept.values())]
        most, together = min(filter(None, limits), default=0), len(self._here) + 1
        stays_s = 0.0 if self._is_brief else self._room.min_resident_s
        one = Residence(self._node, model, now, together, most, stays_s)
        self._here[runtime] = one
        self._told.append(one)

    def ready(self, runtime: RuntimeId, now: float) -> None:
        """It is over: the runtime stays at least as long as it took."""
        one = self._here[runtime]
        one.ready_s = now
        if not self._is_brief:
            one.stays_s = max(one.stays_s, now - one.began_s)

    @property
    def _is_brief(self) -> bool:
        """Whether nothing is kept here that nobody uses."""
        return 0 in self._room.kept.values()

    def told_to_go(self, runtime: RuntimeId, busy: int, now: float) -> None:
        """The node stops a runtime on which so many streams are."""
        one = self._here[runtime]
        one.told_s, one.busy = now, busy

    def is_ready(self, runtime: RuntimeId) -> bool:
        """Whether its load is over."""
        one = self._here.get(runtime)
        return one is not None and one.ready_s is not None

    def ready_of(self, model: ModelId) -> bool:
        """Whether this model has a runtime that is ready."""
        return any(one.model == model and one.ready_s is not None for one in self._here.values())

    def takes(self, runtime: RuntimeId, taken_mb: float, may_mb: float) -> None:
        """What is taken of the memory from the begin of this load, and what may be."""
        one = self._here[runtime]
        one.taken_mb, one.may_mb = taken_mb, may_mb

    def why(
        self, runtime: RuntimeId, *, ordered: bool, forced: bool, pinned: bool, preparing: int
    ) -> None:
        """What speaks for and against its going."""
        one = self._here[runtime]
        one.ordered, one.forced, one.pinned, one.preparing = ordered, forced, pinned, preparing

    def gone(self, runtime: RuntimeId) -> None:
        """It takes no room any more, for whatever reason."""
        self._here.pop(runtime, None)
