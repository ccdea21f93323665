"""The outbox: nothing lost, nothing out of order, never more messages than credit, bounded."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.core.events import Delta, Finished, PrefillProgress, Started, StreamEvent, Usage
from roost.core.ids import StreamId
from roost.node.outbox import Outbox, Outflow
from roost.wire.messages import Events

ONE = StreamId(1)
DONE = Finished("stop", Usage())


def _events(seq: int, *events: StreamEvent) -> Outflow:
    return Outflow((Events(ONE, seq, events),))


def test_with_credit_every_event_leaves_at_once() -> None:
    """One event, one message, one credit; nothing is held back for company."""
    box = Outbox(ONE, credit=3, events_max=8)
    assert box.on_event(Started(3, 0, 0)) == _events(0, Started(3, 0, 0))
    assert box.on_event(Delta("a")) == _events(1, Delta("a"))
    assert box.on_event(Delta("b")) == _events(2, Delta("b"))
    assert box.on_event(Delta("c")) == Outflow()
    assert (box.sent, box.is_empty) == (3, False)


def test_what_waits_leaves_in_one_message_with_deltas_merged() -> None:
    """Order and text are kept; neighbours become one; one credit pays for all."""
    box = Outbox(ONE, credit=0, events_max=8)
    waiting: list[StreamEvent] = [Started(3, 0, 0), Delta("a"), Delta("b", 2), DONE]
    assert [box.on_event(event) for event in waiting] == [Outflow()] * 4
    assert box.on_credit(2) == _events(0, Started(3, 0, 0), Delta("ab", 3), DONE)
    assert (box.sent, box.is_empty) == (3, True)


def test_of_prefill_reports_the_newest_counts() -> None:
    """A report of progress replaces the one before it, if both wait."""
    box = Outbox(ONE, credit=0, events_max=8)
    box.on_event(Started(9, 0, 0))
    for done in (3, 6, 9):
        box.on_event(PrefillProgress(done, 9))
    assert box.on_credit(1) == _events(0, Started(9, 0, 0), PrefillProgress(9, 9))


def test_a_full_outbox_pauses_and_an_empty_one_resumes() -> None:
    """The limit counts what went in, not what merging left; each change is said once."""
    box = Outbox(ONE, credit=0, events_max=3)
    flows = [box.on_event(Delta("x")) for _ in range(5)]
    assert [flow.pause for flow in flows] == [None, None, True, None, None]
    assert box.paused
    assert box.on_credit(1) == Outflow((Events(ONE, 0, (Delta("xxxxx", 5),)),), pause=False)
    assert not box.paused


def test_progress_reports_alone_never_fill_it() -> None:
    """Replaced reports weigh nothing: a long prefill is not paused for want of credit."""
    box = Outbox(ONE, credit=0, events_max=2)
    assert [box.on_event(PrefillProgress(n, 99)).pause for n in range(50)] == [None] * 50


def test_credit_without_anything_waiting_is_kept() -> None:
    """Credit adds up and is spent later."""
    box = Outbox(ONE, credit=0, events_max=2)
    assert box.on_credit(2) == Outflow()
    assert box.on_event(Delta("a")) == _events(0, Delta("a"))
    assert box.on_event(Delta("b")) == _events(1, Delta("b"))
    assert box.on_event(Delta("c")) == Outflow()


def test_a_dropped_outbox_is_empty() -> None:
    """After a drop nothing waits, and later credit sends nothing."""
    box = Outbox(ONE, credit=0, events_max=1)
    box.on_event(Delta("a"))
    box.drop()
    assert box.is_empty
    assert not box.paused
    assert box.on_credit(5) == Outflow()


STEPS = st.lists(
    st.one_of(
        st.integers(1, 3),
        st.builds(Delta, st.text(min_size=1, max_size=2), st.integers(0, 2)),
        st.builds(PrefillProgress, st.integers(0, 9), st.just(9)),
    ),
    max_size=40,
)


@given(st.integers(0, 3), st.integers(1, 5), STEPS)
def test_any_history_keeps_text_order_credit_and_bounds(
    credit: int, events_max: int, steps: list[int | Delta | PrefillProgress]
) -> None:
    """Whatever arrives: all text comes out in order, numbered without a gap, within the credit."""
    box = Outbox(ONE, credit, events_max)
    granted, put, got = credit, [], []
    messages: list[Events] = []
    paused = False
    for step in steps:
        flow = box.on_credit(step) if isinstance(step, int) else box.on_event(step)
        granted += step if isinstance(step, int) else 0
        put += [step.text] if isinstance(step, Delta) else []
        messages += flow.messages
        assert len(messages) <= granted
        assert flow.pause in (None, not paused)
        paused = paused if flow.pause is None else flow.pause
        assert box.paused == paused
    messages += box.on_credit(1).messages
    got = [e for m in messages for e in m.events]
    assert "".join(e.text for e in got if isinstance(e, Delta)) == "".join(put)
    assert box.is_empty
    starts = [sum(len(m.events) for m in messages[:n]) for n in range(len(messages))]
    assert [m.seq for m in messages] == starts
