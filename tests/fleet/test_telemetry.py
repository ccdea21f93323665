"""Request telemetry: bounded rows, totals that count on, and what counts as an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.events import Usage
from roost.core.ids import ModelId, NodeId, RequestId, TenantId
from roost.fleet.watching.telemetry import Ended, Telemetry, TelemetrySettings, Totals

ANN, BOB = TenantId("ann"), TenantId("bob")
NODE = NodeId("n")
SPENT = Usage(prompt_tokens=30, cached_tokens=10, completion_tokens=9)


def arrived(book: Telemetry, name: str, now: float = 0.0, tenant: TenantId = ANN) -> RequestId:
    """Let a request arrive."""
    request = RequestId(name)
    book.on_arrived(request, tenant, ModelId("m"), now, 1000)
    return request


def whole(book: Telemetry, name: str, outcome: str = "complete") -> None:
    """Let a request arrive, be served and end."""
    request = arrived(book, name)
    book.on_started(request, NODE, 1.0)
    book.on_first_text(request, 2.0)
    book.on_finished(request, "stop")
    book.on_ended(request, Ended(outcome, SPENT, 2.0, 4.0), 5.0)


def test_a_row_follows_its_request() -> None:
    """Waiting, prefill, streaming, done; figures appear when they are known, and not before."""
    book = Telemetry(TelemetrySettings())
    request = arrived(book, "r")
    (row,) = book.rows(ANN, 0.5, {request: Usage()})
    assert (row.state, row.elapsed_seconds, row.started_ms) == ("waiting", 0.5, 1000)
    assert (row.node, row.prompt_tokens, row.output_tokens) == (None, None, None)
    book.on_started(request, NODE, 1.0)
    (row,) = book.rows(ANN, 1.5, {request: Usage(30, 10, 0)})
    assert (row.state, row.node, row.prompt_tokens) == ("prefill", NODE, 30)
    book.on_first_text(request, 2.0)
    (row,) = book.rows(ANN, 2.5, {request: Usage(30, 10, 3)}, {request: "answering"})
    assert (row.state, row.output_tokens, row.first_output_seconds) == ("streaming", 3, 2.0)
    assert (row.tenant, row.phase_seconds, row.doing) == (ANN, 0.5, "answering")
    # A loss and somebody who goes on is no second beginning.
    book.on_first_text(request, 2.75)
    assert book.rows(ANN, 3.0, {})[0].phase_seconds == 1.0
    book.on_finished(request, "stop")
    book.on_ended(request, Ended("complete", SPENT, 2.0, 4.0), 5.0)
    (row,) = book.rows(ANN, 99.0, {})
    assert (row.state, row.elapsed_seconds, row.first_output_seconds) == ("done", 5.0, 2.0)
    assert (row.phase_seconds, row.doing) == (94.0, "")
    assert (row.prompt_tokens, row.cached_tokens, row.output_tokens) == (30, 10, 9)
    # 20 tokens were computed in the second before the text, 8 followed the first in two.
    assert (row.prefill_tokens_per_second, row.decode_tokens_per_second) == (20.0, 4.0)
    assert book.totals() == Totals(1, 1, 0, 0, 0, 30, 9, 10, 5.0)


@pytest.mark.parametrize(
    ("outcome", "reason", "state", "counted"),
    [
        ("complete", "stop", "done", "completed"),
        ("complete", "length", "length", "completed"),
        ("complete", "tool_calls", "tool_calls", "completed"),
        ("buffer_overflow", "stop", "done", "completed"),
        ("client_disconnect", "", "cancelled", "cancelled"),
        # A client that has left is no error even where the model was done already.
        ("client_disconnect", "stop", "cancelled", "cancelled"),
        ("write_timeout", "", "cancelled", "cancelled"),
        ("cancelled", "", "cancelled", "cancelled"),
        ("node_error", "", "error", "errors"),
        ("node_error", "stop", "error", "errors"),
        ("deadline", "", "error", "errors"),
        ("rejected", "", "error", "errors"),
    ],
)
def test_what_an_ending_counts_as(outcome: str, reason: str, state: str, counted: str) -> None:
    """Somebody who leaves is no error, and an answer that breaks off is."""
    book = Telemetry(TelemetrySettings())
    request = arrived(book, "r")
    if reason:
        book.on_finished(request, reason)
    book.on_ended(request, Ended(outcome, Usage()), 1.0)
    (row,) = book.rows(None, 1.0, {})
    assert row.state == state
    totals = book.totals()
    assert getattr(totals, counted) == 1
    assert totals.completed + totals.errors + totals.cancelled == 1


def test_rates_that_cannot_be_known_are_unknown() -> None:
    """No text, one token alone, or everything cached: no rate, and not a rate of 0."""
    for ending in (
        Ended("complete", SPENT),
        Ended("complete", Usage(10, 10, 1), 2.0, 2.0),
        Ended("complete", Usage(10, 0, 5), 1.0, 1.0),
    ):
        book = Telemetry(TelemetrySettings())
        request = arrived(book, "r")
        book.on_started(request, NODE, 1.0)
        book.on_ended(request, ending, 3.0)
        (row,) = book.rows(None, 3.0, {})
        assert (row.prefill_tokens_per_second, row.decode_tokens_per_second) == (None, None)


def test_a_request_that_held_no_slot_spent_nothing_that_is_known() -> None:
    """Its tokens are unknown, not 0."""
    book = Telemetry(TelemetrySettings())
    request = arrived(book, "r")
    book.on_ended(request, Ended("rejected", Usage()), 1.0)
    (row,) = book.rows(None, 1.0, {})
    assert (row.prompt_tokens, row.output_tokens) == (None, None)


def test_a_tenant_sees_its_own() -> None:
    """Others' requests are in the totals alone."""
    book = Telemetry(TelemetrySettings())
    arrived(book, "a")
    arrived(book, "b", tenant=BOB)
    assert [row.id for row in book.rows(ANN, 1.0, {})] == ["a"]
    assert len(book.rows(None, 1.0, {})) == 2
    assert book.totals().active == 2


