"""The agent: how a request ends before its time: cancels, lost links, deadlines, slow readers."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.events import Delta, Failed, PrefillProgress, Started, Usage
from roost.core.ids import StreamId
from roost.core.snapshots import SlotView
from roost.node.effects import Pause, Send, Stop
from roost.wire.messages import Events, Released
from tests.node.kit import (
    ANSWER,
    FINISHED,
    MODEL,
    SETTINGS,
    STARTED,
    Node,
    key,
    offer,
    open_message,
    prepared,
    reason_of,
    sent,
)

# Cancellation.


def test_cancel_while_loading() -> None:
    """Released at once; the load goes on for the next, and tells nobody."""
    node = Node()
    node.open(1)
    assert node.cancel(1) == sent(Released(StreamId(1), "waiting", 0.0))
    assert node.loaded() == []
    assert node.is_at_rest()


def test_cancel_while_preparing() -> None:
    """The work is stopped and released when it has been left; a late result is ignored."""
    node = Node()
    node.open(1)
    node.loaded()
    assert node.cancel(1) == [Stop(key(1))]
    assert node.cancel(1) == []
    assert node.prepared(1) == []
    node.now += 0.25
    assert node.closed(1) == sent(Released(StreamId(1), "waiting", 0.25))
    assert node.closed(1) == []
    assert node.is_at_rest()


@pytest.mark.parametrize(
    ("events", "phase", "kept"),
    [
        ((), "prefill", 0),
        ((STARTED, PrefillProgress(2, 3)), "prefill", 2),
        ((STARTED, Delta("a", 2)), "decode", 5),
    ],
)
def test_cancel_while_running(events: tuple[Started, ...], phase: str, kept: int) -> None:
    """Stopped, released with the time it took, and the slot's content known as far as it went."""
    node = Node()
    node.run(1)
    node.event(1, *events)
    assert node.cancel(1) == [Stop(key(1))]
    assert node.event(1, Delta("late")) == []
    node.now += 0.25
    (send,) = node.closed(1)
    assert isinstance(send, Send)
    assert send.message == msgspec.structs.replace(Released(StreamId(1), "done", 0.25), phase=phase)
    assert node.agent.status().runtimes[0].slots[0] == SlotView(0, busy=False, tokens=kept)


def test_cancel_after_the_answer_was_complete() -> None:
    """Between the last event and the free slot it stops; while only credit is missing it ends."""
    node = Node()
    node.run(1)
    node.event(1, *ANSWER)
    assert node.cancel(1) == [Stop(key(1))]
    assert node.closed(1) == sent(Released(StreamId(1), "done", 0.0))
    node.serve(2, credit=0)
    assert node.cancel(2) == sent(Released(StreamId(2), "done"))
    assert node.is_at_rest()


def test_cancel_and_credit_for_a_released_stream_are_ignored() -> None:
    """They crossed the Released on the wire."""
    node = Node()
    node.serve(1)
    assert node.cancel(1) == node.credit(1, 5) == []


def test_a_lost_link_cancels_its_streams_and_only_its_own() -> None:
    """In every phase; nothing is said to a link that is gone, and the other link goes on."""
    node = Node(msgspec.structs.replace(SETTINGS, max_in_flight=9), offer(MODEL, 2))
    node.run(1)
    node.take(node.agent.on_link_up(2, node.now))
    for stream in (1, 2, 3):
        node.take(node.agent.on_message(2, open_message(stream), node.now))
    for stream in (1, 2):
        node.take(node.agent.on_prepared(key(stream, 2), prepared(), node.now))
    node.fresh()
    node.take(node.agent.on_link_down(2, node.now))
    assert node.fresh() == [Stop(key(1, 2)), Stop(key(3, 2))]
    for stream in (1, 3):
        node.take(node.agent.on_closed(key(stream, 2), None, node.now))
    assert node.fresh() == []
    assert node.event(1, *ANSWER)
    node.closed(1)
    assert node.is_at_rest()
    assert node.said(link=2) == []
    assert node.agent.statistics().links == 1
    assert node.agent.on_link_down(2, node.now) == []


# Deadlines.


def test_a_deadline_before_the_start_is_a_refusal() -> None:
    """Nothing had been started, so that is what is said; loading and waiting end at once."""
    node = Node(msgspec.structs.replace(SETTINGS, max_in_flight=2), offer(MODEL, 1))
    node.open(1, deadline_s=1.0)
    assert node.agent.next_tick() is not None
    assert node.tick(0.99) == []
    refused, released = node.tick(0.01)
    assert isinstance(refused, Send)
    assert reason_of(refused.message) == "deadline"
    assert released == sent(Released(StreamId(1), "waiting"))[0]
    node.loaded()
    node.run(2)
    node.open(3, deadline_s=1.0)
    node.prepared(3)
    assert node.tick(1.0) == sent(*node.said(3))


def test_a_deadline_while_preparing_stops_the_work() -> None:
    """The refusal is sent at once and the release when the work has been left."""
    node = Node()
    node.open(1, deadline_s=1.0)
    node.loaded()
    refused, stop = node.tick(1.0)
    assert isinstance(refused, Send)
    assert reason_of(refused.message) == "deadline"
    assert stop == Stop(key(1))
    assert node.closed(1) == sent(Released(StreamId(1), "waiting"))


def test_a_deadline_while_running_is_a_failed_end() -> None:
    """One terminal event with what was spent, then the release; no tick does it twice."""
    node = Node()
    node.run(1, deadline_s=1.0)
    node.event(1, STARTED, Delta("ab", 2))
    event, stop = node.tick(1.0)
    assert isinstance(event, Send)
    assert isinstance(event.message, Events)
    (failed,) = event.message.events
    assert isinstance(failed, Failed)
    assert (failed.failure.reason, failed.usage) == ("deadline", Usage(3, 0, 2))
    assert stop == Stop(key(1))
    assert node.tick(1.0) == node.event(1, Delta("late")) == []
    assert node.closed(1) == sent(Released(StreamId(1), "decode"))


# Credit.


def test_a_stream_that_leaves_is_neither_paused_nor_resumed() -> None:
    """Credit for the last words of a stream that was stopped says nothing to its backend."""
    node = Node(msgspec.structs.replace(SETTINGS, outbox_events_max=1))
    node.run(1, credit=0, deadline_s=1.0)
    assert node.event(1, STARTED) == [Pause(key(1), paused=True)]
    assert node.tick(1.0) == [Stop(key(1))]
    assert [type(e) for e in node.credit(1, 1)] == [Send]


def test_without_credit_a_finished_stream_frees_its_slot_and_keeps_its_words() -> None:
    """The slot does not wait for the reader; Released does."""
    node = Node()
    node.run(1, credit=0)
    node.event(1, *ANSWER)
    assert node.closed(1) == []
    assert node.agent.status().in_flight == 0
    assert [s.busy for s in node.agent.status().runtimes[0].slots] == [False, False]
    assert node.credit(1, 1) == sent(
        Events(StreamId(1), 0, (STARTED, Delta("ab", 2), FINISHED)), Released(StreamId(1), "done")
    )
