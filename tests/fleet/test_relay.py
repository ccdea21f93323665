"""The relay: commit, merge, credit, keep-alive and exactly one ending."""

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
    TokenChoice,
    TokenLogprob,
    Usage,
    Vectors,
)
from roost.errors import Failure
from roost.fleet.streams.relay import Relay, RelaySettings, merged
from roost.fleet.streams.relay_effects import (
    Abandon,
    Break,
    Commit,
    Done,
    Grant,
    KeepAlive,
    Reject,
    RelayEffect,
    Send,
)

SETTINGS = RelaySettings()
FINISHED = Finished("stop", Usage(3, 1, 2))
LOST = Failure("node_lost", "The node was lost.")
FULL = Failure("queue_full", "Full.", retry_after_s=3)


def relay(*, streamed: bool = True, settings: RelaySettings = SETTINGS) -> Relay:
    """Open a relay at time 0."""
    return Relay(settings, streamed=streamed, now=0.0)


def test_first_delta_commits_and_is_sent() -> None:
    """The status is decided by the first piece of the answer, not by the slot."""
    machine = relay()
    assert machine.on_event(Started(10, 4, 0), 0.1) == []
    assert machine.on_event(PrefillProgress(7, 10), 0.2) == []
    assert not machine.committed
    assert machine.on_event(Delta("a"), 0.3) == [Commit(), Send((Delta("a"),))]
    assert machine.committed


def test_deltas_merge_while_the_writer_is_busy() -> None:
    """What a slow reader leaves unread is joined and sent in one piece, order kept."""
    machine = relay()
    machine.on_event(Delta("a"), 0.0)
    assert machine.on_event(Delta("b", 2), 0.1) == []
    assert machine.on_event(Delta("c"), 0.2) == []
    assert machine.on_event(FINISHED, 0.3) == []
    assert machine.on_written(0.4) == [Send((Delta("bc", 3), FINISHED))]
    assert machine.outcome is None
    assert machine.on_written(0.5) == [Done()]
    assert machine.outcome == "complete"


def test_streamed_commits_after_the_limit_with_its_state() -> None:
    """A client that waits eight seconds gets its headers and hears why it waits."""
    machine = relay()
    machine.on_waiting("queued 3/7", 1.0)
    assert machine.next_tick() == 8.0
    assert machine.on_tick(7.9) == []
    assert machine.on_tick(8.0) == [Commit(), KeepAlive("queued 3/7")]
    assert machine.on_written(8.1) == []
    assert machine.next_tick() == pytest.approx(18.1)
    machine.on_event(PrefillProgress(61, 100), 9.0)
    assert machine.on_tick(18.1) == [KeepAlive("prefill 61 %")]


def test_not_streamed_never_commits_early() -> None:
    """Without streaming the status stays open until the answer is whole; one write has it all."""
    machine = relay(streamed=False)
    assert machine.next_tick() is None
    assert machine.on_tick(100.0) == []
    machine.on_event(Delta("a"), 101.0)
    machine.on_event(Delta("b"), 102.0)
    assert not machine.committed
    assert machine.on_event(FINISHED, 103.0) == [Commit(), Send((Delta("ab", 2), FINISHED))]
    assert machine.on_written(103.1) == [Done()]


def test_vectors_are_collected_and_made_anew_after_a_loss() -> None:
    """Until the last of them nothing is said: another attempt makes all of them, once."""
    machine = relay(streamed=False)
    machine.on_events((Started(9, 0, 0), Vectors(1, b"lost")), 0.1)
    machine.on_event(Failed(LOST), 0.2)
    assert not machine.answering
    assert machine.on_restart("node_lost", 0.3) == []
    machine.on_event(Vectors(1, b"one."), 0.4)
    machine.on_event(Vectors(1, b"two."), 0.5)
    (commit, send) = machine.on_event(FINISHED, 0.6)
    assert commit == Commit()
    assert send == Send((Vectors(1, b"one."), Vectors(1, b"two."), FINISHED))


@pytest.mark.parametrize("streamed", [True, False])
def test_answer_before_commit_keeps_its_status(streamed: bool) -> None:
    """An error known before the first byte is a real status, streamed or not."""
    machine = relay(streamed=streamed)
    assert machine.on_answer(FULL, 1.0) == [Reject(FULL)]
    assert machine.outcome == "rejected"


def test_collected_answer_is_dropped_when_its_node_dies() -> None:
    """Half an answer that was not sent yet is no answer: the client sees the error's status."""
    machine = relay(streamed=False)
    machine.on_event(Delta("half"), 0.0)
    assert machine.on_answer(LOST, 1.0) == [Reject(LOST)]
    assert machine.outcome == "node_error"


