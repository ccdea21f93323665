"""How often something happens, from the happenings themselves."""

from __future__ import annotations

import pytest

from roost.fleet.upstream.rates import Rate


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
