"""Capacity and KV share, the figures that candidates are made of."""

from __future__ import annotations

import pytest

from roost.core.ids import ModelId, NodeId
from roost.core.snapshots import RuntimeView, SlotView
from roost.fleet.choice.board import Board, capacity, kv_share
from roost.fleet.choice.leases import Leases
from roost.fleet.nodes.registry import Node, Registry
from roost.fleet.settings import FleetSettings
from tests.fleet.kit import offer, status


def view(*tokens: int, ctx: int = 100) -> RuntimeView:
    """A runtime whose slots hold these many tokens."""
    slots = tuple(SlotView(n, busy=False, tokens=held) for n, held in enumerate(tokens))
    return RuntimeView(ModelId("m"), "s", "ready", slots=slots, ctx=ctx)


@pytest.mark.parametrize(
    ("runtime", "expected"),
    [
        (None, None),
        (view(), None),
        (view(50, ctx=0), None),
        (view(50, 0), 0.25),
        (view(100, 100), 1.0),
        (view(150), 1.0),
    ],
)
def test_kv_share(runtime: RuntimeView | None, expected: float | None) -> None:
    """Used cells over all cells; unknown stays unknown."""
    assert kv_share(runtime) == expected


@pytest.mark.parametrize(("own", "expected"), [(0, 3), (2, 2), (9, 3)])
def test_capacity(own: int, expected: int) -> None:
    """The smallest limit holds; a node that has not reported has no room."""
    node = Node(NodeId("a"), "a", "a-1", 0.0)
    one = offer("m", 4)
    node.offers = {one.model: one}
    assert capacity(node, one.model, own) == 0
    node.status = status(one, max_in_flight=3)
    assert capacity(node, one.model, own) == expected


def test_what_was_held_against_a_forgotten_node_is_forgotten_with_it() -> None:
    """Node ids that never come back leave nothing behind but the few that are remembered."""
    settings = FleetSettings(remembered_nodes=1, breaker_failures=1)
    registry, model = Registry(settings), ModelId("m")
    board = Board(settings, registry, Leases())
    for name in map(NodeId, ("a", "b")):
        registry.joined(name, name, f"{name}-1", 0.0)
        registry.reported(name, 1, status(), own=0)
        board.joined(name)
        board.no_room(name, model, 1.0)
        board.breakers.failed(name, model, 1.0)
        registry.left(name)
    assert board.breakers.state(NodeId("a"), model, 1.0) == "open"
    board.refresh(1.0)
    assert board.breakers.state(NodeId("a"), model, 1.0) == "closed"
    assert board.breakers.state(NodeId("b"), model, 1.0) == "open"
    board.room(NodeId("b"), model)
    board.breakers.joined(NodeId("b"))
    assert board.next_room_s(1.0) is None, "nobody is waited for"
