"""What has happened lately: bounded, what repeats counts, and whose business it is."""

from __future__ import annotations

import msgspec
import pytest

from roost.fleet.watching.happenings import (
    AGAIN_MS,
    FACT_CHARS_MAX,
    LOOK_BACK,
    SHOWN,
    Happening,
    Happenings,
)
from roost.observe.names import EVENTS


def said(book: Happenings, *, everything: bool = True) -> list[tuple[str, int]]:
    """Name the rows, newest first, and how often each has happened."""
    return [(row.event, row.times) for row in book.rows(everything=everything)]


def test_rows_are_bounded_and_newest_first() -> None:
    """What is too old gives way; a row says when, how bad, and the facts."""
    book = Happenings(rows=2)
    for number, name in enumerate(("node_joined", "node_state", "node_left")):
        book.note(name, "warning", {"node": "n"}, 1000 + number)
    assert said(book) == [("node_left", 1), ("node_state", 1)]
    first = book.rows(everything=True)[0]
    assert first == Happening(3, 1002, 1002, 1, "warning", "node_left", {"node": "n"})


def test_a_flood_is_one_row() -> None:
    """A thousand refusals do not push out the node that was lost before them."""
    book = Happenings(rows=4)
    book.note("node_left", "warning", {"node": "n"}, 0)
    for number in range(1000):
        facts = {"request": f"r{number}", "reason": "queue_full"}
        book.note("request_shed", "debug", facts, 10 + number)
        book.note("request_retried", "info", {"request": f"r{number}", "reason": "node_busy"}, 10)
    assert said(book) == [("request_retried", 1000), ("request_shed", 1000), ("node_left", 1)]
    shed = book.rows(everything=True)[1]
    assert (shed.first_ms, shed.at_ms, shed.facts["request"]) == (10, 1009, "r999")


def test_what_differs_or_is_long_ago_is_another_row() -> None:
    """Another reason, another node, another minute; far back nobody looks."""
    book = Happenings()
    book.note("request_shed", "debug", {"reason": "queue_full"}, 0)
    book.note("request_shed", "debug", {"reason": "queue_timeout"}, 0)
    book.note("request_shed", "debug", {"reason": "queue_full"}, AGAIN_MS + 1)
    assert said(book) == [("request_shed", 1)] * 3
    for number in range(LOOK_BACK):
        book.note("node_joined", "info", {"node": f"n{number}"}, AGAIN_MS + 2)
    book.note("request_shed", "debug", {"reason": "queue_full"}, AGAIN_MS + 3)
    assert said(book)[0] == ("request_shed", 1)


@pytest.mark.parametrize("private", ["request", "by", "token", "tenant"])
def test_what_somebody_asked_for_is_for_operators(private: str) -> None:
    """Others see what is of nobody in particular."""
    book = Happenings()
    book.note("operated", "info", {private: "ann"}, 0)
    book.note("node_joined", "info", {"node": "n"}, 0)
    assert said(book, everything=False) == [("node_joined", 1)]
    assert len(said(book)) == 2


def test_facts_are_plain_and_short() -> None:
    """What is no plain value is left out, what is long is cut; a row is JSON."""
    book = Happenings()
    book.note("operated", "info", {"what": "x" * 999, "no": object(), "n": 2, "is": True}, 0)
    (row,) = book.rows(everything=True)
    assert row.facts == {"what": "x" * FACT_CHARS_MAX, "n": 2, "is": True}
    assert msgspec.json.decode(msgspec.json.encode(row), type=Happening) == row


def test_all_that_is_shown_is_in_the_list_of_events() -> None:
    """So that the words are those of the log."""
    assert set(EVENTS) >= SHOWN
