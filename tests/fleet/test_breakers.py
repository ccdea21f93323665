"""Breakers: what opens them, what closes them, what is none of their business."""

from __future__ import annotations

import pytest

from roost.core.ids import ModelId, NodeId
from roost.fleet.choice.breakers import Breakers
from roost.fleet.settings import FleetSettings

A, M, N = NodeId("a"), ModelId("m"), ModelId("n")
SETTINGS = FleetSettings(
    breaker_failures=3, breaker_window=10, breaker_open_s=5.0, breaker_open_max_s=12.0
)


def tripped() -> Breakers:
    """A breaker that opened at second 10."""
    breakers = Breakers(SETTINGS)
    assert [breakers.failed(A, M, 10.0) for _ in range(3)] == [False, False, True]
    return breakers


def test_failures_in_a_row_open_it() -> None:
    """Three in a row close the node to that model and to no other."""
    breakers = tripped()
    assert breakers.state(A, M, 14.9) == "open"
    assert breakers.open(A, M, 14.9, held=0)
    assert not breakers.open(A, N, 14.9, held=0)
    assert breakers.next_s(11.0) == 15.0


def test_a_success_between_starts_the_row_anew() -> None:
    """Two failures, a success and two failures are no row of three."""
    breakers = Breakers(SETTINGS)
    for ok in (False, False, True, False, False):
        if ok:
            breakers.succeeded(A, M, 1.0)
        else:
            assert not breakers.failed(A, M, 1.0)
    assert breakers.state(A, M, 1.0) == "closed"


def test_a_bad_share_opens_it_too() -> None:
    """A node that fails every second request is as bad, once enough of them were seen."""
    breakers = Breakers(SETTINGS)
    opened = []
    for n in range(10):
        if n % 2:
            opened.append(breakers.failed(A, M, 1.0))
        else:
            breakers.succeeded(A, M, 1.0)
    # A success before the first failure is not remembered: nine outcomes are no full window.
    assert opened[-1] is False
    breakers.succeeded(A, M, 1.0)
    assert breakers.failed(A, M, 1.0)


def test_half_open_takes_one_at_a_time_and_needs_two_successes() -> None:
    """One probe at once; one success is luck."""
    breakers = tripped()
    assert breakers.due(15.0) == [A]
    assert breakers.due(15.0) == []
    assert breakers.state(A, M, 15.0) == "half_open"
    assert not breakers.open(A, M, 15.0, held=0)
    assert breakers.open(A, M, 15.0, held=1)
    assert not breakers.succeeded(A, M, 16.0)
    assert breakers.succeeded(A, M, 17.0)
    assert breakers.state(A, M, 17.0) == "closed"


def test_each_opening_lasts_longer() -> None:
    """Doubled with every failed probe, up to the longest."""
    breakers = tripped()
    assert not breakers.failed(A, M, 15.0)
    assert breakers.next_s(15.0) == 25.0
    breakers.failed(A, M, 25.0)
    assert breakers.next_s(25.0) == pytest.approx(37.0)


@pytest.mark.parametrize("at_s", [10.0, 12.0])
def test_a_straggler_proves_nothing(at_s: float) -> None:
    """What began before the breaker opened may end well or badly; the wait stands."""
    breakers = tripped()
    assert not breakers.succeeded(A, M, at_s)
    assert not any(breakers.failed(A, M, at_s) for _ in range(9))
    assert breakers.next_s(at_s) == 15.0
    assert not breakers.failed(A, M, 15.0)
    assert breakers.next_s(15.0) == 25.0, "it has opened twice"


def test_a_new_node_has_no_past() -> None:
    """A node that joins again starts with a closed breaker."""
    breakers = tripped()
    breakers.joined(A)
    assert breakers.state(A, M, 11.0) == "closed"
    assert breakers.due(99.0) == []
