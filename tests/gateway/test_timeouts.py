"""A client's own time limit, read from wherever it says it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.errors import RoostError
from roost.gateway.reading.timeouts import TIMEOUT_MAX_MS, asked_timeout_s, left_ms


@given(st.integers(1, TIMEOUT_MAX_MS))
def test_whole_milliseconds_are_read_from_either_place(ms: int) -> None:
    """What a body says as a number a header says as text; in seconds it is the same."""
    assert asked_timeout_s(None, ms) == asked_timeout_s(b"%d" % ms) == ms / 1000


def test_the_header_overrules_the_body_and_nothing_is_no_limit() -> None:
    """The header is nearer to whoever sets limits, such as a proxy."""
    assert asked_timeout_s(b"250", 9000) == 0.25
    assert asked_timeout_s(None) is None


@pytest.mark.parametrize(
    "text",
    [b"", b"0", b"-1", b"1.5", b"1e3", b" 1", b"soon", b"\xb2", b"86400001", b"9" * 5000],
)
def test_what_is_no_whole_number_in_range_is_refused(text: bytes) -> None:
    """Zero, signs, fractions, foreign digits and what nobody would wait for are mistakes."""
    with pytest.raises(RoostError) as refused:
        asked_timeout_s(text)
    failure = refused.value.failure
    assert (failure.reason, failure.param) == ("bad_request", "x-roost-timeout-ms")


@pytest.mark.parametrize("value", [True, 1.5, "x", -2, [1]])
def test_a_body_may_hold_anything(value: object) -> None:
    """A value of any other type is refused, not converted."""
    with pytest.raises(RoostError):
        asked_timeout_s(None, value)


@pytest.mark.parametrize(("deadline", "ms"), [(10.25, 250), (10.0004, 1), (9.0, 1), (11.0, 1000)])
def test_what_is_left_is_never_nothing(deadline: float, ms: int) -> None:
    """A server is told at least one millisecond, since zero would be a mistake there."""
    assert left_ms(deadline, 10.0) == ms
