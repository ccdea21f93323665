"""The coordinator's admission, line, deadlines and views, one situation at a time."""

from __future__ import annotations

import random

import msgspec
import pytest

from roost.core.ids import ModelId, NodeId, RequestId
from roost.fleet.coordinator import Coordinator
from roost.fleet.effects import Answer, Dispatch, Waiting, Withdraw
from roost.fleet.settings import FleetSettings
from tests.fleet.kit import (
    FINISHED,
    MODEL,
    Fleet,
    dispatched,
    idle,
    of,
    offer,
    reasons,
    status,
)

A, B = NodeId("a"), NodeId("b")


def test_a_request_is_dispatched_and_its_place_returns() -> None:
    """The plain course: chosen, leased, finished, released."""
    fleet = Fleet()
    fleet.join("a")
    (first,) = of(fleet.ask("r"), Dispatch)
    assert (first.request, first.attempt, first.node) == (RequestId("r"), 1, A)
    assert (first.placement, first.why, first.queued_s) == ("cold", "no_home", 0.0)
    assert (first.deadline_s, first.candidates, first.runner_up) == (None, 1, None)
    assert fleet.machine.statistics().leases == 1
    fleet.start("r")
    fleet.token("r")
    assert fleet.finish("r") == []
    idle(fleet)
    counts = fleet.machine.statistics()
    assert (counts.requests, counts.dispatched, counts.finished) == (1, 1, 1)


def test_a_place_is_free_only_when_the_node_says_so() -> None:
    """Between the last event and Released the slot may still be in use."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    fleet.ask("r1")
    assert of(fleet.ask("r2"), Waiting) == [Waiting(RequestId("r2"), 1, 1)]
    assert fleet.machine.on_finished(RequestId("r1"), 1, FINISHED, "yes", fleet.now) == []
    assert dispatched(fleet.free("r1")) == [("r2", "a")]


@pytest.mark.parametrize(
    ("slots", "node_limit", "own_limit", "expected"),
    [(4, 8, 0, 4), (4, 3, 0, 3), (4, 8, 2, 2), (1, 8, 2, 1), (4, 0, 0, 0)],
)
def test_capacity_is_the_smallest_limit(
    slots: int, node_limit: int, own_limit: int, expected: int
) -> None:
    """Slots, the node's own limit and the gateway's: the smallest one holds."""
    fleet = Fleet(FleetSettings(max_in_flight=own_limit))
    fleet.join("a", report=status(offer(slots=slots), max_in_flight=node_limit))
    started = [fleet.ask(f"r{n}") for n in range(6)]
    assert sum(len(of(effects, Dispatch)) for effects in started) == expected


def test_queue_is_first_come_first_served() -> None:
    """Places go to those who waited longest."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    for name in ("r1", "r2", "r3"):
        fleet.ask(name)
    assert dispatched(fleet.finish("r1")) == [("r2", "a")]
    assert dispatched(fleet.finish("r2")) == [("r3", "a")]


def test_a_full_model_does_not_block_another() -> None:
    """The head of the line waits for its own model only."""
    fleet = Fleet()
    fleet.join("a", report=status(offer("m", 1), offer("n", 1)))
    fleet.ask("m1")
    assert dispatched(fleet.ask("m2")) == []
    assert dispatched(fleet.ask("n1", "n")) == [("n1", "a")]
    assert fleet.machine.statistics().waiting_by_model == {MODEL: 1}


def test_what_a_model_is_for_is_asked_of_whoever_joins_later() -> None:
    """A node whose model of that name makes vectors gets no chat, and no other one vectors."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    fleet.ask("r1")
    assert dispatched(fleet.ask("r2")) == []
    embedder = msgspec.structs.replace(offer(slots=1), mode="embed")
    assert dispatched(fleet.join("b", report=status(embedder))) == []
    assert dispatched(fleet.finish("r1")) == [("r2", "a")]
    fleet.leave("b")
    fleet.join("b", report=status(offer(slots=1)))
    assert dispatched(fleet.ask("r3")) == [("r3", "b")]


def test_positions_are_told_again_when_they_change() -> None:
    """A client in line hears where it stands, at most once a second."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    for name in ("r1", "r2", "r3"):
        fleet.ask(name)
    fleet.gone("r2")
    assert of(fleet.wait(1.5, "a"), Waiting) == [Waiting(RequestId("r3"), 1, 1)]
    assert of(fleet.wait(3.0, "a"), Waiting) == []


