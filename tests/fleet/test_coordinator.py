"""The coordinator's decisions, one situation at a time."""

from __future__ import annotations

import random

import pytest

from roost.core.ids import ModelId, NodeId, RequestId, TenantId
from roost.core.request import Message
from roost.core.snapshots import NodeStatus
from roost.errors import Failure
from roost.fleet.affinity import chain, extend
from roost.fleet.coordinator import Coordinator
from roost.fleet.effects import Answer, Disconnect, Dispatch, Report, Waiting, Withdraw
from roost.fleet.settings import FleetSettings
from tests.fleet.kit import (
    BUSY,
    DIED,
    FINISHED,
    MODEL,
    Fleet,
    dispatched,
    of,
    offer,
    reasons,
    running,
    status,
)

A, B = NodeId("a"), NodeId("b")


def idle(fleet: Fleet) -> None:
    """Assert that nothing is left of anything."""
    now = fleet.machine.statistics()
    assert (now.waiting, now.running, now.leases) == (0, 0, 0)


def test_a_request_is_dispatched_and_its_place_returns() -> None:
    """The plain course: chosen, leased, finished, released."""
    fleet = Fleet()
    fleet.join("a")
    assert fleet.ask("r") == [
        Dispatch(RequestId("r"), 1, A, "cold", "no_home", queued_s=0.0, deadline_s=None)
    ]
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


def test_runtime_death_before_a_byte_is_retried_elsewhere() -> None:
    """Somebody else can: the client never hears of it."""
    fleet = Fleet()
    fleet.join("a", "b")
    ((_, first),) = dispatched(fleet.ask("r"))
    effects = fleet.fail("r")
    ((_, second),) = dispatched(effects)
    assert {first, second} == {"a", "b"}
    (report,) = of(effects, Report)
    assert (report.event, report.reason) == ("request_retried", "runtime_died")
    assert of(effects, Dispatch)[0].attempt == 2


def test_nothing_is_retried_after_the_first_byte() -> None:
    """A second answer could contradict the first words of the first one."""
    fleet = Fleet()
    fleet.join("a", "b")
    fleet.ask("r")
    fleet.token("r")
    assert reasons(fleet.fail("r")) == [("r", "runtime_died")]


def test_alone_a_failed_node_is_not_asked_again() -> None:
    """With nobody else the failure is the answer, at once."""
    fleet = Fleet()
    fleet.join("a")
    fleet.ask("r")
    assert reasons(fleet.fail("r")) == [("r", "runtime_died")]


def test_attempts_are_limited() -> None:
    """Three failures end a request, however many nodes are left."""
    fleet = Fleet()
    fleet.join("a", "b", "c", "d")
    fleet.ask("r")
    assert len(dispatched(fleet.fail("r", 1))) == 1
    assert len(dispatched(fleet.fail("r", 2))) == 1
    assert reasons(fleet.fail("r", 3)) == [("r", "runtime_died")]


def test_retry_budget_is_the_fleets() -> None:
    """Three retries in ten seconds, then failures are answered, then the budget is back."""
    fleet = Fleet()
    fleet.join("a", "b", report=status(offer(slots=8)))
    for n in range(4):
        fleet.ask(f"r{n}")
    assert [len(dispatched(fleet.fail(f"r{n}"))) for n in range(4)] == [1, 1, 1, 0]
    fleet.wait(10.1, "a", "b")
    fleet.ask("late")
    assert len(dispatched(fleet.fail("late"))) == 1


def test_a_callers_mistake_is_answered_at_once() -> None:
    """What would fail everywhere is tried nowhere else."""
    fleet = Fleet()
    fleet.join("a", "b")
    fleet.ask("r")
    mistake = Failure("context_length_exceeded", "Too long.")
    assert reasons(fleet.refuse("r", failure=mistake)) == [("r", "context_length_exceeded")]
    idle(fleet)


def test_busy_node_sends_the_request_elsewhere_without_a_retry() -> None:
    """Lack of room is no failure: no budget is used and the other node serves."""
    fleet = Fleet()
    fleet.join("a", "b")
    ((_, first),) = dispatched(fleet.ask("r"))
    ((_, second),) = dispatched(fleet.refuse("r"))
    assert first != second
    counts = fleet.machine.statistics()
    assert (counts.bounced, counts.retried) == (1, 0)


