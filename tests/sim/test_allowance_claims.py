"""Claims about keys with limits: each finds the history that breaks it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roost.core.allowance import Allowance
from roost.core.ids import RequestId
from roost.sim.booking import Booking, Kind
from roost.sim.claims.allowances import CLAIMS
from roost.sim.claims.checkers import check
from roost.sim.history import History, Rest

LIMITS = Allowance(requests_per_minute=3, tokens_per_minute=100, at_once=2)


def booking(kind: Kind, at_s: float, name: str, tokens: int = 20) -> Booking:
    """Something that happened on the account of this tenant."""
    return Booking(kind, at_s, RequestId(name), "t", tokens)


def history() -> History:
    """Two at once and a third that has to wait, then one too many for the minute."""
    one = History(queue_length=9, queue_wait_s=10.0, ended_s=50.0, allowance=LIMITS)
    one.rest = Rest(0, 0, 0, 0, 0, 0, 0, 1, 1)
    one.bookings = [
        booking("in", 1.0, "r1"),
        booking("in", 2.0, "r2"),
        booking("out", 3.0, "r3"),
        booking("over", 4.0, "r1", 5),
        booking("in", 5.0, "r4"),
        booking("over", 6.0, "r2", 90),
        booking("over", 6.5, "r4", 20),
        booking("out", 7.0, "r5"),
        booking("in", 50.0, "r6"),
        booking("over", 51.0, "r6"),
    ]
    return one


def _three_at_once(one: History) -> None:
    one.bookings[2].kind = "in"


def _too_many_requests(one: History) -> None:
    one.bookings.insert(7, booking("in", 6.9, "r7", 0))


def _too_many_tokens(one: History) -> None:
    one.bookings[8].at_s = 20.0
    one.bookings[8].tokens = 95


def _no_cause(one: History) -> None:
    one.bookings.append(booking("out", 60.0, "r8"))


def _kept_after_a_new_life(one: History) -> None:
    one.bookings.insert(2, booking("reborn", 2.5, ""))


def _left_at_rest(one: History) -> None:
    assert one.rest is not None
    one.rest.on_account = 1


BROKEN = [
    ("allowances_hold", _three_at_once),
    ("allowances_hold", _too_many_requests),
    ("allowances_hold", _too_many_tokens),
    ("keys_refuse_with_cause", _no_cause),
    ("keys_refuse_with_cause", _kept_after_a_new_life),
    ("accounts_return", _left_at_rest),
]


@pytest.mark.parametrize(("name", "harm"), BROKEN)
def test_each_claim_can_be_broken(name: str, harm: Callable[[History], None]) -> None:
    """The harm is found by the claim that is meant."""
    broken = history()
    harm(broken)
    assert {violation.checker for violation in check(broken)} == {name}


def test_every_claim_is_exercised_here() -> None:
    """A new claim comes with a history that breaks it."""
    assert {name for name, _ in BROKEN} == {name for name, _, _ in CLAIMS}


def test_what_is_as_it_should_be_breaks_nothing() -> None:
    """The checkers are not merely severe."""
    assert check(history()) == []
