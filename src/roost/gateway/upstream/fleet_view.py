"""DECIDER: the pool as `/roost/v1/fleet` shows it, in the words of a fleet of nodes."""

from __future__ import annotations

from collections import Counter

import msgspec

from roost.core.ids import ModelId, NodeId
from roost.core.snapshots import LinkState, ModelOffer
from roost.fleet.upstream.effects import Health, PoolView, ServerView
from roost.fleet.watching.views import NodeView

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
    """Every server as a node; its models are those it lists, none while its list is unknown."""

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


def server_view(pool: PoolView, name: str, max_in_flight: int) -> NodeView | None:
    """Describe one server; None if there is none of this name."""
    return next((_node(s, max_in_flight) for s in pool.servers if s.server == name), None)


def _node(server: ServerView, max_in_flight: int) -> NodeView:
    # A server that answers probes and nothing else is, in a fleet's words, a stale one.
    state: LinkState = "stale" if server.stalled else _STATES[server.health]
    offers = (ModelOffer(ModelId(m), slots=max_in_flight, ctx=0) for m in server.models or ())
    return NodeView(
        id=NodeId(server.server),
        name=server.server,
        state=state,
        in_flight=server.in_flight,
        draining=server.drained,
        models=tuple(offers),
        max_in_flight=max_in_flight,
    )
