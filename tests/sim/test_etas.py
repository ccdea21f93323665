"""Foretold waiting times against what came: a full fleet, for fixed seeds."""

from __future__ import annotations

import msgspec
import pytest

from roost.sim.etas import share_close, tabulate, waits, worlds
from roost.sim.run import scenarios

WORLDS = worlds(scenarios())


def test_close_is_within_thirty_percent_of_what_it_was() -> None:
    """Who was told nothing does not count."""
    assert share_close([(10.0, 12.9), (10.0, 13.1), (10.0, 7.1), (10.0, 6.9), (1.0, None)]) == 0.5
    assert share_close([]) == 0.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["equal, 1.1 times too much", "equal, twice too much"])
def test_most_waits_are_foretold_well(name: str) -> None:
    """Within thirty percent for four in five of those who queue."""
    short = msgspec.structs.replace(WORLDS[name], duration_s=50.0)
    pairs = waits(short, name, 1)
    assert len(pairs) > 150
    assert share_close(pairs) >= 0.8


@pytest.mark.slow
def test_a_row_for_each_world(capsys: pytest.CaptureFixture[str]) -> None:
    """The report names worlds, numbers and the whole."""
    tabulate(1, {"flood": WORLDS["flood"]})
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[0] for line in lines[2:]] == ["| flood", "| all"]
