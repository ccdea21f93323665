"""The guard of one stream: the legal order, credit, numbering, and what ends it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.events import (
    Delta,
    Failed,
    Finished,
    PrefillProgress,
    Started,
    StreamEvent,
    Usage,
    Vectors,
)
from roost.core.ids import StreamId
from roost.errors import Failure
from roost.wire.messages import Events, Phase, Refused, Released
from roost.wire.stream_guard import StreamGuard

ONE = StreamId(1)
FAILURE = Failure("runtime_died", "it died")
STARTED, PREFILL, DELTA = Started(3, 0, 0), PrefillProgress(1, 3), Delta("a")
DONE, FAILED = Finished("stop", Usage()), Failed(FAILURE)
SOME = Vectors(1, bytes(4))
RELEASED = Released(ONE, "done")


def _feed(guard: StreamGuard, *events: StreamEvent) -> str | None:
    for seq, event in enumerate(events):
        complaint = guard.on_message(Events(ONE, seq, (event,)))
        if complaint is not None:
            return complaint
    return None


@pytest.mark.parametrize(
    "events",
    [
        (STARTED, PREFILL, PREFILL, DELTA, DELTA, DONE),
        (STARTED, DONE),
        (STARTED, FAILED),
        (PREFILL, DELTA, FAILED),
        (STARTED, PREFILL, SOME, SOME, DONE),
        (SOME, FAILED),
        (DELTA, DONE),
        (FAILED,),
        (DONE,),
    ],
)
def test_legal_orders(events: tuple[StreamEvent, ...]) -> None:
    """Every order the vocabulary allows passes, singly and in one message, and then Released."""
    guard = StreamGuard(credit=9)
    assert _feed(guard, *events) is None
    assert guard.on_message(RELEASED) is None
    whole = StreamGuard(credit=1)
    assert whole.on_message(Events(ONE, 0, events)) is None
    assert whole.stage == "ended"


@pytest.mark.parametrize(
    "events",
    [
        (STARTED, STARTED),
        (PREFILL, STARTED),
        (STARTED, DELTA, PREFILL),
        (STARTED, DONE, DELTA),
        (FAILED, FAILED),
        (DONE, FAILED),
        (SOME, DELTA),
        (DELTA, SOME),
        (SOME, STARTED),
        (SOME, PREFILL),
        (SOME, DONE, SOME),
    ],
)
def test_illegal_orders(events: tuple[StreamEvent, ...]) -> None:
    """An event out of order is a complaint, and the stream stays where it was."""
    guard = StreamGuard(credit=9)
    assert _feed(guard, *events) is not None
    whole = StreamGuard(credit=9)
    assert whole.on_message(Events(ONE, 0, events)) is not None
    assert whole.stage == "opened"
    assert whole.on_message(Events(ONE, 0, (DELTA,))) is None


def test_credit_is_counted_per_message() -> None:
    """Without credit nothing may come; one credit carries any number of events."""
    guard = StreamGuard(credit=1)
    assert guard.on_message(Events(ONE, 0, (STARTED, DELTA))) is None
    assert guard.on_message(Events(ONE, 2, (DELTA,))) == "sent Events without credit"
    guard.on_credit(1)
    assert guard.on_message(Events(ONE, 2, (DELTA,))) is None


def test_gaps_and_repetitions_are_noticed() -> None:
    """The number of a message is the index of its first event."""
    guard = StreamGuard(credit=9)
    assert guard.on_message(Events(ONE, 0, (STARTED, DELTA))) is None
    for seq in (0, 1, 3):
        assert guard.on_message(Events(ONE, seq, (DELTA,))) is not None
    assert guard.on_message(Events(ONE, 2, (DELTA,))) is None


def test_an_empty_message_is_illegal() -> None:
    """Events without events would burn credit for nothing."""
    assert StreamGuard(credit=1).on_message(Events(ONE, 0, ())) is not None


def test_phases_come_before_the_first_event() -> None:
    """A stream that has begun waits for nothing any more."""
    guard = StreamGuard(credit=9)
    assert guard.on_message(Phase(ONE, "loading", 0.1)) is None
    assert guard.on_message(Phase(ONE, "preparing")) is None
    assert _feed(guard, STARTED) is None
    assert guard.on_message(Phase(ONE, "loading")) == "sent Phase for a stream that is started"


def test_refused_ends_a_stream_that_has_not_begun() -> None:
    """After Refused only Released may follow; after an event a refusal is a lie."""
    guard = StreamGuard(credit=9)
    assert guard.on_message(Refused(ONE, FAILURE)) is None
    assert guard.on_message(Refused(ONE, FAILURE)) is not None
    assert _feed(guard, STARTED) is not None
    assert guard.on_message(RELEASED) is None
    begun = StreamGuard(credit=9)
    assert _feed(begun, STARTED) is None
    assert begun.on_message(Refused(ONE, FAILURE)) is not None


def test_released_needs_an_end_or_a_cancel() -> None:
    """Nobody is left without an answer, except those who asked for none."""
    guard = StreamGuard(credit=9)
    assert guard.on_message(RELEASED) == "released a stream without ending it"
    guard.cancelled = True
    assert guard.on_message(RELEASED) is None


EVENTS = st.sampled_from([STARTED, PREFILL, DELTA, DONE, FAILED])


@given(st.lists(EVENTS, min_size=1, max_size=8))
def test_the_table_says_what_the_grammar_says(events: list[StreamEvent]) -> None:
    """The guard accepts exactly Started? PrefillProgress* Delta* terminal? and its prefixes."""
    rank = {Started: 0, PrefillProgress: 1, Delta: 2, Finished: 3, Failed: 3}
    ranks = [rank[type(e)] for e in events]
    once = ranks.count(0) <= 1 and ranks.count(3) <= 1
    legal = once and ranks == sorted(ranks)

    complaint = StreamGuard(credit=1).on_message(Events(ONE, 0, tuple(events)))

    assert (complaint is None) is legal
