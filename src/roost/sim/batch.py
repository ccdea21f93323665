"""SHELL: many runs in as many processes as there are cores; results come in the order asked for.

Every run is a world of its own, so nothing is shared, and how many processes play changes no log.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

import msgspec

from roost.sim.mutants.catalogue import CATALOGUE, found
from roost.sim.play import Played, play
from roost.sim.scenario import Scenario

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 4
"""Runs that a process gets at a time."""
WORTH = 16
"""Fewer runs than this are over before a second process has started."""


class Job(msgspec.Struct, frozen=True):
    """One run: of the production machines, or of the mutant at this place in the catalogue."""

    scenario: Scenario
    name: str
    seed: int
    mutant: int | None = None


def cores() -> int:
    """How many processes can compute at the same time here."""
    return len(os.sched_getaffinity(0))


def played(jobs: Sequence[Job], processes: int) -> Iterator[Played]:
    """Play these; logs are not kept."""
    return _each(_play, jobs, processes)


def killed(jobs: Sequence[Job], processes: int) -> Iterator[bool]:
    """Whether each of these runs finds its mutant."""
    return _each(_kill, jobs, processes)


def _play(job: Job) -> Played:
    return play(job.scenario, job.name, job.seed)


def _kill(job: Job) -> bool:
    assert job.mutant is not None, "a production machine has nothing to be found"
    return any(found(CATALOGUE[job.mutant], {job.name: job.scenario}, [job.seed]))


def _each(task: Callable[[T], R], things: Sequence[T], processes: int) -> Iterator[R]:
    if processes <= 1 or len(things) < WORTH:
        yield from map(task, things)
        return
    # Spawned and not forked: a child shares no lock and no buffered output with this process.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        yield from pool.map(task, things, chunksize=AT_ONCE)
