"""Many processes play what one would: the same logs, in the order asked for."""

from __future__ import annotations

import pytest

from roost.sim import batch
from roost.sim.batch import Job
from roost.sim.mutants.catalogue import CATALOGUE
from roost.sim.run import scenarios

KNOWN = scenarios()
QUIET = [Job(KNOWN["cold_start"], "cold_start", seed) for seed in range(1, batch.WORTH + 1)]


@pytest.mark.slow
def test_processes_change_no_log() -> None:
    """A run is a world of its own, wherever it is played."""
    apart = list(batch.played(QUIET, processes=2))
    assert [run.seed for run in apart] == [job.seed for job in QUIET]
    here = list(batch.played(QUIET[:3], processes=1))
    assert [run.digest for run in here] == [run.digest for run in apart[:3]]


def test_few_runs_stay_here() -> None:
    """No process is started for what is over sooner."""
    runs = list(batch.played(QUIET[:2], processes=8))
    assert [(run.scenario, run.seed) for run in runs] == [("cold_start", 1), ("cold_start", 2)]
    assert batch.cores() >= 1


def test_a_mutant_is_found_by_its_place() -> None:
    """The catalogue's place travels, because a defective machine cannot."""
    place = next(n for n, mutant in enumerate(CATALOGUE) if mutant.scenario == "cold_start")
    mutant = CATALOGUE[place]
    job = Job(KNOWN[mutant.scenario], mutant.scenario, mutant.seed, place)
    assert list(batch.killed([job], processes=1)) == [True]
