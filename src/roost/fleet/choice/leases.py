"""MACHINE: capacity that is spoken for, from the moment of choice until the node returns it.

A lease belongs to one attempt of one request. It outlives the attempt: after a cancellation the
node may still compute for a step, and until it says `Released` the place is not free.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

import msgspec

from roost.core.ids import LeaseId, ModelId, NodeId, RequestId


class Lease(msgspec.Struct, frozen=True, gc=False):
    """One place on a node, for one attempt at a request, and `tokens` of KV that it may fill."""

    id: LeaseId
    request: RequestId
    attempt: int
    node: NodeId
    model: ModelId
    tokens: int = 0
    since_s: float = 0.0


class Share(msgspec.Struct, frozen=True, gc=False):
    """What a request takes of a node: `tokens` of KV, and `prefill` tokens to compute first.

    `recovering` says that it has already lost a node.
    """

    tokens: int = 0
    prefill: int = 0
    recovering: bool = False
    since_s: float = 0.0


NOTHING = Share()


@dataclass(slots=True)
class _Taken:
    """What is out on one node for one model: places, their KV tokens, prompt tokens to compute."""

    held: int = 0
    tokens: int = 0
    ahead: int = 0


_UNTOUCHED = _Taken()


class Leases:
    """Every lease that is out."""

    def __init__(self) -> None:
        self._leases: dict[tuple[RequestId, int], Lease] = {}
        self._places: dict[tuple[NodeId, ModelId], _Taken] = {}
        self._by_node: dict[NodeId, int] = {}
        self._by_model: Counter[ModelId] = Counter()
        self._prefilling: dict[tuple[RequestId, int], int] = {}
        self._recovering: Counter[NodeId] = Counter()
        self._hit: set[tuple[RequestId, int]] = set()
        self._taken = 0
        self._changed: set[NodeId] = set()

    def __len__(self) -> int:
        return len(self._leases)

    def take(
        self,
        request: RequestId,
        attempt: int,
        node: NodeId,
        model: ModelId,
        share: Share = NOTHING,
    ) -> Lease:
        """Reserve a place and a share of the node; one attempt has one lease."""
        key = (request, attempt)
        assert key not in self._leases, "an attempt takes one lease"
        self._taken += 1
        lease = Lease(
            LeaseId(self._taken), request, attempt, node, model, share.tokens, share.since_s
        )
        self._leases[key] = lease
        place = self._places.get((node, model))
        if place is None:
            place = self._places[node, model] = _Taken()
        place.held += 1
        place.tokens += share.tokens
        self._by_node[node] = self._by_node.get(node, 0) + 1
        self._by_model[model] += 1
        if share.prefill:
            self._prefilling[key] = share.prefill
            place.ahead += share.prefill
        if share.recovering:
            self._hit.add(key)
            self._recovering[node] += 1
        self._changed.add(node)
        return lease

    def prefilled(self, request: RequestId, attempt: int) -> None:
        """The attempt's prompt is computed: nobody behind it has to wait for that any more."""
        key = (request, attempt)
        tokens = self._prefilling.pop(key, 0)
        if key in self._hit:
            self._hit.discard(key)
            self._recovering[self._leases[key].node] -= 1
        if tokens:
            lease = self._leases[key]
            self._places[lease.node, lease.model].ahead -= tokens
            self._changed.add(lease.node)

    def holds(self, request: RequestId, attempt: int) -> bool:
        """Whether the attempt has a place."""
        return (request, attempt) in self._leases

    def release(self, request: RequestId, attempt: int) -> Lease | None:
        """Give the attempt's place back; None if it holds none (any more). The only way back."""
        if (request, attempt) not in self._leases:
            return None
        self.prefilled(request, attempt)
        lease = self._leases.pop((request, attempt))
        place = self._places[lease.node, lease.model]
        place.held -= 1
        place.tokens -= lease.tokens
        self._by_node[lease.node] -= 1
        self._by_model[lease.model] -= 1
        assert place.held >= 0, "released more than was taken"
        self._changed.add(lease.node)
        # Models and nodes that come and go would pile up.
        if not place.held:
            del self._places[lease.node, lease.model]
        if not self._by_model[lease.model]:
            del self._by_model[lease.model]
        if not self._by_node[lease.node]:
            del self._by_node[lease.node], self._recovering[lease.node]
        return lease

    def release_node(self, node: NodeId) -> list[Lease]:
        """Give back every place on a node that is gone, and with it whatever ran there."""
        if node not in self._by_node:
            return []
        gone = [lease for lease in self._leases.values() if lease.node == node]
        return [lease for lease in gone if self.release(lease.request, lease.attempt)]

    def held(self, node: NodeId, model: ModelId) -> int:
        """Places taken on this node for this model."""
        return self._places.get((node, model), _UNTOUCHED).held

    def in_flight(self, node: NodeId) -> int:
        """Places taken on this node."""
        return self._by_node.get(node, 0)

    def taken(self, model: ModelId) -> int:
        """Places taken for this model, on all nodes."""
        return self._by_model[model]

    def models(self) -> Collection[ModelId]:
        """Models that somebody has a place for."""
        return self._by_model.keys()

    def tokens(self, node: NodeId, model: ModelId) -> int:
        """KV tokens reserved on this node for this model."""
        return self._places.get((node, model), _UNTOUCHED).tokens

    def ahead(self, node: NodeId, model: ModelId) -> int:
        """Prompt tokens that this node has still to compute for this model."""
        return self._places.get((node, model), _UNTOUCHED).ahead

    def recovering(self, node: NodeId) -> int:
        """How many that were hit by a death elsewhere prefill on this node."""
        return self._recovering[node]

    def changed(self) -> Collection[NodeId]:
        """The nodes whose figures have changed since this was last asked."""
        if not self._changed:
            return ()
        changed, self._changed = self._changed, set()
        return changed

    def all(self) -> tuple[Lease, ...]:
        """Every lease that is out, oldest first."""
        return tuple(self._leases.values())
