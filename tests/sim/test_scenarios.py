"""Every scenario holds every claim over its seeds; the whole makes 200 runs and more."""

from __future__ import annotations

import pytest

from roost.sim.play import play
from roost.sim.run import replay, scenarios

SEEDS, MORE_SEEDS = range(1, 5), range(5, 11)
KNOWN = scenarios()


def test_there_are_enough_of_them() -> None:
    """At least ten scenarios and two hundred runs, each scenario with a claim of its own."""
    assert len(KNOWN) >= 10
    assert len(KNOWN) * len(SEEDS) >= 200
    assert len({scenario.claim for scenario in KNOWN.values()}) == len(KNOWN)


@pytest.mark.slow
@pytest.mark.parametrize("name", KNOWN)
def test_claims_hold(name: str) -> None:
    """No seed of the scenario violates any claim; a failure names the command that replays it."""
    _play(name, SEEDS)


@pytest.mark.drill
@pytest.mark.parametrize("name", KNOWN)
def test_claims_hold_over_more_seeds(name: str) -> None:
    """Of those there is no end; these are played where time matters less."""
    _play(name, MORE_SEEDS)


def _play(name: str, seeds: range) -> None:
    played = [play(KNOWN[name], name, seed) for seed in seeds]
    failed = [(one.violations, replay(one)) for one in played if one.violations]
    assert not failed
    assert all(one.requests > 5 and one.completed > 3 for one in played)
