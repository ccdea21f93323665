"""The pace of a runtime: when silence means a hang."""

from __future__ import annotations

import pytest

from roost.node.floor.pace import DECODE_WINDOW, STEPS_MIN, Pace, PaceSettings

SETTINGS = PaceSettings(stall_s=30.0, stall_floor_s=5.0)


@pytest.mark.parametrize(("step_s", "patience_s"), [(0.01, 5.0), (1.25, 5.0), (10.0, 40.0)])
def test_four_times_the_slowest_step_once_enough_are_known(
    step_s: float, patience_s: float
) -> None:
    """Before that `stall_s` holds, afterwards never less than `stall_floor_s`."""
    pace = Pace(SETTINGS)
    for _ in range(STEPS_MIN - 1):
        pace.on_decode(step_s)
        assert pace.patience_s(prefill=False) == 30.0
    pace.on_decode(step_s)
    assert pace.patience_s(prefill=False) == patience_s


def test_prefill_and_decode_are_learned_apart() -> None:
    """Thousands of quick tokens do not make a slow prefill look like a hang."""
    pace = Pace(SETTINGS)
    for _ in range(STEPS_MIN):
        pace.on_prefill(20.0)
    for _ in range(10 * DECODE_WINDOW):
        pace.on_decode(0.05)
    assert pace.patience_s(prefill=True) == 80.0
    assert pace.patience_s(prefill=False) == 5.0


def test_one_slow_step_is_forgotten_in_time() -> None:
    """A runtime that stood still once does not stay beyond suspicion for ever."""
    pace = Pace(SETTINGS)
    pace.on_decode(25.0)
    for _ in range(DECODE_WINDOW):
        pace.on_decode(0.05)
    assert pace.patience_s(prefill=False) == 100.0
    for _ in range(2 * DECODE_WINDOW):
        pace.on_decode(0.05)
    assert pace.patience_s(prefill=False) == 5.0