def test_busy_node_is_left_alone_for_longer_each_time() -> None:
    """A lone full node is asked again and again, ever more rarely, and not for ever."""
    fleet = Fleet(FleetSettings(queue_wait_s=600.0))
    fleet.join("a")
    fleet.ask("r")
    gaps = []
    for attempt in range(1, fleet.settings.busy_bounces + 1):
        assert dispatched(fleet.refuse("r", attempt)) == []
        begin = fleet.now
        while not dispatched(fleet.wait(0.05, "a")):
            fleet.hear("a")
        gaps.append(fleet.now - begin)
    assert gaps == pytest.approx([0.25, 0.5, 1, 2, 4, 8, 8, 8], abs=0.06)
    (answer,) = of(fleet.refuse("r", fleet.settings.busy_bounces + 1), Answer)
    assert answer.failure.reason == "node_busy"
    assert answer.failure.retry_after_s is not None


def test_bounced_request_keeps_its_turn() -> None:
    """It waited before those behind it and goes back in front of them."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=2)))
    fleet.ask("r1")
    fleet.ask("r2")
    fleet.ask("r3")
    fleet.refuse("r1")
    assert dispatched(fleet.wait(1.0, "a")) == [("r1", "a")]


def test_load_failure_goes_elsewhere_or_is_told() -> None:
    """Another node may have the model in one piece; alone, the reason is the answer."""
    broken = Failure("load_failed", "The file is damaged.")
    fleet = Fleet()
    fleet.join("a", "b")
    fleet.ask("r")
    assert len(dispatched(fleet.refuse("r", failure=broken))) == 1
    assert reasons(fleet.refuse("r", 2, failure=broken)) == [("r", "load_failed")]


def test_a_retry_is_not_stuck_behind_a_full_fleet() -> None:
    """Who was failed by the free node is passed over; who was not takes its place."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    fleet.ask("r1")
    fleet.ask("r2")
    fleet.ask("r3")
    fleet.join("b", report=status(offer(slots=1)))
    # r1 runs on a, r2 on b. r1 fails on a and has to wait for b, so a's place goes to r3.
    fleet.fail("r1")
    assert dispatched(fleet.free("r1")) == [("r3", "a")]
    assert dispatched(fleet.finish("r2")) == [("r1", "b")]


def test_when_the_last_hope_of_a_retry_leaves_it_hears_the_first_failure() -> None:
    """Waiting for a node that is gone would only end in a timeout that explains nothing."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    fleet.ask("r1")
    fleet.join("b", report=status(offer(slots=1)))
    fleet.ask("r2")
    assert reasons(fleet.fail("r1")) == []
    assert ("r1", "runtime_died") in reasons(fleet.leave("b"))


def test_unusable_offers_are_a_last_resort() -> None:
    """A node whose load failed is avoided while somebody else can, and asked when nobody can."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(usable=False, slots=8)))
    assert dispatched(fleet.ask("r1")) == [("r1", "a")]
    assert not fleet.machine.ready(fleet.now)
    fleet.join("b")
    assert {node for n in range(2) for _, node in dispatched(fleet.ask(f"s{n}"))} == {"b"}
    assert fleet.machine.ready(fleet.now)


def test_suspect_node_gets_no_new_work() -> None:
    """Two seconds of silence are enough to send work elsewhere, and nothing is lost by it."""
    fleet = Fleet()
    fleet.join("a", "b", report=status(offer(slots=8)))
    effects = fleet.wait(3.0, "b")
    assert of(effects, Report) == [Report("node_state", node=A, state="suspect")]
    assert {node for n in range(6) for _, node in dispatched(fleet.ask(f"r{n}"))} == {"b"}
    assert of(fleet.hear("a"), Report) == [Report("node_state", node=A, state="alive")]


def test_waiting_work_goes_to_a_node_that_is_back() -> None:
    """A request waits out a short silence and runs with the first sign of life."""
    fleet = Fleet()
    fleet.join("a")
    fleet.wait(3.0)
    assert dispatched(fleet.ask("r")) == []
    assert dispatched(fleet.hear("a")) == [("r", "a")]


def test_silence_counts_before_the_tick_has_announced_it() -> None:
    """A late tick is no reason to send work into the void, nor to forget it afterwards."""
    fleet = Fleet()
    fleet.join("a")
    fleet.now += 2.5
    assert dispatched(fleet.ask("r")) == []
    assert dispatched(fleet.hear("a")) == [("r", "a")]


