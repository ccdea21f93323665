"""What the coordinator makes of failures, refusals and silence, one situation at a time."""

from __future__ import annotations

import pytest

from roost.core.ids import NodeId, RequestId
from roost.errors import Failure
from roost.fleet.effects import Answer, Disconnect, Dispatch, Report, Withdraw
from roost.fleet.settings import FleetSettings
from tests.fleet.kit import (
    BUSY,
    DIED,
    Fleet,
    dispatched,
    idle,
    of,
    offer,
    reasons,
    running,
    status,
)

A, B = NodeId("a"), NodeId("b")
ERROR = Failure("runtime_error", "The runtime reported an error.")


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
    assert reasons(fleet.fail("r", failure=ERROR)) == [("r", "runtime_error")]


def test_alone_a_node_gets_it_again_when_its_runtime_is_another() -> None:
    """A single machine survives a crash before the first token: the new runtime answers."""
    fleet = Fleet()
    fleet.join("a", report=status(runtimes=(running("r1"),)))
    fleet.ask("r")
    fleet.start("r")
    effects = fleet.fail("r") + fleet.free("r")
    assert [one.reason for one in of(effects, Report)] == ["runtime_died"]
    assert dispatched(effects) == []
    assert dispatched(fleet.report("a", status(runtimes=(running("r1"),)))) == []
    (again,) = of(fleet.report("a", status(runtimes=(running("r2"),))), Dispatch)
    assert (again.node, again.attempt, again.why) == (A, 2, "runtime_back")
    fleet.start("r", 2)
    assert reasons(fleet.fail("r", 2)) == [("r", "runtime_died")]


def test_what_killed_two_runtimes_is_not_given_a_third() -> None:
    """A request that kills whatever serves it is stopped while there is something left."""
    fleet = Fleet()
    fleet.join("a", "b", "c")
    fleet.ask("r")
    fleet.start("r")
    assert len(dispatched(fleet.fail("r"))) == 1
    fleet.start("r", 2)
    assert reasons(fleet.fail("r", 2)) == [("r", "runtime_died")]


def test_survivors_get_the_bereaved_a_few_at_a_time() -> None:
    """After a death its requests prefill on each survivor two at a time, newcomers unhindered."""
    fleet = Fleet(FleetSettings(retry_floor=99, redispatch_per_node=2))
    fleet.join("a", report=status(offer(slots=6)))
    for n in range(5):
        fleet.ask(f"r{n}")
    fleet.join("b", report=status(offer(slots=8)))
    effects = fleet.leave("a")
    assert dispatched(effects) == [("r0", "b"), ("r1", "b")]
    assert dispatched(fleet.ask("new")) == [("new", "b")]
    fleet.start("r0", 2)
    assert dispatched(fleet.token("r0", 2)) == [("r2", "b")]


def test_a_node_that_keeps_failing_is_left_alone_then_tried() -> None:
    """The breaker opens for one model, its leases stay counted, and it closes after successes."""
    fleet = Fleet(FleetSettings(retry_floor=99, breaker_failures=2, queue_wait_s=600.0))
    fleet.join("a", report=status(offer("m", 8), offer("n", 8)))
    for n in range(3):
        fleet.ask(f"r{n}")
    fleet.fail("r0", failure=ERROR)
    (report,) = of(fleet.fail("r1", failure=ERROR), Report)
    assert (report.event, report.reason, report.model) == ("node_state", "breaker_open", "m")
    assert fleet.machine.statistics().leases == 3
    assert dispatched(fleet.ask("s0")) == []
    assert dispatched(fleet.ask("other", "n")) == [("other", "a")]
    for name in ("r0", "r1", "r2"):
        fleet.free(name)
    assert dispatched(fleet.wait(5.1, "a")) == [("s0", "a")]
    assert dispatched(fleet.ask("s1")) == []
    assert dispatched(fleet.finish("s0")) == [("s1", "a")]
    (closed,) = of(fleet.finish("s1"), Report)
    assert closed.reason == "breaker_closed"
    assert len([fleet.ask(f"t{n}") for n in range(4)]) == 4
    assert fleet.machine.statistics().waiting == 0


def test_lack_of_room_trips_no_breaker() -> None:
    """Busy, however often, is not broken."""
    fleet = Fleet(FleetSettings(breaker_failures=2, queue_wait_s=600.0))
    fleet.join("a")
    fleet.ask("r")
    for attempt in (1, 2, 3):
        fleet.refuse("r", attempt)
        fleet.wait(3.0, "a")
    assert fleet.machine.statistics().leases == 1


def test_attempts_are_limited() -> None:
    """Three failures end a request, however many nodes are left."""
    fleet = Fleet()
    fleet.join("a", "b", "c", "d")
    fleet.ask("r")
    assert len(dispatched(fleet.fail("r", 1, ERROR))) == 1
    assert len(dispatched(fleet.fail("r", 2, ERROR))) == 1
    assert reasons(fleet.fail("r", 3, ERROR)) == [("r", "runtime_error")]


def test_retry_budget_is_the_fleets() -> None:
    """Three retries in ten seconds, then failures are answered, then the budget is back."""
    fleet = Fleet(FleetSettings(redispatch_per_node=9))
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


def test_who_is_sent_back_has_waited_all_the_time() -> None:
    """A node that thinks for long before it says no makes nobody's longest wait longer.

    What it says is what its client hears: it names what there is too little of.
    """
    fleet = Fleet(FleetSettings(queue_wait_s=60.0))
    fleet.join("a")
    fleet.ask("r")
    full = Failure("node_busy", "no model could make room: see `max_runtimes`", retry_after_s=1)
    begin, said = fleet.now, list[Answer]()
    for attempt in range(1, 9):
        fleet.wait(25.0, "a")
        effects = fleet.refuse("r", attempt, full)
        while not said and not dispatched(effects):
            effects = fleet.wait(0.25, "a")
            said = of(effects, Answer)
        if said:
            break
    assert [one.failure.message for one in said] == [full.message]
    assert 60.0 <= fleet.now - begin < 60.0 + 25.5


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
    assert dispatched(fleet.fail("r", 2, ERROR)) == []
    fleet.free("r", 2)
    idle(fleet)


def test_node_that_left_twice_or_was_never_there() -> None:
    """Events about unknown nodes and requests change nothing."""
    fleet = Fleet()
    assert fleet.leave("ghost") == []
    assert fleet.hear("ghost") == []
    assert fleet.report("ghost", status()) == []
    assert fleet.free("ghost") == []
    assert fleet.fail("ghost", failure=DIED) == []
    assert fleet.start("ghost") == []


def test_a_node_busy_with_one_model_still_serves_another() -> None:
    """A node's limits are per model, so is what its refusal says."""
    fleet = Fleet()
    fleet.join("a", report=status(offer("m"), offer("n")))
    fleet.ask("r1")
    assert dispatched(fleet.refuse("r1")) == []
    assert dispatched(fleet.ask("r2", "n")) == [("r2", "a")]
