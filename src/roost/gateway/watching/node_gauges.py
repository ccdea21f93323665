"""DECIDER: nodes, and what they say of themselves, as gauges; what is not known has no value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.core.snapshots import PRESSURES, LinkState, MemoryReport, SessionsView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from roost.core.ids import NodeId
    from roost.fleet.watching.views import NodeView
    from roost.gateway.watching.gauges import Values

RANKS: dict[LinkState, int] = {"alive": 3, "suspect": 2, "stale": 1, "dead": 0}


def of_nodes(nodes: Iterable[NodeView]) -> Values:
    """Give what nodes last said; one that is gone has nothing, though it may still be known."""
    values: Values = {}
    for node in nodes:
        if node.state == "dead":
            continue
        values["roost_in_flight", node.id] = node.in_flight
        values["roost_link_state", node.id] = RANKS[node.state]
        values["roost_node_load_1m", node.id] = node.load_1m
        values["roost_node_rss_bytes", node.id] = node.rss_bytes
        values["roost_kv_reserved_bytes", node.id] = node.kv_reserved_bytes
        values |= _sessions(node.id, node.sessions or SessionsView())
        values |= {} if node.memory is None else _memory(node.id, node.memory)
    return values


def _sessions(node: NodeId, sessions: SessionsView) -> Values:
    return {
        ("roost_sessions", node, "memory"): sessions.ram,
        ("roost_sessions", node, "disk"): sessions.disk,
        ("roost_session_bytes", node, "memory"): sessions.ram_bytes,
        ("roost_session_bytes", node, "disk"): sessions.disk_bytes,
        ("roost_session_moves", node, "parked"): sessions.parks,
        ("roost_session_moves", node, "restored"): sessions.restores,
        ("roost_session_moves", node, "failed"): sessions.failures,
        ("roost_session_moves", node, "forgotten"): sessions.forgotten,
        ("roost_session_moving_s", node): sessions.moving_s,
    }


def _memory(node: NodeId, memory: MemoryReport) -> Values:
    values: Values = {
        ("roost_memory_relief", node, "passes"): memory.passes,
        ("roost_memory_relief", node, "demoted"): memory.demoted,
        ("roost_memory_relief", node, "evicted"): memory.evicted,
        ("roost_memory_relief", node, "refused"): memory.refused,
    }
    for device in memory.devices:
        sizes = "roost_memory_bytes", node, device.name
        values[(*sizes, "capacity")] = device.capacity_bytes
        values[(*sizes, "available")] = device.available_bytes
        values[(*sizes, "managed")] = device.managed_bytes
        values[(*sizes, "reserved")] = device.reserved_bytes
        if device.pressure != "unknown":
            level = PRESSURES.index(device.pressure) - PRESSURES.index("normal")
            values["roost_memory_pressure", node, device.name] = level
    return values
