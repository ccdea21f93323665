"""How full a memory is: levels, where they end, and when a pass is due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.snapshots import PRESSURES, Pressure
from roost.node.models.pressure import Change, Gauges, PressureSettings, Reading

SETTINGS = PressureSettings()


def gone(percent: float, capacity_bytes: int = 10_000) -> list[Reading]:
    """A memory of which so much has gone."""
    return [Reading("host", capacity_bytes, round(capacity_bytes * (100 - percent) / 100))]


def level(gauges: Gauges) -> Pressure:
    """The level of the only memory."""
    return next(pressure for _, pressure in gauges.readings())


def told(gauges: Gauges, percent: float) -> tuple[Pressure, float]:
    """The one change that this brings."""
    (change,) = gauges.read(gone(percent))
    return change.pressure, round(change.share, 2)


@pytest.mark.parametrize(
    ("percent", "expected"),
    [
        (0, "normal"),
        (74.9, "normal"),
        (75, "soft"),
        (84.9, "soft"),
        (85, "hard"),
        (94.9, "hard"),
        (95, "emergency"),
        (100, "emergency"),
    ],
)
def test_levels_begin_where_the_settings_say(percent: float, expected: Pressure) -> None:
    """75, 85 and 95 % of what there is."""
    gauges = Gauges(SETTINGS)
    gauges.read(gone(percent))
    assert level(gauges) == expected


def test_a_level_ends_five_points_below_its_begin() -> None:
    """Only changes are told, and not that a memory is as it should be from the start."""
    gauges = Gauges(SETTINGS)
    assert gauges.read(gone(10)) == []
    assert told(gauges, 76) == ("soft", 0.76)
    assert gauges.read(gone(74)) == gauges.read(gone(71)) == []
    assert told(gauges, 69) == ("normal", 0.69)
    assert told(gauges, 96) == ("emergency", 0.96)
    assert gauges.read(gone(91)) == []
    assert told(gauges, 89) == ("hard", 0.89)


def test_one_pass_for_each_rise() -> None:
    """What has not helped is not done again before the level has been left."""
    gauges, now = Gauges(SETTINGS), 0.0
    found = []
    for percent in (80, 86, 88, 86, 96, 97, 96, 79, 86):
        gauges.read(gone(percent))
        found.append(gauges.to_free(now))
        now += 10.0
    # Down to 80 %: five points below where the level begins.
    assert found == [{}, {"host": 600}, {}, {}, {"host": 1600}, {}, {}, {}, {"host": 600}]


def test_two_passes_are_apart() -> None:
    """What the first one frees has to show before a second one takes more."""
    gauges = Gauges(SETTINGS)
    gauges.read(gone(86))
    assert gauges.to_free(0.0)
    gauges.read(gone(96))
    assert gauges.to_free(4.9) == {}
    assert gauges.to_free(5.0) == {"host": 1600}


def test_unknown_is_no_pressure() -> None:
    """A memory that nobody tells of has no level, no pass and no bytes left."""
    gauges = Gauges(SETTINGS)
    for reading in (Reading("a", None, 5), Reading("a", 5, None), Reading("a", 0, 0)):
        assert gauges.read([reading]) == []
        assert level(gauges) == "unknown"
        assert gauges.to_free(100.0) == {}
    assert gauges.room_bytes("a") is not None  # of nothing, nothing is left
    assert gauges.room_bytes("nowhere") is None
    gauges.read(gone(96))
    assert gauges.read([Reading("host", None, None)]) == [Change("host", "unknown", 0.0)]
    assert gauges.room_bytes("host") is None


def test_the_last_part_is_nobodys() -> None:
    """Room ends where the memory counts as full."""
    gauges = Gauges(SETTINGS)
    gauges.read(gone(90))
    assert gauges.room_bytes("host") == 500
    gauges.read(gone(97))
    assert gauges.room_bytes("host") == -200


@given(steps=st.lists(st.floats(0, 100), max_size=40))
def test_levels_agree_with_a_naive_reading(steps: list[float]) -> None:
    """Whatever comes: at least the level of the share, at most that of the share and the slack."""
    gauges, plain, lenient = Gauges(SETTINGS), Gauges(SETTINGS), PressureSettings(0.7, 0.8, 0.9)
    highest = Gauges(lenient)
    for percent in steps:
        gauges.read(gone(percent))
        plain = Gauges(PressureSettings(slack=0.0))
        plain.read(gone(percent))
        highest = Gauges(PressureSettings(0.7, 0.8, 0.9, slack=0.0))
        highest.read(gone(percent))
        indexes = [PRESSURES.index(level(one)) for one in (plain, gauges, highest)]
        assert indexes == sorted(indexes)