def test_rows_are_bounded_and_totals_count_on() -> None:
    """128 that run and 64 that ended, newest first; the rest is only counted."""
    book = Telemetry(TelemetrySettings())
    for number in range(200):
        arrived(book, f"live{number}")
    for number in range(100):
        whole(book, f"over{number}")
    rows = book.rows(None, 9.0, {})
    assert sum(row.state == "waiting" for row in rows) == 128
    # All rows were taken while these ran: that they ended is counted, and no more.
    assert len(rows) == 128
    totals = book.totals()
    assert (totals.started, totals.completed, totals.active) == (300, 100, 200)
    assert (totals.prompt_tokens, totals.output_tokens) == (3000, 900)
    small = Telemetry(TelemetrySettings(active=1, recent=2))
    for number in range(5):
        whole(small, f"over{number}")
    assert [row.id for row in small.rows(None, 9.0, {})] == ["over4", "over3"]


def test_the_name_of_a_model_is_cut() -> None:
    """Whatever a client calls a model, a row stays small."""
    book = Telemetry(TelemetrySettings())
    book.on_arrived(RequestId("r"), ANN, ModelId("m" * 1000), 0.0, 0)
    assert len(book.rows(None, 0.0, {})[0].model) == 256


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from("astfe")), max_size=80))
def test_counts_add_up_whatever_happens(steps: list[tuple[int, str]]) -> None:
    """What started is what completed, failed, was cancelled, or runs; rows keep their bounds."""
    book = Telemetry(TelemetrySettings(active=3, recent=2))
    live: set[int] = set()
    outcomes = ("complete", "client_disconnect", "node_error")
    for now, (number, step) in enumerate(steps):
        request = RequestId(str(number))
        if step == "a" and number not in live:
            live.add(number)
            book.on_arrived(request, ANN, ModelId("m"), float(now), now)
        elif number in live and step == "s":
            book.on_started(request, NODE, float(now))
        elif number in live and step == "t":
            book.on_first_text(request, 2.0)
        elif number in live and step == "f":
            book.on_finished(request, "stop")
        elif number in live:
            live.remove(number)
            ending = Ended(outcomes[number % 3], Usage(1, 0, 1))
            book.on_ended(request, ending, float(now))
        totals = book.totals()
        assert totals.active == len(live)
        over = totals.completed + totals.errors + totals.cancelled
        assert totals.started == over + totals.active
        assert totals.prompt_tokens == over
        rows = book.rows(None, float(now), {})
        running = [row for row in rows if row.state in ("waiting", "prefill", "streaming")]
        assert len(running) <= 3
        assert len(rows) - len(running) <= 2
