"""Whether what a client is told of its home is true."""

from __future__ import annotations

import pytest

from roost.bench.drills.told import Told, lie

FIRST = Told("complete", node="a", placement="cold", prompt=100, answer=10)


def told(placement: str, node: str = "a", cached: int = 95, lost: int = 0) -> Told:
    """The turn after it."""
    return Told("complete", 200, node, placement, cached, lost, prompt=150, answer=5)


@pytest.mark.parametrize(
    ("before", "turn"),
    [
        (None, FIRST),
        (FIRST, told("warm")),
        (FIRST, told("lost", cached=0, lost=100)),
        (FIRST, told("lost", "b", cached=20, lost=95)),
        (FIRST, told("moved(home_busy)", "b", cached=0, lost=112)),
        (FIRST, told("moved(home_drained)", "b", cached=108)),
        (FIRST, told("moved(home_busy)", "a", cached=0, lost=100)),
        (FIRST, told("moved(compacted)", cached=9)),
    ],
)
def test_the_truth_is_no_lie(before: Told | None, turn: Told) -> None:
    """A home that kept its word, one that did not, and one that was left, at what that costs."""
    assert lie(before, turn) == ""


@pytest.mark.parametrize(
    ("before", "turn"),
    [
        (None, told("lost", cached=0, lost=100)),
        (None, told("warm")),
        (FIRST, told("cold", cached=0)),
        (FIRST, told("warm", "b")),
        (FIRST, told("warm", cached=49)),
        (FIRST, told("warm", lost=5)),
        (FIRST, told("lost", cached=0, lost=99)),
        (FIRST, told("moved(home_busy)", "b", cached=0)),
        (FIRST, told("moved(home_busy)", "b", cached=20, lost=120)),
        (FIRST, told("moved(home_busy)", "a")),
        (FIRST, told("moved(compacted)", cached=0, lost=100)),
        (told("warm"), told("warm")),
    ],
)
def test_a_lie_is_found(before: Told | None, turn: Told) -> None:
    """Each is wrong in one way: in its label, its place, its cost, or its past."""
    assert lie(before, turn)
