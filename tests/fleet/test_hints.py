"""What is odd in the fleet: in words, since when, and told when it begins and ends."""

from __future__ import annotations

import msgspec

from roost.core.about import RuntimeVitals
from roost.core.events import Started
from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.snapshots import RuntimeView, SlotView
from roost.fleet.watching.hints import Hint, Hints
from roost.fleet.watching.views import NodeView
from tests.fleet.test_cache_misses import TURN, sent

M = ModelId("m")


def node(name: str, vitals: RuntimeVitals | None = None, *, draining: bool = False) -> NodeView:
    """A node with a runtime of the model that has been there for long."""
    slots = tuple(SlotView(n, busy=False, tokens=0) for n in range(4))
    view = RuntimeView(
        M, "toy", "ready", RuntimeId(f"r-{name}"), slots, resident_s=9999.0, vitals=vitals
    )
    return NodeView(NodeId(name), name, "alive", 0, draining, runtimes=(view,), reported=True)


def test_what_nodes_find_is_shown_with_since_when() -> None:
    """It stays the same hint while it lasts, and nodes log it themselves."""
    hints = Hints()
    odd, well = node("a", RuntimeVitals(anomalies=("slow_decode",))), node("a")
    assert hints.on_look([odd], 1.0, 1000) == []
    assert hints.on_look([odd], 2.0, 2000) == []
    (hint,) = hints.hints()
    assert (hint.kind, hint.node, hint.model, hint.since_ms) == ("slow_decode", "a", "m", 1000)
    assert hint.text == "answers come at less than half of its usual pace"
    assert hints.on_look([well], 3.0, 3000) == []
    assert hints.hints() == ()
    gone = msgspec.structs.replace(odd, state="dead")
    hints.on_look([gone], 4.0, 4000)
    assert hints.hints() == ()


def test_a_node_that_is_passed_over_is_told_once_and_when_it_is_over() -> None:
    """With the figures that say so; one that is drained is no wonder."""
    hints = Hints()
    for second in range(64):
        hints.picks.on_pick(M, NodeId("a"), 2, 1, float(second))
    ((hint, begins),) = hints.on_look([node("a"), node("b")], 64.0, 5000)
    assert begins
    assert hint == Hint(
        "uneven_picks",
        "passed over: 0 of the last 64 picks, 32 were due by its slots, and its pace does not "
        "explain it",
        NodeId("b"),
        M,
        5000,
    )
    assert hints.on_look([node("a"), node("b")], 65.0, 6000) == []
    ((over, begins),) = hints.on_look([node("a"), node("b", draining=True)], 66.0, 7000)
    assert (over, begins) == (hint, False)


def test_pasts_that_are_computed_again_are_told_with_the_reason() -> None:
    """Of a model, on whichever node."""
    hints = Hints()
    for _ in range(20):
        hints.misses.on_started(M, TURN, sent("cold"), Started(1000, 212, 0))
    ((hint, begins),) = hints.on_look([], 1.0, 1000)
    assert begins
    assert (hint.kind, hint.node, hint.model) == ("low_cache", None, M)
    assert hint.text == (
        "20 of the last 20 turns computed their past again, mostly: diverged at token 212"
    )
