"""MACHINE: capacity that is spoken for, from the moment of choice until the node returns it.

A lease belongs to one attempt of one request. It outlives the attempt: after a cancellation the
node may still compute for a step, and until it says `Released` the place is not free.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from roost.core.ids import LeaseId, ModelId, NodeId, RequestId


class Lease(msgspec.Struct, frozen=True):
    """One place on a node, for one attempt at a request."""

    id: LeaseId
    request: RequestId
    attempt: int
    node: NodeId
    model: ModelId


class Leases:
    """Every lease that is out."""

    def __init__(self) -> None:
        self._leases: dict[tuple[RequestId, int], Lease] = {}
        self._by_place: Counter[tuple[NodeId, ModelId]] = Counter()
        self._by_node: Counter[NodeId] = Counter()
        self._taken = 0

    def __len__(self) -> int:
        return len(self._leases)

    def take(self, request: RequestId, attempt: int, node: NodeId, model: ModelId) -> Lease:
        """Reserve a place; one attempt has one lease."""
        assert (request, attempt) not in self._leases, "an attempt takes one lease"
        self._taken += 1
        lease = Lease(LeaseId(self._taken), request, attempt, node, model)
        self._leases[request, attempt] = lease
        self._by_place[node, model] += 1
        self._by_node[node] += 1
        return lease

    def release(self, request: RequestId, attempt: int) -> Lease | None:
        """Give the attempt's place back; None if it holds none (any more). The only way back."""
        lease = self._leases.pop((request, attempt), None)
        if lease is not None:
            self._by_place[lease.node, lease.model] -= 1
            self._by_node[lease.node] -= 1
            assert self._by_place[lease.node, lease.model] >= 0, "released more than was taken"
            self._drop_zeros(lease)
        return lease

    def release_node(self, node: NodeId) -> list[Lease]:
        """Give back every place on a node that is gone, and with it whatever ran there."""
        gone = [lease for lease in self._leases.values() if lease.node == node]
        return [lease for lease in gone if self.release(lease.request, lease.attempt)]

    def held(self, node: NodeId, model: ModelId) -> int:
        """Places taken on this node for this model."""
        return self._by_place[node, model]

    def in_flight(self, node: NodeId) -> int:
        """Places taken on this node."""
        return self._by_node[node]

    def all(self) -> tuple[Lease, ...]:
        """Every lease that is out, oldest first."""
        return tuple(self._leases.values())

    def _drop_zeros(self, lease: Lease) -> None:
        # A Counter keeps zeros: models and nodes that come and go would pile up.
        if not self._by_place[lease.node, lease.model]:
            del self._by_place[lease.node, lease.model]
        if not self._by_node[lease.node]:
            del self._by_node[lease.node]
