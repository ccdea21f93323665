"""DECIDER: the pool as `/roost/v1/fleet` shows it, in the words of a fleet of nodes."""

from __future__ import annotations

from collections import Counter

import msgspec

from roost.core.ids import NodeId
from roost.core.snapshots import LinkState
from roost.fleet.upstream_pool import Health, PoolView, ServerView
from roost.fleet.views import NodeView

_STATES: dict[Health, LinkState] = {"healthy": "alive", "unhealthy": "dead", "unknown": "suspect"}


class UpstreamStatistics(msgspec.Struct, frozen=True):
    """Gauges under the names they have in a fleet, and what the pool has counted since the start.

    `served` answers were whole, `rejected` requests found no room, `unavailable` ones no server.
    """

    waiting: int
    running: int
    leases: int
    in_flight: dict[NodeId, int]
    nodes: dict[LinkState, int]
    served: int
    rejected: int
    unavailable: int


class UpstreamFleet(msgspec.Struct, frozen=True):
    """Every server as a node without models: a server's own are known to itself alone."""

    nodes: tuple[NodeView, ...]
    statistics: UpstreamStatistics


def fleet_view(pool: PoolView, max_in_flight: int) -> UpstreamFleet:
    """Describe the pool; each server takes up to `max_in_flight` requests at a time."""
    nodes = tuple(_node(server, max_in_flight) for server in pool.servers)
    running = sum(node.in_flight for node in nodes)
    statistics = UpstreamStatistics(
        waiting=pool.queued,
        running=running,
        leases=running,
        in_flight={node.id: node.in_flight for node in nodes},
        nodes=dict(Counter(node.state for node in nodes)),
        served=sum(server.served for server in pool.servers),
        rejected=pool.rejected,
        unavailable=pool.unavailable,
    )
    return UpstreamFleet(nodes, statistics)


def _node(server: ServerView, max_in_flight: int) -> NodeView:
    return NodeView(
        id=NodeId(server.server),
        name=server.server,
        state=_STATES[server.health],
        in_flight=server.in_flight,
        draining=False,
        max_in_flight=max_in_flight,
    )
