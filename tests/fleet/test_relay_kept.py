"""The relay where text may be dropped, and where it is kept before its end is told."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.core.events import Delta, Finished, Usage
from roost.errors import Failure
from roost.fleet.streams.relay import Relay, RelaySettings
from roost.fleet.streams.relay_effects import (
    Abandon,
    Break,
    Commit,
    Done,
    Grant,
    KeepAlive,
    Reject,
    RelayEffect,
    Seal,
    Send,
)

FINISHED = Finished("stop", Usage(3, 1, 2))


def relay(settings: RelaySettings, *, streamed: bool = True) -> Relay:
    """Open a relay at time 0."""
    return Relay(settings, streamed=streamed, now=0.0)


def dropping(buffer_events: int = 3) -> Relay:
    """A relay whose reader rather loses text than time; its writer is busy with "0"."""
    machine = relay(RelaySettings(buffer_events=buffer_events, on_full="drop_oldest"))
    machine.on_event(Delta("0"), 0.0)
    return machine


def test_the_oldest_text_gives_way_and_is_counted() -> None:
    """What waits is never more than the buffer; the rest is told as a number, and unmerged."""
    machine = dropping()
    for number in range(1, 8):
        effects = machine.on_event(Delta(str(number)), 0.1)
        assert all(isinstance(effect, Grant) for effect in effects)
    sent = Send((Delta("5"), Delta("6"), Delta("7")), dropped=4)
    assert [e for e in machine.on_written(0.2) if isinstance(e, Send)] == [sent]
    machine.on_event(FINISHED, 0.3)
    assert [e for e in machine.on_written(0.4) if isinstance(e, Send)] == [Send((FINISHED,))]
    assert machine.on_written(0.5) == [Done()]
    assert machine.outcome == "buffer_overflow"


def test_a_reader_that_keeps_up_loses_nothing() -> None:
    """Being allowed to drop is no reason to."""
    machine = dropping()
    for number in range(1, 20):
        sent = [e for e in machine.on_written(0.1 * number) if isinstance(e, Send)]
        assert sent == []
        effects = machine.on_event(Delta(str(number)), 0.1 * number)
        assert [e for e in effects if isinstance(e, Send)] == [Send((Delta(str(number)),))]
    machine.on_event(FINISHED, 9.0)
    machine.on_written(9.1)
    assert machine.on_written(9.2) == [Done()]
    assert machine.outcome == "complete"


def test_a_slow_reader_that_drops_never_stops_the_node() -> None:
    """Credit comes back whether or not anything is read."""
    machine = dropping(buffer_events=8)
    granted = 0
    for number in range(1, 100):
        effects = machine.on_event(Delta(str(number)), 0.1)
        granted += sum(effect.messages for effect in effects if isinstance(effect, Grant))
        assert machine.held_messages == 0
    assert granted > 90


def test_the_end_is_not_dropped() -> None:
    """However small the buffer, the last event gets through."""
    machine = dropping(buffer_events=1)
    machine.on_events([Delta("1"), Delta("2"), Delta("3"), FINISHED], 0.1)
    assert machine.on_written(0.2) == [Send((Delta("3"), FINISHED), dropped=2)]


def test_a_sealed_answer_is_kept_between_its_text_and_its_end() -> None:
    """The text goes out, then it is kept, then the end is told; a late word changes nothing."""
    machine = relay(RelaySettings(sealed=True))
    assert machine.on_sealed(0.0) == []
    machine.on_event(Delta("a"), 0.0)
    machine.on_events([Delta("b"), FINISHED], 0.1)
    assert machine.on_written(0.2) == [Send((Delta("b"),))]
    assert machine.on_written(0.3) == [Seal()]
    assert machine.on_written(0.35) == []
    assert machine.on_sealed(0.4) == [Send((FINISHED,))]
    assert machine.on_sealed(0.45) == []
    assert machine.on_written(0.5) == [Done()]
    assert machine.outcome == "complete"


def test_what_could_not_be_kept_has_no_end_but_a_failure() -> None:
    """After its text a stream breaks off; an answer in one piece is refused, with its status."""
    lost = Failure("storage_error", "full")
    machine = relay(RelaySettings(sealed=True))
    machine.on_events([Delta("a"), FINISHED], 0.0)
    assert machine.on_written(0.1) == [Seal()]
    assert machine.on_sealed(0.2, lost) == [Break(lost)]
    assert machine.outcome == "node_error"
    assert machine.on_sealed(0.3) == []
    whole = Relay(RelaySettings(sealed=True), streamed=False, now=0.0)
    assert Seal() in whole.on_events([Delta("a"), FINISHED], 0.0)
    assert whole.on_sealed(0.2, lost) == [Reject(lost)]


def test_a_client_that_leaves_before_the_seal_was_not_told_the_end() -> None:
    """Its ending is that it left, and the seal that comes then is for nobody."""
    machine = relay(RelaySettings(sealed=True))
    machine.on_events([Delta("a"), FINISHED], 0.0)
    assert machine.on_written(0.1) == [Seal()]
    assert machine.on_client_gone(0.2) == [Abandon("client_gone")]
    assert machine.on_sealed(0.3) == []
    assert machine.outcome == "client_disconnect"


def test_a_slow_seal_is_no_silence() -> None:
    """Signs of life go on while the answer is being kept."""
    machine = relay(RelaySettings(sealed=True))
    machine.on_events([Delta("a"), FINISHED], 0.0)
    machine.on_written(0.1)
    assert machine.on_tick(10.1) == [KeepAlive("answering")]
    assert machine.on_sealed(10.2) == []
    assert machine.on_written(10.3) == [Send((FINISHED,))]


def test_an_empty_answer_and_a_collected_one_are_sealed_first() -> None:
    """Where there is no text to go before, the seal is the first thing that is asked for."""
    machine = relay(RelaySettings(sealed=True))
    assert machine.on_event(FINISHED, 0.0) == [Seal()]
    assert machine.on_sealed(0.1) == [Commit(), Send((FINISHED,))]
    whole = relay(RelaySettings(sealed=True), streamed=False)
    whole.on_event(Delta("a"), 0.0)
    assert whole.on_event(FINISHED, 0.1) == [Seal()]
    assert whole.on_sealed(0.2) == [Commit(), Send((Delta("a"), FINISHED))]


class Ledger:
    """What a reader was sent, and what it was told is missing."""

    def __init__(self, machine: Relay) -> None:
        self.machine = machine
        self.seq = 0
        self.dropped = 0
        self.received = 0

    def carry_out(self, effects: list[RelayEffect]) -> None:
        """Take effects, and keep what has to be kept at once."""
        queue = list(effects)
        while queue:
            effect = queue.pop(0)
            if isinstance(effect, Seal):
                queue += self.machine.on_sealed(0.0)
            elif isinstance(effect, Send):
                self._take(effect)

    def _take(self, effect: Send) -> None:
        self.seq += effect.dropped
        self.dropped += effect.dropped
        for event in effect.events:
            if isinstance(event, Delta):
                assert event.text == str(self.seq)
                self.received += 1
                self.seq += 1


@given(
    st.lists(st.sampled_from(["text", "read"]), max_size=60),
    st.integers(1, 5),
    st.booleans(),
)
def test_what_is_sent_and_what_is_dropped_is_the_whole_answer(
    steps: list[str], buffer_events: int, sealed: bool
) -> None:
    """In any order of writing and reading: pieces in order, gaps that add up, one ending."""
    settings = RelaySettings(buffer_events=buffer_events, on_full="drop_oldest", sealed=sealed)
    machine = relay(settings)
    ledger, said = Ledger(machine), 0
    for step in steps:
        if step == "read":
            ledger.carry_out(machine.on_written(0.0))
        else:
            ledger.carry_out(machine.on_event(Delta(str(said)), 0.0))
            said += 1
    ledger.carry_out(machine.on_event(FINISHED, 0.0))
    for _ in range(4):
        ledger.carry_out(machine.on_written(0.0))
    assert ledger.received + ledger.dropped == said
    assert machine.outcome == ("buffer_overflow" if ledger.dropped else "complete")
