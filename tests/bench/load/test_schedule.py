"""When requests are due: fixed in advance, at the rate that was asked for."""

from __future__ import annotations

import random
from itertools import groupby, pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.bench.load.plan import Open
from roost.bench.load.schedule import DUE_MAX, Arrivals, due_times


def test_a_constant_rate_is_a_comb() -> None:
    """Four a second for one and a half."""
    assert due_times("constant", 4, 1.5, 1, random.Random(1)) == [0, 0.25, 0.5, 0.75, 1.0, 1.25]


@given(
    st.sampled_from(get_args(Arrivals)),
    st.floats(0.5, 50),
    st.floats(0.5, 30),
    st.integers(1, 9),
    st.integers(),
)
def test_times_are_in_order_and_within(
    arrivals: Arrivals, rate: float, duration_s: float, burst: int, seed: int
) -> None:
    """The first is at once, none is late, and the same dice give the same times."""
    times = due_times(arrivals, rate, duration_s, burst, random.Random(seed))
    assert times == sorted(times)
    assert all(0 <= time_s < duration_s + 1 / rate for time_s in times)
    assert not times or times[0] == 0
    assert times == due_times(arrivals, rate, duration_s, burst, random.Random(seed))


@pytest.mark.parametrize("arrivals", ["poisson", "bursts"])
def test_random_arrivals_keep_the_rate(arrivals: Arrivals) -> None:
    """Over many, the mean is what was asked for, and gaps spread as they do without a memory."""
    times = due_times(arrivals, 20, 2000, 5, random.Random(4))
    assert len(times) == pytest.approx(40_000, rel=0.04)
    moments = sorted(set(times))
    gaps = [b - a for a, b in pairwise(moments)]
    mean = sum(gaps) / len(gaps)
    deviation = (sum((gap - mean) ** 2 for gap in gaps) / len(gaps)) ** 0.5
    assert deviation / mean == pytest.approx(1.0, rel=0.05)


def test_a_burst_comes_at_once() -> None:
    """Every moment has the whole burst."""
    times = due_times("bursts", 30, 10, 6, random.Random(2))
    assert {len(list(same)) for _, same in groupby(times)} == {6}


@pytest.mark.parametrize(
    ("rate", "duration_s", "burst"),
    [
        *[(0, 1, 1), (-1, 1, 1), (1, 0, 1), (1, 1, 0), (DUE_MAX, 2, 1)],
        *[(1, 1, DUE_MAX + 1), (float("nan"), 1, 1), (1, float("inf"), 1)],
    ],
)
def test_what_is_no_load_is_refused(rate: float, duration_s: float, burst: int) -> None:
    """Nothing at all, and more than can be measured."""
    with pytest.raises(ValueError, match=r"above 0|no measurement"):
        Open(rate, duration_s, "bursts", burst)
