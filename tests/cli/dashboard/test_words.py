"""Figures in a few characters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.cli.dashboard import words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "-"),
        (-1.0, "0.0s"),
        (0.44, "0.4s"),
        (42.4, "42s"),
        (59.9, "1m00s"),
        (190, "3m10s"),
        (7500, "2h05m"),
        (356_400, "4d03h"),
    ],
)
def test_times(seconds: float | None, text: str) -> None:
    """What is not known is no 0."""
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(None, "-"), (0, "0"), (950, "950"), (1234, "1.2k"), (34_000, "34k"), (999_600, "1.0M")],
)
def test_counts(number: float | None, text: str) -> None:
    """Never more than five characters below a thousand billions."""
    assert words.count(number) == text


@pytest.mark.parametrize(
    ("number", "text"), [(None, "-"), (0, "0"), (3.44, "3.4"), (9.96, "10"), (123.4, "123")]
)
def test_rates(number: float | None, text: str) -> None:
    """A rate of 0 is known; slow ones have a decimal."""
    assert words.rate(number) == text


def test_bars_show_that_there_is_something() -> None:
    """A little is seen, full is full, unknown is empty."""
    assert words.bar(0.01, 4) == "█░░░"
    assert words.bar(0.0, 4) == "░░░░"
    assert words.bar(1.0, 4) == "████"
    assert words.bar(None, 4) == "    "
    assert (words.percent(0.534), words.percent(None)) == (" 53%", "   -")
    assert (words.share(3, 2), words.share(1, 4), words.share(1, 0)) == (1.0, 0.25, None)


def test_curves_are_of_the_last_values() -> None:
    """The highest one is a full block; nothing at all is flat."""
    assert words.sparkline([9.0, 0.0, 4.0, 8.0], 3) == "▁▅█"
    assert words.sparkline([0.0, 0.0], 9) == "▁▁"
    assert words.sparkline([], 9) == ""


@given(st.text(max_size=40), st.integers(0, 20))
def test_what_is_cut_fits(text: str, width: int) -> None:
    """And shows that it is cut."""
    cut = words.clipped(text, width)
    assert len(cut) <= width or text == ""
    assert cut in (text, "") or cut.endswith("…")
