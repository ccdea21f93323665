"""Hints and words of refusals."""

from __future__ import annotations

import pytest

from roost.core.ids import ModelId
from roost.errors import Failure
from roost.fleet.line import refusals


@pytest.mark.parametrize(
    ("eta_s", "expected"), [(None, 5), (0.0, 1), (0.1, 1), (5.0, 5), (5.5, 6), (650.0, 120)]
)
def test_hint_is_whole_seconds_within_limits(eta_s: float | None, expected: int) -> None:
    """Between 1 and 120, rounded up; the default while nothing is measured."""
    assert refusals.hint_s(eta_s, 5) == expected


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