def test_queue_full_is_refused_with_a_measured_hint() -> None:
    """Before anything was measured the hint is the default, afterwards it follows the rate."""
    fleet = Fleet(FleetSettings(queue_length=1))
    fleet.join("a", report=status(offer(slots=1)))
    fleet.ask("r1")
    fleet.ask("r2")
    (answer,) = of(fleet.ask("r3"), Answer)
    assert (answer.failure.reason, answer.failure.status) == ("queue_full", 429)
    assert answer.failure.retry_after_s == fleet.settings.retry_after_default_s
    for n in range(20):
        fleet.wait(2.0, "a")
        fleet.finish(f"r{n + 1}" if n < 2 else f"s{n - 1}")
        fleet.ask(f"s{n + 1}")
    (answer,) = of(fleet.ask("r4"), Answer)
    # One place every two seconds, and two requests ahead (one waits, the asker would be second).
    assert answer.failure.retry_after_s is not None
    assert 4 <= answer.failure.retry_after_s <= 6


def test_no_queue_refuses_at_once() -> None:
    """`queue_length` 0 means that what cannot start now is refused now."""
    fleet = Fleet(FleetSettings(queue_length=0))
    fleet.join("a", report=status(offer(slots=1)))
    assert dispatched(fleet.ask("r1")) == [("r1", "a")]
    assert reasons(fleet.ask("r2")) == [("r2", "queue_full")]
    assert reasons(fleet.refuse("r1")) == [("r1", "node_busy")]
    idle(fleet)


def test_unknown_model_names_it() -> None:
    """404 in words that clients recognise, once the fleet has said what it has."""
    fleet = Fleet()
    fleet.join("a")
    (answer,) = of(fleet.ask("r", "ghost"), Answer)
    assert answer.failure.reason == "model_not_found"
    assert answer.failure.param == "model"
    assert "The model `ghost` does not exist" in answer.failure.message


@pytest.mark.parametrize("joined", [False, True])
def test_nobody_has_reported_yet_is_503_and_not_404(joined: bool) -> None:
    """Nobody may say that a model does not exist before the nodes have said what they have."""
    fleet = Fleet()
    if joined:
        fleet.machine.on_node_joined(A, "a", "a-1", fleet.now)
    (answer,) = of(fleet.ask("r"), Answer)
    assert (answer.failure.reason, answer.failure.status) == ("no_nodes", 503)
    assert answer.failure.retry_after_s is not None


def test_known_model_whose_nodes_are_down_is_503() -> None:
    """A model does not cease to exist because its node did."""
    fleet = Fleet()
    fleet.join("a")
    fleet.join("b", report=status(offer("n")))
    fleet.leave("a")
    assert reasons(fleet.ask("r")) == [("r", "no_nodes")]


def test_those_who_wait_for_lost_nodes_are_told() -> None:
    """When the last node of a model leaves, its line does not wait for the timeout."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    fleet.ask("r1")
    fleet.ask("r2")
    assert reasons(fleet.leave("a")) == [("r1", "node_lost"), ("r2", "no_nodes")]
    idle(fleet)


def test_draining_gateway_refuses_new_and_serves_old() -> None:
    """Drain loses nothing that was accepted."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    fleet.ask("r1")
    fleet.ask("r2")
    assert fleet.machine.on_drain(fleet.now) == []
    assert reasons(fleet.ask("r3")) == [("r3", "draining")]
    assert dispatched(fleet.finish("r1")) == [("r2", "a")]
    assert not fleet.machine.ready(fleet.now)


def test_draining_node_gets_nothing_new() -> None:
    """A node on its way out finishes what it has."""
    fleet = Fleet()
    fleet.join("a", "b")
    fleet.report("a", status(draining=True))
    assert {node for n in range(4) for _, node in dispatched(fleet.ask(f"r{n}"))} == {"b"}


def test_queue_wait_ends_in_429() -> None:
    """Nobody waits longer than the setting says."""
    fleet = Fleet(FleetSettings(queue_wait_s=10.0))
    fleet.join("a", report=status(offer(slots=1)))
    fleet.ask("r1")
    fleet.ask("r2")
    assert reasons(fleet.wait(9.9, "a")) == []
    (answer,) = of(fleet.wait(0.2, "a"), Answer)
    assert (answer.request, answer.failure.status) == ("r2", 429)
    assert answer.failure.reason == "queue_timeout"
    assert answer.failure.retry_after_s is not None