def test_stale_node_loses_its_work() -> None:
    """After five seconds: moved if no byte is out, an honest error if one is."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=8)))
    fleet.ask("r1")
    fleet.ask("r2")
    fleet.token("r2")
    fleet.join("b")
    effects = fleet.wait(5.1, "b")
    assert of(effects, Withdraw) == [
        Withdraw(RequestId("r2"), 1, A),
        Withdraw(RequestId("r1"), 1, A),
    ]
    assert dispatched(effects) == [("r1", "b")]
    assert reasons(effects) == [("r2", "node_lost")]
    assert fleet.machine.statistics().in_flight[A] == 2
    fleet.hear("a")
    fleet.free("r1", 1)
    fleet.free("r2", 1)
    fleet.finish("r1", 2)
    idle(fleet)


def test_dead_node_is_disconnected_and_its_leases_end() -> None:
    """After fifteen seconds nobody waits for its Released any more."""
    fleet = Fleet()
    fleet.join("a")
    fleet.ask("r")
    effects = fleet.wait(16.0)
    assert [report.state for report in of(effects, Report)] == ["suspect", "stale", "dead"]
    assert [effect.node for effect in of(effects, Disconnect)] == [A]
    assert [view.state for view in fleet.machine.fleet()] == ["dead"]
    assert fleet.hear("a") == []
    idle(fleet)


def test_death_seen_in_one_late_tick_still_loses_the_work() -> None:
    """From alive straight to dead: the work is answered all the same."""
    fleet = Fleet(FleetSettings(stall_s=1000.0))
    fleet.join("a")
    fleet.ask("r")
    fleet.now += 20.0
    effects = fleet.machine.on_tick(fleet.now)
    assert reasons(effects) == [("r", "node_lost")]
    idle(fleet)


def test_a_gateway_that_slept_does_not_blame_its_nodes() -> None:
    """After a stall of its own it listens first and judges later."""
    fleet = Fleet()
    fleet.join("a")
    fleet.ask("r")
    fleet.now += 60.0
    effects = fleet.machine.on_tick(fleet.now)
    assert reasons(effects) == []
    fleet.hear("a")
    assert reasons(fleet.wait(4.0, "a")) == []


def test_newer_link_replaces_the_older() -> None:
    """The old link is closed, what ran on it is lost, its late events change nothing."""
    fleet = Fleet()
    fleet.join("a", "b")
    ((_, first),) = dispatched(fleet.ask("r"))
    effects = fleet.join(first)
    assert [effect.node for effect in of(effects, Disconnect)] == [first]
    assert len(dispatched(effects)) == 1
    assert fleet.machine.statistics().leases == 1
    assert fleet.fail("r", 1) == []
    assert fleet.finish("r", 1) == []
    assert fleet.machine.statistics().running == 1


def test_models_stay_known_across_a_reconnection() -> None:
    """Between the new link and its first report a request waits; it hears no 404."""
    fleet = Fleet()
    fleet.join("a")
    fleet.leave("a")
    fleet.machine.on_node_joined(A, "a", "a-2", fleet.now)
    assert reasons(fleet.ask("r")) == []
    assert dispatched(fleet.report("a", status())) == [("r", "a")]


def test_older_status_is_ignored() -> None:
    """Statuses count by their number, not by when they arrive."""
    fleet = Fleet()
    fleet.join("a")
    later = fleet.seq + 5
    fleet.machine.on_node_status(A, later, status(draining=True), fleet.now)
    fleet.machine.on_node_status(A, later - 1, status(), fleet.now)
    assert fleet.machine.fleet()[0].draining


def test_late_events_of_an_older_attempt_change_only_leases() -> None:
    """What the first node still says about a request that moved on is history."""
    fleet = Fleet()
    fleet.join("a", "b")
    fleet.ask("r")
    fleet.fail("r", 1)
    before = fleet.machine.statistics()
    fleet.token("r", 1)
    assert fleet.fail("r", 1) == []
    assert fleet.machine.on_refused(RequestId("r"), 1, BUSY, fleet.now) == []
    assert fleet.machine.statistics() == before
    fleet.free("r", 1)
    assert fleet.machine.statistics().leases == before.leases - 1
    assert dispatched(fleet.fail("r", 2)) == []
    fleet.free("r", 2)
    idle(fleet)


def _turns(fleet: Fleet) -> tuple[bytes, ...]:
    """Run a first turn to its end; the chain of the second is returned."""
    messages = (Message("system", "Be kind."), Message("user", "Hello"))
    hashes = chain(TenantId("t"), MODEL, messages)
    fleet.ask("t1", chain=hashes)
    fleet.token("t1")
    fleet.finish("t1", answer=" Hi! ")
    return (*hashes, *_more(hashes[-1], ("assistant", "Hi!"), ("user", "And?")))


def _more(last: bytes, *messages: tuple[str, str]) -> tuple[bytes, ...]:
    hashes = []
    for role, content in messages:
        last = extend(last, role, content)
        hashes.append(last)
    return tuple(hashes)


def test_second_turn_comes_home() -> None:
    """A plain client that resends its history meets the node that has its KV."""
    for seed in range(10):
        fleet = Fleet(seed=seed)
        fleet.join("a", "b", "c")
        hashes = _turns(fleet)
        (second,) = of(fleet.ask("t2", chain=hashes), Dispatch)
        assert (second.placement, second.why) == ("warm", "home")
        assert fleet.machine.statistics().warm == 1


def test_busy_home_is_left_for_a_free_node() -> None:
    """Affinity has a price: a free node now beats the home later."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    hashes = _turns(fleet)
    fleet.ask("other")
    fleet.join("b")
    (second,) = of(fleet.ask("t2", chain=hashes), Dispatch)
    assert (second.node, second.placement, second.why) == (B, "moved", "home_busy")


