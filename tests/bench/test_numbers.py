"""Medians, intervals, order of blocks."""

from __future__ import annotations

import random
from collections import Counter

from roost.bench.numbers import calibration, interleaved, ratio_of_medians


def test_ratio_of_equal_things() -> None:
    """The same values have ratio one, and the interval holds it."""
    values = [1.0, 1.1, 0.9, 1.0, 1.2, 0.8]
    found = ratio_of_medians(values, values, random.Random(0))
    assert found.value == 1.0
    assert found.low <= 1.0 <= found.high


def test_interval_holds_the_truth_and_shrinks() -> None:
    """Twice the cost is seen as such; steadier blocks give a narrower interval."""
    rng = random.Random(1)
    noisy = [2 * rng.uniform(0.5, 1.5) for _ in range(9)]
    steady = [2 * rng.uniform(0.95, 1.05) for _ in range(9)]
    ones = [1.0] * 9
    rough, fine = (ratio_of_medians(v, ones, random.Random(0)) for v in (noisy, steady))
    assert fine.low <= 2.0 <= fine.high
    assert fine.high - fine.low < rough.high - rough.low


def test_one_block_has_no_spread() -> None:
    """A single block is a ratio without an interval."""
    found = ratio_of_medians([3.0], [2.0], random.Random(0))
    assert (found.low, found.value, found.high) == (1.5, 1.5, 1.5)


def test_blocks_go_forth_and_back() -> None:
    """A B … B A, so that a drift of the machine hurts everybody alike."""
    assert interleaved(["a", "b", "c"], 2) == list("abccbaabccba")
    places = Counter[str]()
    for place, name in enumerate(interleaved(["a", "b", "c"], 5)):
        places[name] += place
    assert len(set(places.values())) == 1


def test_calibration_counts_time() -> None:
    """The fixed loop is timed with the clock that is passed in."""
    ticks = iter([1.0, 1.25])
    assert calibration(lambda: next(ticks), steps=10) == 250.0