def test_answer_after_commit_flushes_then_breaks() -> None:
    """What was received is delivered before the error, and the end is not a clean one."""
    machine = relay()
    machine.on_event(Delta("a"), 0.0)
    machine.on_event(Delta("b"), 0.1)
    assert machine.on_answer(LOST, 0.2) == []
    assert machine.on_event(Delta("late"), 0.25) == []
    assert machine.on_written(0.3) == [Send((Delta("b"),))]
    assert machine.on_written(0.4) == [Break(LOST)]
    assert machine.outcome == "node_error"


def test_answer_after_commit_without_backlog_breaks_at_once() -> None:
    """An idle writer gets the error immediately."""
    machine = relay()
    machine.on_event(Delta("a"), 0.0)
    machine.on_written(0.1)
    assert machine.on_answer(LOST, 0.2) == [Break(LOST)]


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        ("deadline", "deadline"),
        ("cancelled", "cancelled"),
        ("runtime_died", "node_error"),
        ("internal", "node_error"),
        ("no_nodes", "rejected"),
        ("context_length_exceeded", "rejected"),
    ],
)
def test_outcome_names_the_failure(reason: str, outcome: str) -> None:
    """Endings are told apart in metrics and receipts."""
    machine = relay()
    machine.on_answer(Failure(reason, "It went wrong."), 0.0)
    assert machine.outcome == outcome


def test_failed_event_waits_for_the_coordinator() -> None:
    """A node's failure may be retried, so it ends nothing by itself and restarts cleanly."""
    machine = relay()
    machine.on_event(Started(5, 0, 0), 0.0)
    assert machine.on_event(Failed(LOST), 0.1) == []
    assert machine.outcome is None
    assert machine.on_restart("runtime_died", 0.5) == []
    assert machine.on_event(Delta("x"), 0.2) == [Commit(), Send((Delta("x"),))]


def test_restart_after_the_first_delta_is_a_defect() -> None:
    """An answer that has begun can never begin again."""
    machine = relay()
    machine.on_event(Delta("x"), 0.0)
    with pytest.raises(AssertionError, match="cannot begin again"):
        machine.on_restart("runtime_died", 0.5)


def test_stuck_writer_loses_its_stream() -> None:
    """The write deadline counts from the write that is stuck, whatever else arrives."""
    machine = relay()
    machine.on_event(Delta("a"), 1.0)
    machine.on_event(Delta("b"), 20.0)
    assert machine.next_tick() == 31.0
    assert machine.on_tick(31.0) == [Abandon("write_timeout")]
    assert machine.outcome == "write_timeout"
    assert machine.on_written(32.0) == []
    assert machine.next_tick() is None


def test_client_gone_before_and_after_the_last_event() -> None:
    """Hanging up after the end was handed over is success, before it a disconnect."""
    early = relay()
    early.on_event(Delta("a"), 0.0)
    early.on_event(FINISHED, 0.1)
    assert early.on_client_gone(0.2) == [Abandon("client_gone")]
    assert early.outcome == "client_disconnect"
    late = relay()
    late.on_event(Delta("a"), 0.0)
    late.on_written(0.1)
    late.on_event(FINISHED, 0.2)
    assert late.on_client_gone(0.3) == [Done()]
    assert late.outcome == "complete"


def test_nothing_comes_after_an_ending() -> None:
    """Every input after the ending is ignored."""
    machine = relay()
    machine.on_client_gone(0.0)
    assert machine.on_event(Delta("a"), 1.0) == []
    assert machine.on_answer(LOST, 1.0) == []
    assert machine.on_client_gone(1.0) == []
    assert machine.on_tick(100.0) == []
    assert machine.outcome == "client_disconnect"


def test_answer_after_the_whole_answer_changes_nothing() -> None:
    """Once the last event is here the request is complete, however slow its reader."""
    machine = relay()
    machine.on_event(Delta("a"), 0.0)
    machine.on_event(FINISHED, 0.1)
    assert machine.on_answer(LOST, 0.2) == []
    assert machine.on_event(Delta("after"), 0.2) == []
    assert machine.on_written(0.3) == [Send((FINISHED,))]


def test_credit_is_given_in_halves_and_only_for_what_left() -> None:
    """A node may be ahead of a stuck reader by the buffer and by nothing more."""
    machine = relay(settings=RelaySettings(buffer_events=4))
    assert machine.on_event(Delta("a"), 0.0) == [Commit(), Send((Delta("a"),))]
    for letter in "bcd":
        assert machine.on_event(Delta(letter), 0.0) == []
    assert machine.held_messages == 3
    assert machine.on_written(0.1) == [Send((Delta("bcd", 3),)), Grant(4)]
    assert machine.held_messages == 0


def test_credit_of_a_collected_answer_does_not_wait_for_a_reader() -> None:
    """Nobody reads before the end, so the credit must not depend on reading."""
    machine = relay(streamed=False, settings=RelaySettings(buffer_events=4))
    grants = [e for n in range(10) for e in machine.on_event(Delta("x"), float(n))]
    assert grants == [Grant(2)] * 5


