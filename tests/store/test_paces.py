"""What was measured of steps is remembered for its machine and key alone."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roost.store.home import Home
from roost.store.paces import ENTRIES_MAX, Paces


def test_what_is_noted_is_known_again(tmp_path: Path) -> None:
    """On this machine, by this key, whoever opens it; the newest word counts."""
    home = Home.open(tmp_path)
    paces = Paces(home, "cpu 2")
    assert paces.step_of("a") == 0
    paces.note("a", 64)
    paces.note("b", 32)
    paces.note("a", 128)
    again = Paces(home, "cpu 2")
    assert (again.step_of("a"), again.step_of("b")) == (128, 32)
    assert Paces(home, "cpu 4").step_of("a") == 0


def test_the_oldest_go_first(tmp_path: Path) -> None:
    """There is a most that is remembered."""
    home = Home.open(tmp_path)
    known = {f"cpu {number}": 32 for number in range(ENTRIES_MAX)}
    (home.root / "paces.json").write_text(json.dumps(known))
    paces = Paces(home, "cpu")
    paces.note("one more", 32)
    assert (paces.step_of("0"), paces.step_of("1")) == (0, 32)


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"cpu a": "x"}', '{"cpu a": -1}'])
def test_a_damaged_file_is_begun_anew(content: str, tmp_path: Path) -> None:
    """Nothing is known then, and something can be noted."""
    home = Home.open(tmp_path)
    (home.root / "paces.json").write_text(content)
    paces = Paces(home, "cpu")
    assert paces.step_of("a") == 0
    paces.note("a", 64)
    assert paces.step_of("a") == 64
