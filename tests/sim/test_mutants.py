"""Each defective machine is found by its known seed, by the claim that it breaks."""

from __future__ import annotations

import pytest

from roost.sim.mutants.catalogue import CATALOGUE, Mutant, found
from roost.sim.run import scenarios

KNOWN = scenarios()


def test_there_are_enough_of_them() -> None:
    """Forty and more, each with a name of its own."""
    assert len(CATALOGUE) >= 40
    assert len({mutant.name for mutant in CATALOGUE}) == len(CATALOGUE)


@pytest.mark.parametrize("mutant", CATALOGUE, ids=lambda mutant: mutant.name)
def test_mutant_is_found(mutant: Mutant) -> None:
    """Its seed shows it; with the production machines the same seeds pass (`test_scenarios`).

    A change of timing anywhere may move the seed: `roost sim --mutants` lists others that show it.
    """
    assert list(found(mutant, KNOWN, [mutant.seed])) == [mutant.seed]