def test_one_message_with_many_events_costs_one_credit() -> None:
    """Credit counts messages, as the link does."""
    machine = relay(settings=RelaySettings(buffer_events=2))
    effects = machine.on_events((Started(1, 0, 0), Delta("a"), Delta("b")), 0.0)
    assert effects == [Commit(), Send((Delta("ab", 2),)), Grant(1)]


def test_merge_keeps_logprobs_and_other_events_in_place() -> None:
    """Only neighbours are joined; nothing of them is lost."""
    one = TokenChoice(TokenLogprob("a", -0.1, b"a"))
    two = TokenChoice(TokenLogprob("b", -0.2, b"b"))
    events = (Delta("a", 1, (one,)), Delta("b", 1, (two,)), FINISHED)
    assert merged(events) == (Delta("ab", 2, (one, two)), FINISHED)
    assert merged(()) == ()


STEPS = st.lists(
    st.sampled_from(["delta", "pair", "progress", "written", "tick", "waiting", "restart"]),
    max_size=60,
)
LASTS = st.sampled_from(["finished", "answer", "gone", "stuck"])


class Bench:
    """Drives a relay as a shell would, and notes what a client would have seen."""

    def __init__(self, *, streamed: bool, buffer: int) -> None:
        self.settings = RelaySettings(buffer_events=buffer)
        self.machine = Relay(self.settings, streamed=streamed, now=0.0)
        self.now = 0.0
        self.credit = buffer
        self.sent = ""
        self.seen = ""
        self.writing = False
        self.committed = False
        self.endings: list[RelayEffect] = []

    def perform(self, effects: list[RelayEffect]) -> None:
        """Note what each effect means, and check what must hold at that moment."""
        for effect in effects:
            assert not self.endings, "nothing comes after an ending"
            if isinstance(effect, Commit):
                assert not self.committed, "committed once"
                self.committed = True
            elif isinstance(effect, Send | KeepAlive):
                assert self.committed
                assert not self.writing, "one write at a time"
                self.writing = True
                for event in effect.events if isinstance(effect, Send) else ():
                    self.seen += event.text if isinstance(event, Delta) else ""
            elif isinstance(effect, Grant):
                self.credit += effect.messages
            else:
                assert isinstance(effect, Reject) != self.committed or isinstance(effect, Abandon)
                self.endings.append(effect)
        assert self.machine.held_messages <= self.settings.buffer_events
        assert 0 <= self.credit <= self.settings.buffer_events

    def say(self, *events: StreamEvent) -> None:
        """Let the node send one message, if it has the credit."""
        if self.credit and not self.endings:
            self.credit -= 1
            self.sent += "".join(e.text for e in events if isinstance(e, Delta))
            self.perform(self.machine.on_events(events, self.now))

    def written(self) -> None:
        """Let the writer come to rest."""
        if self.writing and not self.endings:
            self.writing = False
            self.perform(self.machine.on_written(self.now))

    def step(self, what: str, number: int) -> None:
        """Do one thing, half a second after the last."""
        self.now += 0.5
        if what == "delta":
            self.say(Delta(f"<{number}>"))
        elif what == "pair":
            self.say(Delta(f"<{number}"), Delta(">"))
        elif what == "progress":
            self.say(PrefillProgress(number, 100))
        elif what == "written":
            self.written()
        elif what == "tick":
            self.perform(self.machine.on_tick(self.now))
        elif what == "waiting":
            self.perform(self.machine.on_waiting("queued 1/1", self.now))
        elif not self.machine.answering and not self.endings:
            self.perform(self.machine.on_restart("runtime_died", 0.5))
            self.credit = self.settings.buffer_events

    def finish(self, how: str) -> None:
        """Bring it to an end in this way."""
        while how == "finished" and not self.credit and not self.endings:
            self.written()
        if how == "finished":
            self.say(FINISHED)
        elif how == "answer" and not self.endings:
            self.perform(self.machine.on_answer(LOST, self.now))
        elif how == "gone":
            self.perform(self.machine.on_client_gone(self.now))
        elif how == "stuck":
            self.say(Delta("!"))
            if self.writing:
                self.perform(self.machine.on_tick(self.now + 31.0))
            else:
                self.perform(self.machine.on_client_gone(self.now))
        self.written()
        self.written()
        self.written()


@given(steps=STEPS, how=LASTS, streamed=st.booleans(), buffer=st.integers(1, 8))
def test_any_interleaving_has_one_ending_and_loses_nothing(
    steps: list[str], how: str, streamed: bool, buffer: int
) -> None:
    """Whatever the order of events: one ending, a prefix of the text, all of it when complete."""
    bench = Bench(streamed=streamed, buffer=buffer)
    for number, what in enumerate(steps):
        bench.step(what, number)
    bench.finish(how)
    assert len(bench.endings) == 1
    assert bench.machine.outcome is not None
    assert bench.sent.startswith(bench.seen)
    if bench.machine.outcome == "complete" or isinstance(bench.endings[0], Break):
        assert bench.seen == bench.sent
