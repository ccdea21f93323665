"""Stop strings are found across pieces, nothing of them leaks and nothing else is lost."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.text.stops import StopFilter


def _run(stops: list[str], pieces: list[str]) -> tuple[str, str | None]:
    filter_ = StopFilter(stops)
    emitted, hit = "", None
    for piece in pieces:
        emit, hit = filter_.push(piece)
        emitted += emit
    return emitted + filter_.finish(), hit


def _naive(stops: list[str], text: str) -> tuple[str, str | None]:
    """Look for the stop string that is complete first, the longest of several, at every place."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if text[:end].endswith(stop)]
        if ending:
            hit = max(ending, key=len)
            return text[: end - len(hit)], hit
    return text, None


def test_a_stop_string_over_several_pieces() -> None:
    """The client gets what stands before the stop string, and not a letter of it."""
    pieces = ["Tea, ", "mil", "k an", "d su", "gar, rice"]
    assert _run(["milk and sugar"], pieces) == ("Tea, ", "milk and sugar")


def test_held_text_is_released_once_ruled_out() -> None:
    """A false beginning is held, then given out in full, except what may begin anew."""
    filter_ = StopFilter(["abac"])
    assert filter_.push("xaba") == ("x", None)
    assert filter_.held == "aba"
    assert filter_.push("b") == ("ab", None)
    assert filter_.push("ac!") == ("", "abac")


def test_the_end_releases_what_is_held() -> None:
    """Text that only looked like a stop string is not lost when the answer ends there."""
    filter_ = StopFilter(["stop"])
    assert filter_.push("please sto") == ("please ", None)
    assert filter_.finish() == "sto"
    assert filter_.push("p") == ("p", None)


def test_no_stops_hold_nothing() -> None:
    """Without stop strings every piece passes unchanged."""
    assert StopFilter().push("anything <") == ("anything <", None)


def test_after_a_hit_nothing_passes() -> None:
    """What the model says after its stop string is swallowed."""
    filter_ = StopFilter(["\n"])
    assert filter_.push("a\nb") == ("a", "\n")
    assert filter_.push("c") == ("", "\n")
    assert filter_.finish() == ""


def test_the_first_complete_stop_wins() -> None:
    """A stop inside a longer one ends the text first; of two at one end the longer counts."""
    assert _run(["abcd", "bc"], ["xabcd"]) == ("xa", "bc")
    assert _run(["and sugar", "milk and sugar"], ["milk and sugar"]) == ("", "milk and sugar")


def test_characters_special_to_patterns() -> None:
    """Stop strings of brackets, carets and dashes are plain text."""
    assert _run(["]^-", "[["], ["a]b^c-d[", "[e"]) == ("a]b^c-d", "[[")


def test_an_empty_stop_is_refused() -> None:
    """An empty stop string would stop at once and is a mistake of the caller."""
    with pytest.raises(ValueError, match="empty"):
        StopFilter(["x", ""])


_text = st.text("ab\n", max_size=12)


@given(st.lists(st.text("ab\n", min_size=1, max_size=5), max_size=4), st.lists(_text, max_size=8))
def test_like_the_naive_search(stops: list[str], pieces: list[str]) -> None:
    """For any stop strings and any pieces the outcome is the naive search's on the whole text."""
    assert _run(stops, pieces) == _naive(stops, "".join(pieces))


@given(st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=4), _text)
def test_no_more_is_held_than_may_begin_a_stop(stops: list[str], text: str) -> None:
    """What is held is the longest end of the text that begins a stop string."""
    filter_ = StopFilter(stops)
    _, hit = filter_.push(text)
    ends = [text[n:] for n in range(len(text) + 1)]
    longest = next(end for end in ends if any(stop.startswith(end) for stop in stops))
    assert filter_.held == ("" if hit else longest)


def test_the_worst_text_costs_linear_time() -> None:
    """A long text of false beginnings takes no longer per character than a short one."""
    started = time.process_time()
    emitted, hit = _run(["a" * 999 + "b"], ["a" * 1000] * 100)
    assert (len(emitted), hit) == (100_000, None)
    # The quadratic search takes minutes; the bound only tells these two apart.
    assert time.process_time() - started < 2.0
