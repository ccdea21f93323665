"""Frames, the words in them, and what becomes of them: without any process."""

from __future__ import annotations

import collections
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.backends.base import Prepared
from roost.backends.hosted.answer import Answer
from roost.backends.hosted.child import Questions
from roost.backends.hosted.engine import Running
from roost.backends.hosted.frames import (
    LENGTH,
    LINES,
    Began,
    Cancel,
    Embed,
    Filled,
    Flow,
    Lines,
    Loaded,
    Over,
    Run,
    Said,
    Splitter,
    Step,
    Word,
    Work,
    pack,
)
from roost.backends.hosted.rounds import Rounds
from roost.core.events import Delta, Failed, Finished, PrefillProgress, Started, Usage
from roost.core.ids import ModelId
from roost.core.request import GenerateRequest, TextPrompt

DECODER = msgspec.msgpack.Decoder(Word)


def prepared(limit: int = 4, **changes: object) -> Prepared:
    """Give a request of three tokens."""
    request = GenerateRequest(ModelId("m"), TextPrompt("abc"), limit)
    return Prepared(msgspec.structs.replace(request, **changes), (1, 2, 3), limit)


@given(st.lists(st.binary(max_size=40), max_size=8), st.data())
def test_frames_come_out_as_they_went_in(frames: list[bytes], data: st.DataObject) -> None:
    """However the bytes arrive, the frames are the same."""
    stream = b"".join(LENGTH.pack(len(frame)) + frame for frame in frames)
    splitter, found = Splitter(), list[bytes]()
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += splitter.push(stream[:size])
        stream = stream[size:]
    assert found == frames


@given(st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"x"))), st.data())
def test_lines_come_out_as_they_went_in(lines: list[bytes], data: st.DataObject) -> None:
    """However the bytes arrive, the lines are the same; blank ones are none."""
    stream = b"".join(one + b"\n" for one in lines)
    cut, found = Lines(), list[bytes]()
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += cut.push(stream[:size])
        stream = stream[size:]
    assert found == [one for one in lines if one.strip()]


def test_a_line_has_a_limit() -> None:
    """One that is too long is refused, complete or not."""
    for data in (b"x" * 11, b"x" * 11 + b"\n"):
        with pytest.raises(ValueError, match="too long"):
            Lines(10).push(data)
    cut = Lines(10)
    assert cut.push(b"x" * 6) == []
    with pytest.raises(ValueError, match="too long"):
        cut.push(b"x" * 6)


def test_text_and_raw_are_the_same_to_a_reader() -> None:
    """A runner that has whole characters need not encode them."""
    answer = Answer(0, prepared())
    answer.on_word(Began(7))
    said = LINES.read(b'{"type":"said","run":7,"token":5,"text":"\xc3\xa4"}')
    assert isinstance(said, Said)
    assert answer.on_word(said) == [Delta("ä", 1)]


def test_a_frame_has_a_limit() -> None:
    """A length above the limit is refused before anything of the frame is kept."""
    with pytest.raises(ValueError, match="too long"):
        Splitter(10).push(LENGTH.pack(11))


def test_words_become_events() -> None:
    """A run from its begin to its end, with a character in two tokens and counts that add up."""
    answer = Answer(1, prepared())
    assert answer.on_word(Began(7, 1)) == [Started(3, 1, 1)]
    assert answer.on_word(Filled(7, 3)) == [PrefillProgress(3, 3)]
    assert answer.on_word(Said(7, 5, b"a\xc3")) == [Delta("a", 1)]
    assert answer.on_word(Said(7, 6, b"\xa4")) == [Delta("ä", 1)]
    assert answer.on_word(Said(7, 7)) == []
    work = Work(2, 0.1, 3, 0.3)
    usage = Usage(3, 1, 3)
    assert answer.on_word(Over(7, "stop", "", work)) == [Delta("", 1), Finished("stop", usage)]
    assert answer.over
    assert answer.released
    assert answer.work == work


def test_a_stop_string_ends_an_answer_before_its_run() -> None:
    """What the library says behind it is nobody's; the slot is free when it says so."""
    answer = Answer(0, prepared(stop=("b",)))
    answer.on_word(Began(7))
    events = answer.on_word(Said(7, 5, b"ab"))
    assert events[-1] == Finished("stop", Usage(3, 0, 1), "b")
    assert (answer.over, answer.released) == (True, False)
    assert answer.on_word(Said(7, 6, b"c")) == []
    assert answer.on_word(Over(7, "cancelled")) == []
    assert answer.released


def test_ids_are_told_where_they_are_asked_for() -> None:
    """A token's id comes with its text, both tokens of a character together."""
    answer = Answer(0, prepared(return_tokens=True))
    answer.on_word(Began(7))
    assert answer.on_word(Said(7, 5, b"\xc3")) == []
    assert answer.on_word(Said(7, 6, b"\xa4")) == [Delta("ä", 2, ids=(5, 6))]


