"""The line: order, return to the front, positions told once."""

from __future__ import annotations

import pytest

from roost.core.ids import ModelId, RequestId
from roost.fleet.waiting import Entry, Waiting


def entry(name: str, model: str = "m") -> Entry:
    """One waiting request."""
    return Entry(RequestId(name), ModelId(model))


def line(*names: str) -> Waiting:
    """A line of these requests."""
    waiting = Waiting()
    for name in names:
        waiting.append(entry(name))
    return waiting


def test_order_and_return_to_the_front() -> None:
    """Arrivals go to the end, those who come back to the front."""
    waiting = line("a", "b")
    waiting.push_front(entry("c", "n"))
    assert [one.request for one in waiting.entries()] == ["c", "a", "b"]
    assert waiting.by_model() == {"n": 1, "m": 2}


def test_removed_once() -> None:
    """Leaving twice is no error and changes nothing."""
    waiting = line("a", "b")
    assert RequestId("a") in waiting
    assert waiting.remove(RequestId("a"))
    assert not waiting.remove(RequestId("a"))
    assert len(waiting) == 1


def test_waiting_twice_is_a_defect() -> None:
    """A request has one place in line."""
    waiting = line("a")
    with pytest.raises(AssertionError, match="waits once"):
        waiting.append(entry("a"))


def test_news_are_told_once() -> None:
    """Only changes of place or length are news."""
    waiting = line("a", "b")
    assert waiting.tell_last() == ("b", 2, 2)
    assert waiting.news() == [("a", 1, 2)]
    assert waiting.news() == []
    waiting.remove(RequestId("a"))
    assert waiting.news() == [("b", 1, 1)]


def test_entries_may_leave_while_looked_at() -> None:
    """The walk along the line is over a copy."""
    waiting = line("a", "b", "c")
    for one in waiting.entries():
        waiting.remove(one.request)
    assert len(waiting) == 0
