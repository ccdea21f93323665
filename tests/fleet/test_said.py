"""What is kept of an answer: every id or none."""

from __future__ import annotations

import pytest

from roost.core.events import Delta
from roost.fleet.streams.said import Said


def test_ids_are_kept_in_order() -> None:
    """As they came, over any number of deltas."""
    said = Said(10)
    for delta in (Delta("a", 1, ids=(7,)), Delta("bc", 2, ids=(8, 9))):
        said.add(delta)
    assert (said.resumable, said.tokens, said.ids) == (True, 3, (7, 8, 9))


@pytest.mark.parametrize(
    "gap", [Delta("b", 1), Delta("b", 2, ids=(8,)), Delta("bcde", 4, ids=(1, 2, 3, 4))]
)
def test_a_gap_or_too_much_ends_it_for_good(gap: Delta) -> None:
    """Half of an answer is no beginning of it; tokens are counted on."""
    said = Said(4)
    said.add(Delta("a", 1, ids=(7,)))
    said.add(gap)
    said.add(Delta("c", 1, ids=(9,)))
    assert not said.resumable
    assert said.tokens == 2 + gap.tokens
    with pytest.raises(AssertionError, match="not known whole"):
        said.ids  # noqa: B018 - reading it is what fails


def test_as_many_as_allowed_are_kept() -> None:
    """The limit itself is within it."""
    said = Said(2)
    said.add(Delta("ab", 2, ids=(1, 2)))
    assert said.resumable
