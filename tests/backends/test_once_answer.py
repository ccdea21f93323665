"""What a program writes until it ends, as the events of the contract."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.backends.programs.once_answer import Answer
from roost.core.card import Output
from roost.core.events import Delta, Failed, Finished, Started, StreamEvent, Usage
from roost.core.request import GenerateRequest, TextPrompt
from tests.backends.subjects import MODEL

MARKED = Output("==\n", "\n==\n", "Prompt: {count} tokens", "Answer: {count} tokens")


def heard(
    *pieces: bytes,
    output: Output = MARKED,
    stop: tuple[str, ...] = (),
    status: int = 0,
    errors: str = "",
    limit: int = 8,
) -> list[StreamEvent]:
    """Let an answer hear these pieces and the end."""
    request = GenerateRequest(MODEL, TextPrompt("x"), stop=stop)
    answer = Answer(1, limit, request, output)
    events = [*answer.begin()]
    for piece in pieces:
        events += answer.on_output(piece)
    return [*events, *answer.on_end(status, errors)]


def text(events: list[StreamEvent]) -> str:
    """Give the text of an answer."""
    return "".join(event.text for event in events if isinstance(event, Delta))


def test_an_answer_lies_between_its_marks() -> None:
    """What stands around it is read for counts and never said."""
    events = heard(b"loading\n==\nHel", b"lo\n=", b"=\nPrompt: 3 tokens\nAnswer: 2 tokens\n")
    assert events == [
        Started(0, 0, 1),
        Delta("Hel", 0),
        Delta("lo", 0),
        Delta("", 2),
        Finished("stop", Usage(3, 0, 2)),
    ]


@given(cuts=st.sets(st.integers(1, 60)))
def test_where_pieces_end_changes_nothing(cuts: set[int]) -> None:
    """Marks and characters that come in pieces are found and whole."""
    data = "x==\n😀 one\n=two\n==\nAnswer: 4 tokens".encode()
    at = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    events = heard(*(data[a:b] for a, b in pairwise(at)))
    assert text(events) == "😀 one\n=two"
    assert events[-1] == Finished("stop", Usage(0, 0, 4))


def test_counts_on_standard_error_count() -> None:
    """An answer as long as it may be has ended at its limit; no more than that is believed."""
    plain = Output("", "", "", "Answer: {count} tokens")
    assert heard(b"a b", output=plain, errors="Answer: 8 tokens")[-1] == Finished(
        "length", Usage(0, 0, 8)
    )
    assert heard(b"a b", output=plain, errors="Answer: 99 tokens")[-1] == Finished(
        "length", Usage(0, 0, 8)
    )


def test_without_a_count_there_is_a_guess() -> None:
    """A token for four bytes, and never more than the limit."""
    assert heard(b"one two", output=Output())[-1] == Finished("stop", Usage(0, 0, 2))
    assert heard(b"one two" * 99, output=Output())[-1] == Finished("stop", Usage(0, 0, 8))
    assert heard(output=Output())[1:] == [Finished("stop", Usage())]


def test_a_stop_string_ends_it() -> None:
    """Before the program does; what it writes then is nobody's."""
    events = heard(b"==\none t", b"wo three", b" four", stop=("two",))
    assert text(events) == "one "
    assert events[-1] == Finished("stop", Usage(0, 0, 4), "two")


@pytest.mark.parametrize(
    ("status", "what"), [(3, "ended with status 3"), (137, "signal 9"), (-9, "signal 9")]
)
def test_a_program_that_fails_fails_the_answer(status: int, what: str) -> None:
    """Whatever it has said before stays said; its own last words are not in the message."""
    events = heard(b"==\nhalf an answ", status=status, errors="secret prompt")
    last = events[-1]
    assert isinstance(last, Failed)
    assert (last.failure.reason, last.usage) == ("runtime_error", Usage(0, 0, 3))
    assert what in last.failure.message
    assert "secret" not in last.failure.message
    assert text(events) == "half an answ"


def test_an_answer_that_never_begins_is_a_failure() -> None:
    """A program that changed what it writes is told from a model that says nothing."""
    last = heard(b"something else")[-1]
    assert isinstance(last, Failed)
    assert "without the text that answers begin behind" in last.failure.message


def test_half_a_character_at_the_end_is_marked() -> None:
    """One U+FFFD, as everywhere."""
    assert text(heard("aé".encode()[:-1], output=Output())) == "a\ufffd"
