"""Steps are put right by real prefills: larger by the quickest, smaller with reluctance."""

from __future__ import annotations

import pytest

from roost.backends.llama.prefills import PREFILLS_MIN, PROBE_TOKENS, STEP_MIN, Prefills


def fitting(ms_per_token: float, *, step: int, most: int = 256, busy: float = 5.0) -> int | None:
    """What is said after one quick prefill among others that took `busy` times as long."""
    prefills = Prefills(300, step, most)
    for _ in range(PREFILLS_MIN - 1):
        prefills.on_prefill(500, 500 * ms_per_token * busy)
    assert prefills.fitting() is None
    prefills.on_prefill(500, 500 * ms_per_token)
    return prefills.fitting()


@pytest.mark.parametrize(
    ("ms_per_token", "step", "expected"),
    [
        # Measured while the machine was busy: one quiet moment shows what it can do.
        (1.0, STEP_MIN, 256),
        (2.0, STEP_MIN, 128),
        (2.0, 128, 128),
        # A little too slow is no reason to round otherwise; far too slow is one.
        (1.3, 256, 256),
        (1.7, 256, 256),
        (1.8, 256, 128),
        (100.0, 256, STEP_MIN),
    ],
)
def test_the_quickest_of_many_says_what_fits(ms_per_token: float, step: int, expected: int) -> None:
    """The largest that fits the budget, and never more than was asked for."""
    assert fitting(ms_per_token, step=step) == expected
    assert fitting(0.001, step=min(step, 200), most=200) == 200


def test_little_prompts_say_nothing() -> None:
    """Of a few tokens most of the time is something else; nor does one without a budget learn."""
    prefills = Prefills(300, STEP_MIN, 256)
    for _ in range(100):
        prefills.on_prefill(PROBE_TOKENS - 1, 0.1)
        prefills.on_prefill(PROBE_TOKENS, 0.0)
    assert prefills.fitting() is None
    free = Prefills(0, 256, 256)
    for _ in range(100):
        free.on_prefill(500, 100_000.0)
    assert free.fitting() is None
