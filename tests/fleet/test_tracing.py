"""The trace of a request that is over: its phases in order, from its receipt alone."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.events import Usage
from roost.core.ids import ModelId, NodeId, RequestId, TenantId
from roost.core.trace import Span
from roost.fleet.watching.receipts import AttemptView, Receipt
from roost.fleet.watching.tracing import Ended, trace_of

ENDED = Ended("r", "m", "openai", "complete", Usage(30, 10, 9), 5.0, 0.0, 2.0)
WHOLE = AttemptView(
    attempt=1,
    node=NodeId("n"),
    placement="warm",
    why="",
    policy="prediction",
    candidates=1,
    ranking=(),
    runner_up=None,
    dispatched_s=0.5,
    started_s=1.0,
    first_token_s=2.0,
    ended_s=4.0,
    predicted_s=None,
    actual_s=3.5,
    prompt_tokens=30,
    cached_tokens=10,
    failure=None,
)


def receipt(*attempts: AttemptView) -> Receipt:
    """A receipt with these attempts."""
    ids = RequestId("r"), TenantId("ann"), ModelId("m")
    return Receipt(*ids, "interactive", "complete", 0.5, 4.0, 30, 9, attempts)


def times(ended: Ended, *attempts: AttemptView) -> list[tuple[str, float, float]]:
    """Give the phases with their times."""
    phases = trace_of(ended, receipt(*attempts)).phases
    assert all(0 <= one.start_s <= one.end_s <= ended.end_s for one in phases)
    return [(one.name, one.start_s, one.end_s) for one in phases]


def test_the_phases_of_a_good_answer() -> None:
    """Queue, node, prefill, decode and stream, each with what it is about."""
    assert times(ENDED, WHOLE) == [
        ("queue", 0.0, 0.5),
        ("node", 0.5, 1.0),
        ("prefill", 1.0, 2.0),
        ("decode", 2.0, 4.0),
        ("stream", 2.0, 5.0),
    ]
    trace = trace_of(msgspec.structs.replace(ENDED, cache_miss="diverged at token 7"), None)
    assert trace.request == Span(
        "request",
        0.0,
        5.0,
        {
            "roost.request.id": "r",
            "roost.outcome": "complete",
            "roost.dialect": "openai",
            "gen_ai.request.model": "m",
            "gen_ai.usage.input_tokens": 30,
            "gen_ai.usage.output_tokens": 9,
            "roost.usage.cached_tokens": 10,
            "roost.cache_miss": "diverged at token 7",
        },
    )
    facts = {one.name: one.facts for one in trace_of(ENDED, receipt(WHOLE)).phases}
    assert facts["prefill"]["roost.tokens.computed"] == 20
    assert facts["node"]["roost.placement"] == "warm"
    assert facts["decode"] == {"roost.node": "n", "roost.attempt": 1}


def test_an_attempt_that_failed_is_followed_by_another() -> None:
    """Each phase ends with its attempt, and says why; what came next waits again."""
    lost = msgspec.structs.replace(
        WHOLE, first_token_s=None, ended_s=1.5, failure="node_lost", node=NodeId("a")
    )
    again = msgspec.structs.replace(WHOLE, attempt=2, dispatched_s=1.75, started_s=1.8)
    assert times(ENDED, lost, again) == [
        ("queue", 0.0, 0.5),
        ("node", 0.5, 1.0),
        ("prefill", 1.0, 1.5),
        ("queue", 1.5, 1.75),
        ("node", 1.75, 1.8),
        ("prefill", 1.8, 2.0),
        ("decode", 2.0, 4.0),
        ("stream", 2.0, 5.0),
    ]
    failures = [one.failure for one in trace_of(ENDED, receipt(lost, again)).phases]
    assert failures == ["", "", "node_lost", "", "", "", "", ""]


@pytest.mark.parametrize(
    ("ended", "attempts", "names"),
    [
        # It waited, and was refused or left.
        (msgspec.structs.replace(ENDED, first_text_s=None), (), ["queue"]),
        # The turn before it had not ended: it never came to the coordinator.
        (msgspec.structs.replace(ENDED, admitted_s=None, first_text_s=None), (), ["turn_before"]),
        (
            msgspec.structs.replace(ENDED, admitted_s=1.0, first_text_s=3.0),
            (WHOLE,),
            ["turn_before", "queue", "node", "prefill", "decode", "stream"],
        ),
        # Its client left while it was computed: the node has not answered yet.
        (
            msgspec.structs.replace(ENDED, end_s=1.5, first_text_s=None),
            (msgspec.structs.replace(WHOLE, first_token_s=None, ended_s=None),),
            ["queue", "node", "prefill"],
        ),
    ],
)
def test_what_did_not_come_about_has_no_span(
    ended: Ended, attempts: tuple[AttemptView, ...], names: list[str]
) -> None:
    """And what was under way ends with the request."""
    assert [name for name, _, _ in times(ended, *attempts)] == names


@pytest.mark.parametrize(
    ("outcome", "failure"),
    [
        ("complete", ""),
        ("client_disconnect", ""),
        ("cancelled", ""),
        ("queue_full", "queue_full"),
        ("node_error", "node_error"),
    ],
)
def test_what_counts_as_an_error(outcome: str, failure: str) -> None:
    """Who leaves is none."""
    ended = msgspec.structs.replace(ENDED, outcome=outcome)
    assert trace_of(ended, None).request.failure == failure