def test_own_deadline_ends_a_waiting_and_a_running_request() -> None:
    """A deadline takes a request out of the line, and withdraws it from its node."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    assert of(fleet.ask("r1", timeout_s=5.0), Dispatch)[0].deadline_s == 5.0
    fleet.ask("r2", timeout_s=3.0)
    assert reasons(fleet.wait(4.0, "a")) == [("r2", "deadline")]
    effects = fleet.wait(1.5, "a")
    assert reasons(effects) == [("r1", "deadline")]
    assert of(effects, Withdraw) == [Withdraw(RequestId("r1"), 1, A)]
    assert fleet.machine.statistics().leases == 1
    fleet.free("r1")
    idle(fleet)


def test_a_deadline_that_has_passed_never_reaches_a_node() -> None:
    """No time left means no work begun, also when the tick is late."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    assert reasons(fleet.ask("r0", timeout_s=0.0)) == [("r0", "deadline")]
    fleet.ask("r1")
    fleet.ask("r2", timeout_s=1.0)
    fleet.now += 1.5
    assert reasons(fleet.finish("r1")) == [("r2", "deadline")]


def test_both_timers_in_one_tick_answer_once() -> None:
    """A request whose queue time and deadline end together has one ending."""
    fleet = Fleet(FleetSettings(queue_wait_s=2.0))
    fleet.join("a", report=status(offer(slots=1)))
    fleet.ask("r1")
    fleet.ask("r2", timeout_s=2.0)
    assert len(reasons(fleet.wait(2.5, "a"))) == 1


def test_client_gone_while_waiting_and_while_running() -> None:
    """The line closes up at once; a running attempt is withdrawn and keeps its lease till free."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    fleet.ask("r1")
    fleet.ask("r2")
    fleet.ask("r3")
    assert fleet.gone("r2") == []
    assert fleet.gone("r1") == [Withdraw(RequestId("r1"), 1, A)]
    assert dispatched(fleet.free("r1")) == [("r3", "a")]
    assert fleet.gone("r1") == []
    assert fleet.machine.statistics().clients_gone == 2


def test_views_show_the_fleet() -> None:
    """What people see: nodes with state and load, models once each, usable ones first."""
    fleet = Fleet()
    fleet.join("a", report=status(offer("m", usable=False), offer("n")))
    fleet.join("b", report=status(offer("m"), offer("n")))
    fleet.ask("r")
    views = fleet.machine.fleet()
    assert [(view.id, view.state, view.in_flight) for view in views] == [
        ("a", "alive", 0),
        ("b", "alive", 1),
    ]
    assert [(one.model, one.usable) for one in fleet.machine.models()] == [
        (ModelId("m"), True),
        (ModelId("n"), True),
    ]
    assert fleet.machine.node(B) == views[1]
    assert fleet.machine.node(NodeId("c")) is None
    fleet.leave("b")
    assert [one.usable for one in fleet.machine.models()] == [False, True]
    assert fleet.machine.node(B) == fleet.machine.fleet()[1]


def test_models_are_gathered_anew_where_what_is_offered_has_changed_and_only_there() -> None:
    """By a report that says so, a node that comes, leaves or dies: at once, whatever it is."""
    fleet = Fleet()

    def models() -> list[str]:
        return [str(one.model) for one in fleet.machine.models()]

    assert models() == []
    fleet.join("a", report=status(offer("m"), offer("n")))
    fleet.join("b", report=status(offer("o")))
    assert models() == ["m", "n", "o"]
    before = fleet.machine.models()
    fleet.report("b", status(offer("o")))
    fleet.ask("r")
    assert fleet.machine.models() is before
    fleet.report("b", status(offer("p", usable=False)))
    assert models() == ["m", "n", "p"]
    fleet.report("b", status(offer("p")))
    assert all(one.usable for one in fleet.machine.models())
    fleet.leave("a")
    assert models() == ["p"]
    fleet.machine.on_node_joined(A, "a", "a-2", fleet.now)
    # Until it reports, it is believed to have what it had.
    assert models() == ["m", "n", "p"]
    fleet.wait(fleet.settings.link_dead_s + 1, "a")
    assert models() == ["m", "n"]


def test_ticks_are_asked_for_when_something_is_due() -> None:
    """With nothing to wait for the machine sleeps; otherwise it names the next deadline."""
    machine = Coordinator(FleetSettings(), random.Random(1))
    assert machine.next_tick(5.0) == 30.0
    machine.on_node_joined(A, "a", "a-1", 5.0)
    assert machine.next_tick(5.5) == pytest.approx(1.5)
    assert machine.next_tick(50.0) == pytest.approx(0.001)
