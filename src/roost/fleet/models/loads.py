"""MACHINE: how long loads take, learned from what nodes report of theirs.

What is known of this model on this node counts first, then what is known of the model elsewhere,
then its size at the speed at which this node, or any, has loaded others.
"""

from __future__ import annotations

from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.snapshots import NodeStatus
from roost.fleet.pace import Mean

UNKNOWN_S = 5.0
"""A guess for a model of unknown size, before anybody has loaded anything."""
PLACES = 4096
"""Most pairs of node and model that are remembered; the ones loaded longest ago go first."""


class Loads:
    """Every load that nodes have told of."""

    def __init__(self) -> None:
        self._places: dict[tuple[NodeId, ModelId], Mean] = {}
        self._models: dict[ModelId, Mean] = {}
        self._nodes: dict[NodeId, Mean] = {}
        self._all = Mean()
        self._seen: dict[tuple[NodeId, ModelId], RuntimeId] = {}

    def __len__(self) -> int:
        return len(self._places)

    def reported(self, node: NodeId, status: NodeStatus) -> None:
        """A node reported: learn from the runtimes that have become ready since its last report."""
        for view in status.runtimes:
            place = node, view.model
            if view.state != "ready" or view.runtime is None or view.load_s is None:
                continue
            if self._seen.get(place) == view.runtime:
                continue
            self._seen[place] = view.runtime
            sizes = [offer.size_bytes for offer in status.models if offer.model == view.model]
            self._note(place, view.load_s, sizes[0] if sizes else 0)

    def joined(self, node: NodeId) -> None:
        """The node began anew, maybe on other hardware: forget what it could."""
        self._nodes.pop(node, None)
        for place in [place for place in self._seen if place[0] == node]:
            self._places.pop(place, None)
            del self._seen[place]

    def predict_s(self, node: NodeId, model: ModelId, size_bytes: int) -> float:
        """How long a load of this model on this node will take; `size_bytes` 0 is unknown."""
        for known in (self._places.get((node, model)), self._models.get(model)):
            if known is not None:
                return known.value
        rate = self._nodes.get(node, self._all)
        return size_bytes * rate.value if rate.count and size_bytes else UNKNOWN_S

    def _note(self, place: tuple[NodeId, ModelId], seconds: float, size_bytes: int) -> None:
        node, model = place
        mine = self._places.pop(place, None) or Mean()
        self._places[place] = mine
        mine.note(seconds)
        self._models.setdefault(model, Mean()).note(seconds)
        if size_bytes:
            self._nodes.setdefault(node, Mean()).note(seconds / size_bytes)
            self._all.note(seconds / size_bytes)
        if len(self._places) > PLACES:
            oldest = next(iter(self._places))
            del self._places[oldest]
            self._seen.pop(oldest, None)
            if not any(model == oldest[1] for _, model in self._places):
                del self._models[oldest[1]]
