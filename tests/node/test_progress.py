"""News of loads: within bounds, and not too often."""

from __future__ import annotations

import math

import pytest

from roost.core.ids import RuntimeId
from roost.node.models.progress import Progress

ONE, TWO = RuntimeId("m/1"), RuntimeId("m/2")


def _progress(*loads: RuntimeId) -> Progress:
    progress = Progress(0.5, patience_s=60.0)
    for load in loads:
        progress.begin(load, 0.0)
    return progress


def test_news_come_every_so_often_for_each_load() -> None:
    """The first is told, one that follows too soon is not; another load has its own time."""
    progress = _progress(ONE, TWO)
    assert progress.take(ONE, 0.1, 10.0)
    assert not progress.take(ONE, 0.2, 10.4)
    assert progress.take(TWO, 0.3, 10.4)
    assert progress.of(ONE) == 0.1
    assert progress.take(ONE, 0.2, 10.5)
    assert progress.of(ONE) == 0.2


@pytest.mark.parametrize(("said", "told"), [(-1.0, 0.0), (0.5, 0.5), (7.0, 1.0)])
def test_what_is_told_is_a_share(said: float, told: float) -> None:
    """Whatever a runtime says, its load is between nothing and whole."""
    progress = _progress(ONE)
    assert progress.take(ONE, said, 0.0)
    assert progress.of(ONE) == told


@pytest.mark.parametrize("said", [math.nan, math.inf])
def test_what_is_no_number_is_no_news(said: float) -> None:
    """It takes no time from the next one, either."""
    progress = _progress(ONE)
    assert not progress.take(ONE, said, 0.0)
    assert progress.of(ONE) is None
    assert progress.take(ONE, 0.5, 0.0)


def test_a_load_that_is_over_says_nothing() -> None:
    """Nothing is known of it, and ending twice is harmless."""
    progress = _progress(ONE)
    assert progress.take(ONE, 0.5, 0.0)
    progress.over(ONE)
    progress.over(ONE)
    assert progress.of(ONE) is None


def test_a_load_nobody_began_says_nothing() -> None:
    """News of a load that was called off come too late."""
    assert not _progress().take(ONE, 0.5, 0.0)


def test_what_gets_no_further_hangs() -> None:
    """Growth counts, however small and however soon it comes; repetition and less do not."""
    progress = _progress(ONE, TWO)
    assert progress.next_tick() == 60.0
    progress.take(ONE, 0.1, 30.0)
    progress.take(ONE, 0.11, 30.1)
    for now in (40.0, 50.0):
        progress.take(ONE, 0.11, now)
        progress.take(ONE, 0.05, now)
    assert progress.hung(59.9) == []
    assert progress.hung(60.0) == [TWO]
    assert progress.hung(60.0) == []
    assert progress.next_tick() == 90.1
    progress.over(ONE)
    assert progress.next_tick() is None
    assert progress.hung(1000.0) == []


def test_the_nodes_own_sleep_is_no_stall_of_a_load() -> None:
    """A load has its time again after the node itself did not run."""
    progress = _progress(ONE)
    progress.on_slept(100.0, 100.0)
    assert progress.hung(100.0) == []
    assert progress.next_tick() == 160.0
