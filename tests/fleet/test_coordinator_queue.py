"""The coordinator's line: who is told what, who is refused, and how soon it foretells a place."""

from __future__ import annotations

import pytest

from roost.core.events import Finished, Usage
from roost.core.ids import RequestId, TenantId
from roost.core.request import ServiceClass, Terms
from roost.fleet.effects import Answer, Effect, Waiting
from roost.fleet.settings import FleetSettings
from tests.fleet.kit import MODEL, Fleet, dispatched, idle, of, offer, reasons, status


def ask(
    fleet: Fleet, name: str, tenant: str = "t", class_: ServiceClass = "interactive"
) -> list[Effect]:
    """Let a tenant's request arrive."""
    terms = Terms(RequestId(name), TenantId(tenant), class_=class_, prompt_tokens=10, max_tokens=10)
    return fleet.machine.on_request(terms, MODEL, fleet.now)


def alone(queue_length: int = 8) -> Fleet:
    """A fleet of one place."""
    fleet = Fleet(FleetSettings(queue_length=queue_length))
    fleet.join("a", report=status(offer(slots=1)))
    return fleet


def test_tenants_take_turns() -> None:
    """One who asks ten times gets no more of a full fleet than one who asks twice."""
    fleet = alone(20)
    for n in range(10):
        ask(fleet, f"f{n}", "flood")
    for n in range(2):
        ask(fleet, f"x{n}", "other")
    order, running = [], "f0"
    for _ in range(4):
        ((running, _),) = dispatched(fleet.finish(running))
        order.append(running[0])
    assert order.count("x") == 2


def test_the_flood_gives_way_when_the_line_is_full() -> None:
    """A newcomer is not refused for what somebody else has piled up."""
    fleet = alone(3)
    for n in range(4):
        ask(fleet, f"f{n}", "flood")
    effects = ask(fleet, "x", "other")
    (answer,) = of(effects, Answer)
    assert (answer.request, answer.failure.reason) == ("f3", "queue_full")
    assert "3 requests wait" in answer.failure.message
    assert [one.request for one in of(effects, Waiting)] == ["x"]
    assert reasons(ask(fleet, "f9", "flood")) == [("f9", "queue_full")]


def test_eta_follows_the_measured_rate_and_deadlines_are_checked_against_it() -> None:
    """A place every two seconds: third in line waits six, and who has too little time hears so."""
    fleet = alone()
    ask(fleet, "r0")
    ask(fleet, "r1")
    for n in range(20):
        fleet.wait(2.0, "a")
        fleet.finish(f"r{n}")
        ask(fleet, f"r{n + 2}")
    ask(fleet, "second")
    (told,) = of(ask(fleet, "third"), Waiting)
    assert (told.position, told.length) == (3, 3)
    assert told.eta_s == pytest.approx(6.0, rel=0.2)
    (answer,) = of(fleet.ask("hurried", timeout_s=1.0), Answer)
    assert (answer.failure.reason, answer.failure.status) == ("deadline", 504)
    assert answer.failure.retry_after_s is not None
    assert of(fleet.ask("patient", timeout_s=30.0), Waiting) != []


def test_the_line_can_be_seen() -> None:
    """Order, shares, what each will cost, and no text of anybody."""
    fleet = alone()
    ask(fleet, "r0")
    ask(fleet, "slow", class_="bulk")
    ask(fleet, "quick")
    fleet.now += 1.5
    first, second = fleet.machine.queue(fleet.now)
    assert (first.request, first.position, first.class_) == ("quick", 1, "interactive")
    assert (second.request, second.position, second.waited_s) == ("slow", 2, 1.5)
    assert (first.cost_tokens, first.eta_s, first.left_s) == (20, None, None)


def test_bulk_gets_its_place_in_eight() -> None:
    """However many better ones wait."""
    fleet = alone(40)
    ask(fleet, "i0")
    ask(fleet, "bulk", class_="bulk")
    for n in range(1, 30):
        ask(fleet, f"i{n}")
    running, order = "i0", []
    for _ in range(9):
        ((running, _),) = dispatched(fleet.finish(running))
        order.append(running)
    assert order.index("bulk") <= 8


def test_what_was_saved_or_overspent_is_settled_at_the_end() -> None:
    """A tenant whose answers turn out long pays with its next turns."""
    fleet = alone(40)
    for n in range(4):
        ask(fleet, f"a{n}", "a")
        ask(fleet, f"b{n}", "b")
    usage = Usage(10, 0, 500)
    fleet.machine.on_finished(RequestId("a0"), 1, Finished("length", usage), "long", fleet.now)
    ((first, _),) = dispatched(fleet.free("a0"))
    ((second, _),) = dispatched(fleet.finish(first))
    assert (first[0], second[0]) == ("b", "b")


def test_a_refused_flood_leaves_nothing() -> None:
    """At ten times too many, what is refused is gone at once."""
    fleet = alone(2)
    for n in range(50):
        ask(fleet, f"r{n}", f"t{n % 7}")
    assert fleet.machine.statistics().waiting == 2
    running = "r0"
    while fleet.machine.statistics().running:
        placed = dispatched(fleet.finish(running))
        running = placed[0][0] if placed else running
    idle(fleet)
