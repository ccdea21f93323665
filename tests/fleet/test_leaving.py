"""Nodes that are being left: who they are, and when they are told that nobody comes back."""

from __future__ import annotations

from msgspec import structs

from roost.core.ids import NodeId, RequestId, TenantId
from roost.core.pin import Pin
from roost.core.request import Terms
from roost.fleet.effects import Dispatch, Report, Vacate
from tests.fleet.kit import MODEL, Fleet, of, status

A, B = NodeId("a"), NodeId("b")
UNDERSTANDS = structs.replace(status(), vacant=False)


def test_who_is_being_left_is_known_however_it_came_to_that() -> None:
    """By an operator, or because the node itself ends; also when it has ended."""
    fleet = Fleet()
    fleet.join("a", "b", "c")
    assert fleet.machine.leaving() == ()
    fleet.machine.on_drain_node(A, fleet.now)
    fleet.report("b", status(draining=True))
    assert fleet.machine.leaving() == (A, B)
    fleet.leave("b")
    assert fleet.machine.leaving() == (A, B)
    fleet.machine.on_undrain_node(A, fleet.now)
    assert fleet.machine.leaving() == (B,)


def test_a_drained_node_is_told_once_and_told_again_when_it_is_back() -> None:
    """Whoever reconnects has not heard it; whoever is undrained hears the contrary."""
    fleet = Fleet()
    fleet.join("a", report=UNDERSTANDS)
    assert fleet.machine.on_handed_over(A) == [], "nobody has drained it"
    fleet.machine.on_drain_node(A, fleet.now)
    told = fleet.machine.on_handed_over(A)
    assert of(told, Vacate) == [Vacate(A, vacant=True)]
    assert [report.reason for report in of(told, Report)] == ["handed_over"]
    assert fleet.machine.on_handed_over(A) == []
    fleet.leave("a")
    assert fleet.machine.on_handed_over(A) == []
    fleet.join("a", report=UNDERSTANDS)
    assert of(fleet.machine.on_handed_over(A), Vacate) == [Vacate(A, vacant=True)]
    assert of(fleet.machine.on_undrain_node(A, fleet.now), Vacate) == [Vacate(A, vacant=False)]
    assert of(fleet.machine.on_undrain_node(A, fleet.now), Vacate) == []


def test_a_node_that_does_not_understand_is_not_told() -> None:
    """One that has not reported, one of an older version, one that nobody knows."""
    fleet = Fleet()
    fleet.machine.on_node_joined(A, "a", "a-1", fleet.now)
    fleet.machine.on_drain_node(A, fleet.now)
    assert fleet.machine.on_handed_over(A) == []
    fleet.report("a", status())
    assert fleet.machine.on_handed_over(A) == []
    assert fleet.machine.on_handed_over(B) == []


def test_a_turn_after_a_handover_is_told_of_it() -> None:
    """Its home is not where its client left it; where that does not matter, nothing is said."""
    fleet = Fleet()
    fleet.join("a", "b")
    moved = Pin(B, MODEL, 9, "home_drained")
    for request, pin, told in (
        ("r1", moved, ("moved", "home_drained")),
        ("r2", Pin(B, MODEL, 9), ("warm", "home")),
    ):
        terms = Terms(RequestId(request), TenantId("t"), pin=pin)
        (sent,) = of(fleet.machine.on_request(terms, MODEL, fleet.now), Dispatch)
        assert (sent.node, sent.placement, sent.why) == (B, *told)
        receipt = fleet.machine.receipt(RequestId(request), fleet.now)
        assert receipt is not None
        assert (receipt.attempts[0].placement, receipt.attempts[0].why) == told
