"""Vectors that are written as they come, and told at the end."""

from __future__ import annotations

from roost.core.events import Finished, Usage, Vectors
from roost.core.vectors import packed
from roost.dialects.vectors import Written, as_numbers

DONE = Finished("stop", Usage(prompt_tokens=3))


class Counting:
    """Writes vectors, and counts how many."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, row: bytes) -> bytes:
        """Write one."""
        self.count += 1
        return as_numbers(row)


def part(*firsts: float) -> Vectors:
    """Make vectors of two numbers that begin with these."""
    return Vectors(2, packed([(first, 0.0) for first in firsts]))


def told(vectors: Written, *parts: Vectors) -> list[bytes]:
    """Tell the end, with these parts before it."""
    for one in parts:
        assert vectors.event(one) is None
    assert vectors.event(DONE) == DONE.usage
    return list(vectors.texts())


def test_what_was_written_ahead_is_not_written_again() -> None:
    """At the end there is nothing left to do but to put it together, in its order."""
    write = Counting()
    vectors, parts = Written(3, write), (part(1.0, 2.0), part(3.0))
    for one in parts:
        vectors.ahead(one)
    assert write.count == 3
    assert told(vectors, *parts) == [b"[1.0,0.0]", b"[2.0,0.0]", b"[3.0,0.0]"]
    assert write.count == 3


def test_without_that_it_is_written_at_the_end() -> None:
    """Whoever does not hear of parts before loses nothing."""
    write = Counting()
    assert told(Written(2, write), part(1.0), part(2.0)) == [b"[1.0,0.0]", b"[2.0,0.0]"]
    assert write.count == 2


def test_an_attempt_that_came_to_nothing_is_in_no_reply() -> None:
    """Nor is it kept for ever: no more than one answer's worth, and a part, is."""
    write = Counting()
    vectors = Written(2, write)
    for _ in range(10):
        vectors.ahead(part(9.0))
    parts = part(1.0), part(2.0)
    for one in parts:
        vectors.ahead(one)
    assert told(vectors, *parts) == [b"[1.0,0.0]", b"[2.0,0.0]"]
    assert write.count == 12
