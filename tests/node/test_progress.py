"""News of loads: within bounds, and not too often."""

from __future__ import annotations

import math

import pytest

from roost.core.ids import RuntimeId
from roost.node.progress import Progress

ONE, TWO = RuntimeId("m/1"), RuntimeId("m/2")


def test_news_come_every_so_often_for_each_load() -> None:
    """The first is told, one that follows too soon is not; another load has its own time."""
    progress = Progress(0.5)
    assert progress.take(ONE, 0.1, 10.0)
    assert not progress.take(ONE, 0.2, 10.4)
    assert progress.take(TWO, 0.3, 10.4)
    assert progress.of(ONE) == 0.1
    assert progress.take(ONE, 0.2, 10.5)
    assert progress.of(ONE) == 0.2


@pytest.mark.parametrize(("said", "told"), [(-1.0, 0.0), (0.5, 0.5), (7.0, 1.0)])
def test_what_is_told_is_a_share(said: float, told: float) -> None:
    """Whatever a runtime says, its load is between nothing and whole."""
    progress = Progress(0.5)
    assert progress.take(ONE, said, 0.0)
    assert progress.of(ONE) == told


@pytest.mark.parametrize("said", [math.nan, math.inf])
def test_what_is_no_number_is_no_news(said: float) -> None:
    """It takes no time from the next one, either."""
    progress = Progress(0.5)
    assert not progress.take(ONE, said, 0.0)
    assert progress.of(ONE) is None
    assert progress.take(ONE, 0.5, 0.0)


def test_a_load_that_is_over_says_nothing() -> None:
    """Nothing is known of it, and ending twice is harmless."""
    progress = Progress(0.5)
    assert progress.take(ONE, 0.5, 0.0)
    progress.over(ONE)
    progress.over(ONE)
    assert progress.of(ONE) is None
