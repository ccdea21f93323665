"""Stages: who runs a model, who is about to, and whom that keeps from loading it."""

from __future__ import annotations

import pytest

from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.snapshots import LoadView, NoRoom, RuntimeState, RuntimeView
from roost.fleet.field import Stage
from roost.fleet.models.stages import Stages, has_no_room, stage_of
from roost.fleet.nodes.registry import Node

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
M = ModelId("m")


def test_one_load_shuts_the_others_and_a_ready_runtime_shuts_loads() -> None:
    """Nobody starts a second load, and nobody waits for a load where somebody is ready."""
    stages = Stages(replicas=1)
    assert not stages.note(A, "cold")
    assert (stages.empty, dict(stages.gate)) == (True, {})
    assert stages.note(B, "coming")
    assert (stages.empty, dict(stages.gate)) == (False, {"cold": "cold"})
    assert stages.note(B, "ready")
    assert dict(stages.gate) == {"cold": "cold", "coming": "loading"}
    assert not stages.note(C, "ready")
    assert not stages.note(B, None)
    assert stages.note(C, None)
    assert (stages.empty, dict(stages.gate)) == (True, {})


def test_as_many_loads_as_are_allowed() -> None:
    """Two may load at a time where two replicas are."""
    stages = Stages(replicas=2)
    stages.note(A, "coming")
    assert dict(stages.gate) == {}
    stages.note(B, "coming")
    assert dict(stages.gate) == {"cold": "cold"}


def test_without_a_limit_nobody_is_shut() -> None:
    """0 lets every node load."""
    stages = Stages(replicas=0)
    assert not stages.note(A, "ready")
    assert (stages.empty, dict(stages.gate)) == (False, {})


def node(state: RuntimeState | None, load: LoadView | None = None) -> Node:
    """A node with a runtime in that state, or none."""
    made = Node(A, "a", "a-1", 0.0)
    if state is not None:
        made.runtimes = {M: RuntimeView(M, "scripted", state, RuntimeId("m#1"))}
    if load is not None:
        made.crowded = {M: load}
    return made


@pytest.mark.parametrize(
    ("state", "asked", "stage"),
    [
        (None, False, "cold"),
        (None, True, "coming"),
        ("absent", True, "coming"),
        ("loading", False, "coming"),
        ("ready", True, "ready"),
        ("failed", False, "cold"),
        ("stopping", True, "cold"),
    ],
)
def test_a_runtime_comes_where_it_loads_or_was_asked_for(
    state: RuntimeState | None, asked: bool, stage: Stage
) -> None:
    """A report may be older than what was sent; what stops makes room for somebody else."""
    assert stage_of(node(state), M, asked=asked) == stage


@pytest.mark.parametrize(
    ("why", "in_s", "expected"),
    [("busy", None, True), ("leaving", None, True), ("young", 2.0, False), ("", None, False)],
)
def test_room_is_missing_where_nobody_knows_when(
    why: NoRoom, in_s: float | None, expected: bool
) -> None:
    """A wait of known length has a price; one of unknown length is no place to send anybody."""
    assert has_no_room(node(None, LoadView(M, (), why, in_s)), M) is expected
    assert not has_no_room(node(None), M)
    assert has_no_room(node("stopping"), M)
