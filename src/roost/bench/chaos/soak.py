"""DECIDER: whether processes hold more and more while nothing about their load changes.

What a process holds goes up and down with its load; what it never gives back raises the least of
it. So the least of a later time is held against the least of an earlier one, after a first part in
which models are loaded and caches fill.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

import msgspec

READINGS_MIN = 30
"""A process that was looked at less often has not lived long enough to be judged."""
MIB = 2**20


class Reading(msgspec.Struct, frozen=True):
    """One look at one process, `at_s` since the load began; `tasks` of its loop where it tells."""

    at_s: float
    process: str
    pid: int
    rss_bytes: int
    descriptors: int
    threads: int
    tasks: int | None = None


class Growth(NamedTuple):
    """The least of a figure in the middle third of a process's time, and in the last."""

    process: str
    figure: str
    early: float
    late: float
    slack: float

    @property
    def leaks(self) -> bool:
        """Whether it is more than what comes and goes."""
        return self.late > self.early + self.slack

    def __str__(self) -> str:
        return f"{self.process}: {self.figure} {self.early:g}, later {self.late:g}"


class _Figure(NamedTuple):
    """What is compared, and how much of it may come by itself: so much, and such a share."""

    name: str
    of: Callable[[Reading], float | None]
    slack: float
    share: float = 0.0


FIGURES = (
    _Figure("MiB", lambda one: round(one.rss_bytes / MIB, 1), 2.0, 0.04),
    _Figure("descriptors", lambda one: one.descriptors, 3.0),
    # A pool of threads is filled one by one, whenever more calls than before wait at once.
    _Figure("threads", lambda one: one.threads, 8.0),
    _Figure("tasks", lambda one: one.tasks, 3.0),
)


def growths(readings: Iterable[Reading]) -> list[Growth]:
    """Compare every process that was looked at often enough with itself."""
    lives: dict[tuple[str, int], list[Reading]] = {}
    for one in readings:
        lives.setdefault((one.process, one.pid), []).append(one)
    return [found for life in lives.values() for found in _grown(life)]


def _grown(life: Sequence[Reading]) -> Iterator[Growth]:
    third = len(life) // 3
    if len(life) < READINGS_MIN:
        return
    for figure in FIGURES:
        early, late = (
            [value for one in part if (value := figure.of(one)) is not None]
            for part in (life[third : 2 * third], life[2 * third :])
        )
        if early and late:
            slack = figure.slack + figure.share * min(early)
            yield Growth(life[0].process, figure.name, min(early), min(late), slack)
