"""Nodes: joining, reporting, silence and being remembered."""

from __future__ import annotations

import msgspec

from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.snapshots import RuntimeView
from roost.fleet.nodes.registry import Registry
from roost.fleet.settings import FleetSettings
from tests.fleet.kit import offer, running, status

A, B, M = NodeId("a"), NodeId("b"), ModelId("m")


def registry(**changes: float) -> Registry:
    """A registry in which node a joined at time 0."""
    one = Registry(FleetSettings(**changes))  # type: ignore[arg-type]
    one.joined(A, "a", "a-1", 0.0)
    return one


def test_states_by_age_each_announced_once() -> None:
    """Two, five and fifteen seconds of silence; nothing is said twice."""
    one = registry()
    seen = [(t / 2, one.advance(t / 2)) for t in range(40)]
    assert [(t, changes) for t, changes in seen if changes] == [
        (2.0, [(A, "suspect")]),
        (5.0, [(A, "stale")]),
        (15.0, [(A, "dead")]),
    ]
    assert one.next_change_s() is None


def test_next_change_follows_what_was_heard() -> None:
    """The shell sleeps exactly until somebody would become suspect."""
    one = registry()
    assert one.next_change_s() == 2.0
    assert not one.heard(A, 1.0)
    assert one.next_change_s() == 3.0
    one.advance(3.0)
    assert one.next_change_s() == 6.0
    assert one.heard(A, 5.0)
    assert one.advance(5.0) == []


def test_own_stall_is_forgiven() -> None:
    """A tick that is late by a minute adds that minute to everybody's clock."""
    one = registry()
    one.joined(B, "b", "b-1", 1.5)
    assert one.advance(62.0) == [(A, "suspect")]
    node = one.get(B)
    assert node is not None
    assert one.state(node, 62.0) == "alive"


def test_status_counts_by_number_and_link() -> None:
    """An older number is ignored; a new link counts from the start."""
    one = registry()
    assert one.reported(A, 5, status(offer("m")), own=0)
    assert not one.reported(A, 4, status(offer("n")), own=0)
    assert not one.reported(A, 5, status(offer("n")), own=0)
    assert not one.reported(B, 1, status(), own=0)
    assert [node.id for node in one.serving(M)] == [A]
    assert one.joined(A, "a", "a-2", 1.0)
    assert not one.settled()
    assert one.knows(M)
    assert one.reported(A, 0, status(offer("n")), own=0)
    assert one.settled()
    assert one.serving(M) == []


def test_left_is_dead_and_remembered() -> None:
    """A model whose node left is known but not served; the node has to join again."""
    one = registry()
    one.reported(A, 0, status(), own=0)
    assert one.left(A)
    assert not one.left(A)
    assert one.knows(M)
    assert one.serving(M) == []
    assert not one.heard(A, 1.0)
    assert not one.reported(A, 1, status(), own=0)
    assert not one.joined(A, "a", "a-2", 2.0)


def test_memory_of_the_dead_is_bounded() -> None:
    """The oldest are forgotten first, by whatever way they went."""
    one = Registry(FleetSettings(remembered_nodes=2, stall_s=1000.0))
    for n in range(5):
        one.joined(NodeId(f"n{n}"), "n", "i", float(n))
        one.left(NodeId(f"n{n}"))
    assert [node.id for node in one.all()] == ["n3", "n4"]
    assert one.forgotten() == ["n0", "n1", "n2"]
    assert one.forgotten() == []
    one.joined(A, "a", "a-1", 10.0)
    one.advance(25.0)
    assert [node.id for node in one.all()] == ["n4", "a"]


def test_what_a_model_is_for_is_what_those_who_are_remembered_say() -> None:
    """Of all nodes, dead ones too, until they say something else or are forgotten."""
    one = registry(remembered_nodes=1)
    one.joined(B, "b", "b-1", 0.0)
    assert one.modes(M) == set()
    one.reported(A, 0, status(offer("m"), offer("n")), own=0)
    one.reported(B, 0, status(msgspec.structs.replace(offer("m"), mode="embed")), own=0)
    assert one.modes(M) == {"generate", "embed"}
    one.left(A)
    one.joined(A, "a", "a-2", 1.0)
    assert one.modes(M) == {"generate", "embed"}
    one.reported(A, 0, status(offer("n")), own=0)
    assert one.modes(M) == {"embed"}
    assert one.modes(ModelId("n")) == {"generate"}
    one.left(A)
    one.left(B)
    assert [node.id for node in one.all()] == [A]
    assert one.modes(M) == set()
    assert one.modes(ModelId("n")) == {"generate"}


def test_only_a_ready_runtime_is_a_runtime() -> None:
    """One that loads, failed or stops holds nobody's KV."""
    one = registry()
    node = one.get(A)
    assert node is not None
    assert not node.draining
    assert node.runtime(M) is None
    one.reported(A, 0, status(runtimes=(RuntimeView(M, "s", "loading", RuntimeId("x")),)), own=0)
    assert node.runtime(M) is None
    one.reported(A, 1, status(runtimes=(running("x"),)), own=0)
    assert node.runtime(M) == "x"
