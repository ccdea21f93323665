"""Load times: learned once per load, by node and model, and guessed by size where unknown."""

from __future__ import annotations

import msgspec

from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.snapshots import NodeStatus, RuntimeView
from roost.fleet.models.loads import PLACES, UNKNOWN_S, Loads
from tests.fleet.kit import offer, status

A, B = NodeId("a"), NodeId("b")
M, N = ModelId("m"), ModelId("n")


def loaded(runtime: str, load_s: float, model: str = "m", size_bytes: int = 0) -> NodeStatus:
    """A report of one runtime that is ready."""
    name = RuntimeId(runtime)
    view = RuntimeView(ModelId(model), "scripted", "ready", name, load_s=load_s)
    sized = msgspec.structs.replace(offer(model), size_bytes=size_bytes)
    return status(sized, runtimes=(view,))


def test_nothing_known_is_a_guess() -> None:
    """A guess beats 0, which would make every load look free."""
    assert Loads().predict_s(A, M, 0) == UNKNOWN_S
    assert Loads().predict_s(A, M, 10**9) == UNKNOWN_S


def test_a_load_counts_once_however_often_it_is_reported() -> None:
    """The mean is over loads, not over reports."""
    loads = Loads()
    for _ in range(5):
        loads.reported(A, loaded("m#1", 2.0))
    loads.reported(A, loaded("m#2", 4.0))
    assert loads.predict_s(A, M, 0) == 3.0


def test_the_same_model_elsewhere_then_its_size_at_the_nodes_own_speed() -> None:
    """The nearest knowledge counts: this node and model, the model, the node, the fleet."""
    loads = Loads()
    loads.reported(A, loaded("m#1", 2.0, "m", size_bytes=1000))
    loads.reported(B, loaded("n#1", 8.0, "n", size_bytes=1000))
    assert loads.predict_s(A, M, 1000) == 2.0
    assert loads.predict_s(B, M, 1000) == 2.0
    other = ModelId("other")
    assert loads.predict_s(A, other, 500) == 1.0
    assert loads.predict_s(B, other, 500) == 4.0
    assert loads.predict_s(NodeId("c"), other, 1000) == 5.0
    assert loads.predict_s(A, other, 0) == UNKNOWN_S


def test_a_node_that_begins_anew_is_not_what_it_was() -> None:
    """Its own figures are forgotten; what it taught about the model stays."""
    loads = Loads()
    loads.reported(A, loaded("m#1", 2.0))
    loads.joined(A)
    assert loads.predict_s(A, M, 0) == 2.0
    loads.reported(A, loaded("m#1", 6.0))
    assert loads.predict_s(A, M, 0) == 6.0
    assert len(loads) == 1


def test_memory_is_bounded() -> None:
    """The oldest go, and with the last of a model what was known of it."""
    loads = Loads()
    for number in range(PLACES + 10):
        loads.reported(A, loaded("x#1", 2.0, f"m{number}"))
    assert len(loads) == PLACES
    assert loads.predict_s(B, ModelId("m0"), 0) == UNKNOWN_S
    assert loads.predict_s(B, ModelId("m10"), 0) == 2.0


def test_loads_that_are_not_over_teach_nothing() -> None:
    """Only a runtime that is ready has a load to tell of."""
    loads = Loads()
    view = RuntimeView(M, "scripted", "loading", RuntimeId("m#1"), load_s=1.0)
    loads.reported(A, status(runtimes=(view,)))
    assert len(loads) == 0