def test_a_token_that_ends_within_a_character_keeps_its_text() -> None:
    """Whoever goes on behind a delta finds whole characters; at the end nothing is lost."""
    for asked, last in ((b"\xae\xa2", "客"), (b"", "\ufffd")):
        answer = Answer(0, prepared(return_tokens=True))
        answer.on_word(Began(7))
        assert answer.on_word(Said(7, 5, b" \xe5")) == []
        events = answer.on_word(Said(7, 6, asked)) + answer.on_word(Over(7, "stop"))
        deltas = [event for event in events if isinstance(event, Delta)]
        assert "".join(delta.text for delta in deltas) == f" {last}"
        assert sum(delta.tokens for delta in deltas) == 2


@pytest.mark.parametrize(
    "words",
    [
        [Began(7, 4)],
        [Began(7, -1)],
        [Began(7), Filled(7, 4)],
        [Said(7, 1, b"x"), Filled(7, 3)],
        [Said(7, 1, b"x")] * 5,
    ],
)
def test_what_cannot_be_is_not_believed(words: Iterable[Began | Filled | Said]) -> None:
    """More cached or computed than there is, or said than was asked for, is a broken library."""
    answer = Answer(0, prepared())
    with pytest.raises(ValueError, match=r"prompt cannot|more tokens"):
        collections.deque(map(answer.on_word, words))


def test_a_failed_run_is_a_failed_answer() -> None:
    """The library's reason is in the message, and the usage is what was told."""
    answer = Answer(0, prepared())
    answer.on_word(Began(7))
    answer.on_word(Said(7, 5, b"x"))
    (failed,) = answer.on_word(Over(7, "failed", "it has no memory left"))
    assert isinstance(failed, Failed)
    assert failed.failure.reason == "runtime_error"
    assert failed.failure.message.endswith("it has no memory left.")
    assert failed.usage == Usage(3, 0, 1)


class Counting:
    """An engine whose answers are numbers; it remembers which runs were closed."""

    loaded = Loaded(64, 64)

    def __init__(self) -> None:
        self.closed: list[int] = []

    def tokenize(self, piece: str, *, special: bool) -> Iterable[int]:
        """Give a token per character."""
        return range(len(piece))

    def run(self, job: Run) -> Running:
        """Say numbers without end."""
        try:
            yield Began(job.run)
            yield Filled(job.run, len(job.tokens))
            for number in range(1000):
                yield Said(job.run, number)
        finally:
            self.closed.append(job.run)
        return "stop"


def run(number: int, limit: int = 3) -> Run:
    """Order a run."""
    return Run(number, number, reuse=False, tokens=(1, 2), limit=limit)


def rounds() -> tuple[Rounds, Counting, list[object]]:
    """Give rounds of an engine, and the list in which its words are collected."""
    words: list[object] = []
    splitter, engine = Splitter(), Counting()
    send = lambda data: words.extend(map(DECODER.decode, splitter.push(data)))  # noqa: E731
    return Rounds(engine, send), engine, words


def test_runs_take_turns() -> None:
    """Two runs get a step each, and end at their limits whatever the library would say."""
    turns, engine, words = rounds()
    turns.put(run(1))
    turns.put(run(2, 2))
    for _ in range(5):
        turns.turn()
    steps = [(type(word).__name__, word.run) for word in words if isinstance(word, Step)]
    assert steps[:6] == [(kind, n) for kind in ("Began", "Filled", "Said") for n in (1, 2)]
    ends = {
        word.run: (word.reason, word.work.decode_tokens) for word in words if isinstance(word, Over)
    }
    assert ends == {1: ("length", 3), 2: ("length", 2)}
    assert engine.closed == [2, 1]


def test_a_paused_run_waits_and_others_do_not() -> None:
    """While its reader is behind a run gets no turn; then it goes on where it was."""
    turns, _, words = rounds()
    turns.put(run(1, 9))
    turns.put(run(2, 9))
    turns.put(Flow(1, paused=True))
    for _ in range(4):
        turns.turn()
    assert {word.run for word in words if isinstance(word, Step)} == {2}
    turns.put(Flow(1, paused=False))
    turns.turn()
    assert words[-2] == Began(1)


def test_a_cancel_is_acknowledged_once() -> None:
    """The run is closed between two steps and its end told; a second cancel is no mistake."""
    turns, engine, words = rounds()
    turns.put(run(1))
    turns.turn()
    turns.put(Cancel(1))
    turns.put(Cancel(1))
    turns.put(run(2))
    turns.turn()
    assert engine.closed == [1]
    ends = [word for word in words if isinstance(word, Over)]
    assert [(end.run, end.reason) for end in ends] == [(1, "cancelled")]


def test_packed_words_can_be_read() -> None:
    """A frame is its length and a word."""
    (frame,) = Splitter().push(pack(Said(7, 5, b"x")))
    assert DECODER.decode(frame) == Said(7, 5, b"x")


def test_questions_have_their_turn_unless_they_were_left() -> None:
    """In their order; a number that is over or was never there is no mistake."""
    questions = Questions()
    for number in range(4):
        questions.put(Embed(number, ((1,),)))
    assert questions.take().ask == 0
    for left in (0, 1, 3, 9):
        questions.cancel(left)
    questions.put(Embed(4, ((1,),)))
    assert [questions.take().ask for _ in range(2)] == [2, 4]
