"""What a failure calls for, and how many retries a fleet may make."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.ids import ModelId, NodeId, RequestId, TenantId
from roost.core.request import Terms
from roost.errors import REASONS, Failure
from roost.fleet.calls import Call
from roost.fleet.retrying import Recovery, RetryBudget, verdict
from roost.fleet.settings import FleetSettings

ELSEWHERE = {
    "bad_tool_call",
    "load_failed",
    "node_lost",
    "out_of_memory",
    "runtime_died",
    "runtime_error",
    "upstream_error",
}
WAIT = {"node_busy", "draining", "starting"}
A = NodeId("a")


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_every_reason_has_its_verdict(reason: str) -> None:
    """Peers' failures go elsewhere, lack of room waits, everything else is told at once."""
    expected = "elsewhere" if reason in ELSEWHERE else "wait" if reason in WAIT else "answer"
    failure = Failure(reason, "It went wrong.")
    assert verdict(failure, answered=False) == expected
    assert verdict(failure, answered=True) == "answer"


def test_floor_then_ratio() -> None:
    """A quiet fleet may retry three times in ten seconds, a busy one a tenth of its requests."""
    budget = RetryBudget(0.1, 3, 10.0)
    assert [budget.spend(5.0) for _ in range(4)] == [True, True, True, False]
    for n in range(100):
        budget.note_request(6.0 + n / 100)
    assert sum(budget.spend(7.5) for _ in range(20)) == 7
    assert not budget.spend(14.9)
    assert budget.spend(15.0)


@given(
    gaps=st.lists(st.tuples(st.floats(0, 3), st.booleans()), max_size=150),
    ratio=st.sampled_from([0.0, 0.1, 0.5]),
)
def test_no_window_has_more_retries_than_allowed(
    gaps: list[tuple[float, bool]], ratio: float
) -> None:
    """At every retry, the ten seconds before it hold at most max(3, ratio x requests)."""
    budget = RetryBudget(ratio, 3, 10.0)
    now, requests, retries = 0.0, [], []
    for gap, is_request in gaps:
        now += gap
        if is_request:
            budget.note_request(now)
            requests.append(now)
        elif budget.spend(now):
            retries.append(now)
            arrived = sum(when > now - 10.0 for when in requests)
            assert sum(when > now - 10.0 for when in retries) <= max(3, ratio * arrived)


def never() -> bool:
    """The node may not have it again."""
    return False


def call() -> Call:
    """A request on a node."""
    terms = Terms(RequestId("r"), TenantId("t"))
    return Call(terms, ModelId("m"), 0.0, 0.0, 0.0, node=A, attempt=1)


def test_nowhere_to_go_costs_no_budget() -> None:
    """Only a retry that can happen is paid for."""
    recovery = Recovery(FleetSettings(retry_floor=1, retry_ratio=0.0))
    died = Failure("runtime_died", "It died.")
    assert recovery.judge(call(), A, died, 0.0, elsewhere=lambda: False, again=never) == "answer"
    assert recovery.judge(call(), A, died, 0.0, elsewhere=lambda: True, again=never) == "elsewhere"
    assert recovery.judge(call(), A, died, 0.0, elsewhere=lambda: True, again=never) == "answer"


def test_bounces_are_bounded_and_free() -> None:
    """A request is sent away for lack of room only so often; the node is not held against it."""
    recovery = Recovery(FleetSettings(busy_bounces=2, retry_floor=0, retry_ratio=0.0))
    busy = Failure("node_busy", "Full.")
    one = call()
    verdicts = [
        recovery.judge(one, A, busy, 0.0, elsewhere=lambda: True, again=never) for _ in range(3)
    ]
    assert verdicts == ["wait", "wait", "answer"]
    assert one.tried == set()


def test_a_lone_node_gets_it_again_after_a_runtimes_death() -> None:
    """Only then, only within the budget, and the node is not held against the request."""
    recovery = Recovery(FleetSettings(retry_floor=1, retry_ratio=0.0))
    died, error = (Failure(reason, "It died.") for reason in ("runtime_died", "runtime_error"))
    one = call()
    lone = {"elsewhere": never, "again": lambda: True}
    assert recovery.judge(one, A, error, 0.0, **lone) == "answer"
    assert recovery.judge(one, A, died, 0.0, **lone) == "again"
    assert A not in one.tried or one.failures == 2
    assert recovery.judge(call(), A, died, 0.0, **lone) == "answer"
