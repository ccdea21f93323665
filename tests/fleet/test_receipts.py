"""Receipts: what is remembered of a request, for how long, and who stopped it."""

from __future__ import annotations

import pytest

from roost.core.ids import NodeId, RequestId, TenantId
from roost.fleet.effects import Answer, Report, Withdraw
from roost.fleet.settings import FleetSettings
from roost.fleet.watching.receipts import Receipt
from tests.fleet.kit import Fleet, dispatched, idle, of, offer, reasons, status

A, R = NodeId("a"), RequestId("r")


def receipt(fleet: Fleet, name: str = "r") -> Receipt:
    """The receipt, which has to be there."""
    found = fleet.machine.receipt(RequestId(name), fleet.now)
    assert found is not None
    return found


def test_a_whole_life() -> None:
    """Times, place, candidates with their scores, and what was predicted are all in it."""
    fleet = Fleet()
    fleet.join("a", "b")
    assert fleet.machine.receipt(R, fleet.now) is None
    ((_, node),) = dispatched(fleet.ask("r"))
    fleet.now += 0.5
    fleet.start("r")
    assert receipt(fleet).outcome == "running"
    fleet.now += 0.25
    fleet.token("r")
    fleet.now += 0.25
    fleet.finish("r")
    done = receipt(fleet)
    assert (done.outcome, done.total_s, done.completion_tokens) == ("complete", 1.0, 2)
    (attempt,) = done.attempts
    assert (attempt.node, attempt.candidates, attempt.failure) == (node, 2, None)
    assert sorted(name for name, _ in attempt.ranking) == ["a", "b"]
    assert (attempt.started_s, attempt.first_token_s, attempt.ended_s) == (0.5, 0.75, 1.0)
    assert (attempt.prompt_tokens, attempt.cached_tokens, attempt.actual_s) == (3, 0, 1.0)
    assert done.stopped is None


def test_every_attempt_is_in_it() -> None:
    """A retry leaves the failed attempt in the receipt, with its reason."""
    fleet = Fleet()
    fleet.join("a", "b")
    fleet.ask("r")
    fleet.fail("r")
    fleet.finish("r", 2)
    assert [one.failure for one in receipt(fleet).attempts] == ["runtime_died", None]


@pytest.mark.parametrize(
    ("steps", "phase"), [((), "waiting"), (("start",), "prefill"), (("start", "token"), "decode")]
)
def test_cancel_by_id_in_every_phase(steps: tuple[str, ...], phase: str) -> None:
    """One path: withdrawn, answered, acknowledged by the node, and the time of that is kept."""
    fleet = Fleet()
    fleet.join("a")
    fleet.ask("r")
    for step in steps:
        getattr(fleet, step)("r")
    effects = fleet.machine.on_cancel(R, TenantId("t"), fleet.now)
    assert of(effects, Withdraw) == [Withdraw(R, 1, A)]
    assert reasons(effects) == [("r", "cancelled")]
    assert fleet.machine.statistics().leases == 1
    stopped = receipt(fleet).stopped
    assert stopped is not None
    assert (stopped.by, stopped.phase, stopped.free_s) == ("client", phase, None)
    fleet.now += 0.125
    fleet.free("r")
    stopped = receipt(fleet).stopped
    assert stopped is not None
    assert stopped.free_s == 0.125
    idle(fleet)


def test_cancel_in_the_line_and_by_an_operator() -> None:
    """What waits holds nothing; an operator may stop anybody's request."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=1)))
    fleet.ask("r1")
    fleet.ask("r")
    effects = fleet.machine.on_cancel(R, None, fleet.now)
    assert [one.request for one in of(effects, Answer)] == ["r"]
    stopped = receipt(fleet).stopped
    assert stopped is not None
    assert (stopped.by, stopped.phase, stopped.free_s) == ("operator", "queued", 0.0)


def test_nobody_cancels_somebody_elses() -> None:
    """A strange tenant's cancel, or one after the end, changes nothing and tells nothing."""
    fleet = Fleet()
    fleet.join("a")
    fleet.ask("r")
    assert fleet.machine.on_cancel(R, TenantId("stranger"), fleet.now) == []
    fleet.finish("r")
    assert fleet.machine.on_cancel(R, TenantId("t"), fleet.now) == []


def test_deadline_drain_and_departure_say_who() -> None:
    """Each way of being stopped has its name."""
    fleet = Fleet()
    fleet.join("a", report=status(offer(slots=3)))
    fleet.ask("late", timeout_s=1.0)
    fleet.ask("left")
    fleet.ask("last")
    fleet.gone("left")
    fleet.wait(1.5, "a")
    fleet.machine.on_drain(fleet.now)
    assert reasons(fleet.machine.on_drain_end(fleet.now)) == [("last", "draining")]
    who = {name: receipt(fleet, name).stopped for name in ("late", "left", "last")}
    assert {name: one.by for name, one in who.items() if one is not None} == {
        "late": "deadline",
        "left": "client",
        "last": "drain",
    }


def test_bounded_by_number_and_age() -> None:
    """The newest so many, and none older than the setting."""
    fleet = Fleet(FleetSettings(receipts_entries=2, receipts_ttl_s=60.0))
    fleet.join("a")
    for name in ("r1", "r2", "r3"):
        fleet.ask(name)
        fleet.finish(name)
    assert fleet.machine.receipt(RequestId("r1"), fleet.now) is None
    assert receipt(fleet, "r3").outcome == "complete"
    assert fleet.machine.receipt(RequestId("r3"), fleet.now + 61.0) is None


def test_an_operator_drains_a_node_and_takes_it_back() -> None:
    """No new work for it, across a reconnection, until it is told otherwise."""
    fleet = Fleet()
    fleet.join("a", "b", report=status(offer(slots=9)))
    fleet.ask("before")
    (report,) = of(fleet.machine.on_drain_node(A, fleet.now), Report)
    assert (report.node, report.reason) == (A, "drained")
    assert fleet.machine.on_drain_node(A, fleet.now) == []
    assert {node for n in range(4) for _, node in dispatched(fleet.ask(f"r{n}"))} == {"b"}
    fleet.leave("a")
    fleet.join("a", report=status(offer(slots=9)))
    assert {node for n in range(2) for _, node in dispatched(fleet.ask(f"s{n}"))} == {"b"}
    assert fleet.machine.fleet()[0].draining
    assert len(of(fleet.machine.on_undrain_node(A, fleet.now), Report)) == 1
    assert dispatched(fleet.ask("back")) == [("back", "a")]
    assert fleet.machine.on_drain_node(NodeId("ghost"), fleet.now) == []
