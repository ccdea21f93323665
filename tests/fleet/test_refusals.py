"""Hints and words of refusals, and the rate they are computed from."""

from __future__ import annotations

import pytest

from roost.core.ids import ModelId
from roost.errors import Failure
from roost.fleet.line import refusals
from roost.fleet.rates import Rate


@pytest.mark.parametrize(
    ("ahead", "freed_per_s", "expected"),
    [(0, None, 5), (9, 0.0, 5), (0, 10.0, 1), (9, 2.0, 5), (10, 2.0, 6), (64, 0.1, 120)],
)
def test_hint_is_whole_seconds_within_limits(
    ahead: int, freed_per_s: float | None, expected: int
) -> None:
    """Between 1 and 120, rounded up, from the rate; the default while nothing is measured."""
    assert refusals.wait_hint_s(ahead, freed_per_s, 5) == expected


@pytest.mark.parametrize(
    ("failure", "reason", "status"),
    [
        (refusals.queue_full(3), "queue_full", 429),
        (refusals.queue_timeout(60.0, 3), "queue_timeout", 429),
        (refusals.deadline(1.5), "deadline", 504),
        (refusals.model_not_found(ModelId("x")), "model_not_found", 404),
        (refusals.no_nodes(ModelId("x"), 3), "no_nodes", 503),
        (refusals.nobody_connected(3), "no_nodes", 503),
        (refusals.draining(3), "draining", 503),
        (refusals.node_lost(), "node_lost", 502),
        (refusals.node_dead(15.0), "node_lost", 502),
        (refusals.link_replaced(), "node_lost", 502),
    ],
)
def test_refusals_have_their_status(failure: Failure, reason: str, status: int) -> None:
    """429 and 503 say when to come back, and every message is a sentence."""
    assert (failure.reason, failure.status) == (reason, status)
    assert (failure.retry_after_s == 3) is (status in {429, 503})
    assert failure.message.endswith(".")


def test_rate_needs_two_events() -> None:
    """One event has no rate."""
    rate = Rate(30.0)
    assert rate.per_s(0.0) is None
    rate.note(1.0)
    assert rate.per_s(2.0) is None
    rate.note(3.0)
    assert rate.per_s(3.0) == pytest.approx(0.5, rel=0.1)


@pytest.mark.parametrize("every_s", [0.1, 1.0, 7.0])
def test_rate_converges_and_fades(every_s: float) -> None:
    """A steady stream is measured right from early on; silence lowers the figure."""
    rate = Rate(30.0)
    for n in range(200):
        rate.note(n * every_s)
    last = 199 * every_s
    assert rate.per_s(last) == pytest.approx(1 / every_s, rel=0.15)
    later = rate.per_s(last + 60.0)
    assert later is not None
    assert later < 0.3 / every_s


def test_rate_at_the_same_instant_is_unknown() -> None:
    """Two events at once give no span to divide by."""
    rate = Rate(30.0)
    rate.note(1.0)
    rate.note(1.0)
    assert rate.per_s(1.0) is None
