"""The search for the most users: it finds the level that is there, in few plays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.bench.load.search import Search

BOUNDS = ("admission", "slo")


def played(search: Search, carries: dict[str, int]) -> list[int]:
    """Play what is asked for against a server that carries so many users within each bound."""
    levels: list[int] = []
    while (users := search.next_level()) is not None:
        assert len(levels) < 200, "a search ends"
        levels.append(users)
        search.on_played(users, {name: float(users - most) for name, most in carries.items()})
    return levels


@given(st.integers(0, 80), st.integers(0, 80), st.integers(1, 70), st.integers(1, 4))
def test_what_is_there_is_found(admission: int, slo: int, users_max: int, repeats: int) -> None:
    """For every bound, or the highest level where nothing breaks it; nothing lies above that."""
    search = Search(BOUNDS, users_max, repeats, 1)
    levels = played(search, {"admission": admission, "slo": slo})
    assert search.found("admission") == min(admission, users_max)
    assert search.found("slo") == min(slo, users_max)
    assert max(levels) <= users_max
    assert max(levels.count(level) for level in levels) <= max(repeats, 1)


def test_coarse_levels_double_and_fine_ones_halve() -> None:
    """Once each up to the first that broke everything, then in between, three times each."""
    search = Search(("slo",), 64, 3, 1)
    levels = played(search, {"slo": 5})
    assert levels[:4] == [1, 2, 4, 8]
    assert levels[4:] == [8, 8, 4, 4, 6, 6, 6, 5, 5, 5]


def test_a_step_is_how_fine_it_is() -> None:
    """With steps of four, five and six are not told apart from four."""
    search = Search(("slo",), 64, 1, 4)
    assert played(search, {"slo": 6}) == [1, 2, 4, 8]
    assert search.found("slo") == 4


def test_one_bad_play_of_three_does_not_count() -> None:
    """A level that broke once by accident holds by its median."""
    search = Search(("slo",), 4, 3, 1)
    accidents = iter([1.0])
    while (users := search.next_level()) is not None:
        search.on_played(users, {"slo": next(accidents, -1.0) if users == 2 else -1.0})
    assert search.found("slo") == 4


@pytest.mark.parametrize("numbers", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_search_needs_numbers(numbers: tuple[int, int, int]) -> None:
    """Of at least one."""
    with pytest.raises(ValueError, match="at least 1"):
        Search(("slo",), *numbers)
