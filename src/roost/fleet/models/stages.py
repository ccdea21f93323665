"""MACHINE: which nodes run a model, which are about to, and whom that keeps from loading it too.

Where one is ready nobody waits for a load; where enough are coming nobody starts another. That is
what keeps ten requests from making ten nodes load one model.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from roost.core.ids import ModelId, NodeId
from roost.fleet.field import Stage
from roost.fleet.nodes.registry import Node

Gate: TypeAlias = Mapping[Stage, str]
"""Why nodes at these stages take no request; those at others may."""

_OPEN: Gate = MappingProxyType({})
_COMING: Gate = MappingProxyType({"cold": "cold"})
_READY: Gate = MappingProxyType({"cold": "cold", "coming": "loading"})


class Stages:
    """One model's nodes that take work; `replicas` loads may be under way, 0 is no limit."""

    def __init__(self, replicas: int) -> None:
        self._replicas = replicas
        self._ready: set[NodeId] = set()
        self._coming: set[NodeId] = set()
        self.gate = _OPEN

    def note(self, node: NodeId, stage: Stage | None) -> bool:
        """A node is at this stage, or takes no work (None); True if that changes `gate`."""
        if not self._replicas:
            return False
        for nodes, held in ((self._ready, "ready"), (self._coming, "coming")):
            if stage == held:
                nodes.add(node)
            else:
                nodes.discard(node)
        before = self.gate
        if self._ready:
            self.gate = _READY
        else:
            self.gate = _OPEN if len(self._coming) < self._replicas else _COMING
        return self.gate is not before

    @property
    def empty(self) -> bool:
        """Whether no load is under way that anybody could wait for; never without a limit."""
        return bool(self._replicas) and not self._ready and not self._coming


def stage_of(node: Node, model: ModelId, *, asked: bool) -> Stage:
    """How far the model's runtime is by the node's last report.

    `asked` says that the node was sent a request for it, or the wish to load it.
    """
    view = node.runtimes.get(model)
    state = view.state if view is not None else "absent"
    if state in ("ready", "stopping"):
        # One that stops makes room for another model: its own comes back in its turn.
        return "ready" if state == "ready" else "cold"
    return "coming" if asked or state == "loading" else "cold"


def has_no_room(node: Node, model: ModelId) -> bool:
    """Whether the model cannot be loaded there, and nobody knows when that will change."""
    view, load = node.runtimes.get(model), node.crowded.get(model)
    stops = view is not None and view.state == "stopping"
    return stops or (load is not None and load.why != "" and load.in_s is None)
