"""DECIDER: medians, and how sure a ratio of two of them is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import random


class Ratio(msgspec.Struct, frozen=True):
    """A ratio of medians with its bootstrap interval, which holds 95 of 100 resampled ratios."""

    value: float
    low: float
    high: float


def ratio_of_medians(
    ours: Sequence[float], theirs: Sequence[float], rng: random.Random, rounds: int = 2000
) -> Ratio:
    """Compare block values of one run; at least one block each, none of theirs zero."""
    draws = sorted(
        median(_resampled(ours, rng)) / median(_resampled(theirs, rng)) for _ in range(rounds)
    )
    low, high = draws[int(0.025 * rounds)], draws[int(0.975 * rounds) - 1]
    return Ratio(median(ours) / median(theirs), low, high)


def _resampled(values: Sequence[float], rng: random.Random) -> list[float]:
    return [values[rng.randrange(len(values))] for _ in values]


def interleaved(names: Sequence[str], rounds: int) -> list[str]:
    """Order blocks A B … B A, A B … B A: a machine that gets slower hurts everybody alike."""
    forth_and_back = [*names, *reversed(names)]
    return [name for _ in range(rounds) for name in forth_and_back]


def calibration(clock: Callable[[], float], steps: int = 200_000) -> float:
    """Return the milliseconds that a fixed loop of plain integer work takes here and now."""
    start, state = clock(), 1
    for step in range(steps):
        state = (state * 31 + step) & 0xFFFF
    assert state >= 0, "the loop is really run"
    return (clock() - start) * 1000
