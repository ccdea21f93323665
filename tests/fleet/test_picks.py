"""Which node is passed over while others are busy, and when that is no wonder."""

from __future__ import annotations

import pytest

from roost.core.about import RuntimeAbout
from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.snapshots import RuntimeState, RuntimeView, SlotView
from roost.fleet.watching.picks import MODELS_MAX, PICKS, PICKS_MIN, Picks, Uneven
from roost.fleet.watching.runtime_views import RuntimeLine

M = ModelId("m")
A, B = NodeId("a"), NodeId("b")


def line(
    node: NodeId,
    slots: int = 4,
    pace: float | None = 50.0,
    state: RuntimeState = "ready",
    resident_s: float | None = 999.0,
) -> RuntimeLine:
    """A runtime of the model."""
    view = RuntimeView(
        M,
        "toy",
        state,
        RuntimeId(f"r-{node}"),
        tuple(SlotView(n, busy=False, tokens=0) for n in range(slots)),
        resident_s=resident_s,
    )
    figures = RuntimeAbout(RuntimeId(f"r-{node}"), decode_tokens_per_s=pace)
    return RuntimeLine(node, view, figures, 0, 0)


def picked(a: int, b: int) -> Picks:
    """So many picks of each, a second apart."""
    picks = Picks()
    for second, node in enumerate([A] * a + [B] * b):
        picks.on_pick(M, node, 2, 1, float(second))
    return picks


@pytest.mark.parametrize(
    ("a", "b", "lines", "node"),
    [
        (40, 0, (line(A), line(B)), B),
        (40, 4, (line(A), line(B)), B),
        (0, 40, (line(A), line(B)), A),
        (20, 20, (line(A), line(B)), None),
        (33, 7, (line(A), line(B)), None),
        # Few picks say nothing.
        (PICKS_MIN - 1, 0, (line(A), line(B)), None),
        # Few were due to it.
        (40, 0, (line(A, slots=16), line(B, slots=1)), None),
        # It is slower: that is why.
        (40, 0, (line(A, pace=50), line(B, pace=20)), None),
        (40, 0, (line(A, pace=50), line(B, pace=None)), B),
        # It was not there, or is not, or there is nobody else.
        (40, 0, (line(A), line(B, resident_s=10.0)), None),
        (40, 0, (line(A), line(B, resident_s=None)), None),
        (40, 0, (line(A), line(B, state="loading")), None),
        (40, 0, (line(A),), None),
    ],
)
def test_who_is_passed_over(
    a: int, b: int, lines: tuple[RuntimeLine, ...], node: NodeId | None
) -> None:
    """A node that could have had its share, had less than a quarter of it, and is no slower."""
    found = list(picked(a, b).uneven(lines, float(a + b)))
    assert [one.node for one in found] == ([] if node is None else [node])


def test_figures_are_those_of_the_last_picks() -> None:
    """How many it had, how many were due by its slots, of how many."""
    assert list(picked(200, 4).uneven([line(A), line(B)], 204.0)) == [
        Uneven(M, B, 4, PICKS // 2, PICKS)
    ]


def test_an_idle_fleet_may_have_a_favourite() -> None:
    """Nor is it a choice where nobody else had room."""
    picks = Picks()
    for second in range(99):
        picks.on_pick(M, A, 2, 0, float(second))
        picks.on_pick(M, A, 1, 3, float(second))
    assert list(picks.uneven([line(A), line(B)], 99.0)) == []


def test_models_are_bounded() -> None:
    """The one that was asked for longest ago is forgotten."""
    picks = picked(40, 0)
    for number in range(MODELS_MAX):
        picks.on_pick(ModelId(f"m{number}"), A, 2, 1, 50.0)
    assert list(picks.uneven([line(A), line(B)], 60.0)) == []