def test_home_is_waited_for_when_nobody_else_is_free() -> None:
    """With every place taken the request waits and then goes home."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    hashes = _turns(fleet)
    fleet.ask("other")
    assert dispatched(fleet.ask("t2", chain=hashes)) == []
    assert of(fleet.finish("other"), Dispatch)[0].placement == "warm"


def test_lost_home_is_called_lost() -> None:
    """A dead home, or one whose runtime was replaced, holds nothing any more."""
    fleet = Fleet()
    fleet.join("a", report=status(runtimes=(running("r1"),)))
    hashes = _turns(fleet)
    fleet.report("a", status(runtimes=(running("r2"),)))
    (second,) = of(fleet.ask("t2", chain=hashes), Dispatch)
    assert (second.placement, second.why) == ("lost", "runtime_replaced")
    fleet.join("b")
    fleet.leave("a")
    (third,) = of(fleet.ask("t3", chain=hashes), Dispatch)
    assert (third.placement, third.why) == ("lost", "home_gone")


@pytest.mark.parametrize(
    ("report", "why"),
    [(status(draining=True), "home_draining"), (status(offer("n")), "home_unusable")],
)
def test_moved_says_why(report: NodeStatus, why: str) -> None:
    """People who ask why a turn was cold get an answer."""
    fleet = Fleet()
    fleet.join("a")
    hashes = _turns(fleet)
    fleet.join("b")
    fleet.report("a", report)
    (second,) = of(fleet.ask("t2", chain=hashes), Dispatch)
    assert (second.placement, second.why) == ("moved", why)


def test_ties_go_to_chance() -> None:
    """An idle fleet shares first requests, whatever the order in which nodes joined."""
    firsts = set()
    for seed in range(20):
        fleet = Fleet(seed=seed)
        fleet.join("a", "b", "c")
        firsts |= {node for _, node in dispatched(fleet.ask("r"))}
    assert firsts == {"a", "b", "c"}


def test_same_seed_same_decisions() -> None:
    """Chance is an argument: equal dice, equal fleet."""

    def course() -> list[tuple[str, str]]:
        fleet = Fleet(seed=7)
        fleet.join("a", "b", "c")
        return [pair for n in range(6) for pair in dispatched(fleet.ask(f"r{n}"))]

    assert course() == course()


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
    fleet.leave("b")
    assert [one.usable for one in fleet.machine.models()] == [False, True]


def test_ticks_are_asked_for_when_something_is_due() -> None:
    """With nothing to wait for the machine sleeps; otherwise it names the next deadline."""
    machine = Coordinator(FleetSettings(), random.Random(1))
    assert machine.next_tick(5.0) == 30.0
    machine.on_node_joined(A, "a", "a-1", 5.0)
    assert machine.next_tick(5.5) == pytest.approx(1.5)
    assert machine.next_tick(50.0) == pytest.approx(0.001)


def test_node_that_left_twice_or_was_never_there() -> None:
    """Events about unknown nodes and requests change nothing."""
    fleet = Fleet()
    assert fleet.leave("ghost") == []
    assert fleet.hear("ghost") == []
    assert fleet.report("ghost", status()) == []
    assert fleet.free("ghost") == []
    assert fleet.fail("ghost", failure=DIED) == []
    assert fleet.start("ghost") == []
