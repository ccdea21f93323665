"""What llama.cpp says becomes events: in order, with counts that add up and errors in own words."""

from __future__ import annotations

import json

import pytest

from roost.backends.llama.answer import LOGPROB_MIN, Answer
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
)
from roost.core.ids import ModelId
from roost.core.request import GenerateRequest, TextPrompt
from roost.errors import Failure


def asking(
    stops: tuple[str, ...] = (), top: int | None = None, *, ids: bool = False
) -> GenerateRequest:
    """Give a request; its prompt is of no matter here."""
    return GenerateRequest(
        ModelId("m"), TextPrompt(""), stop=stops, top_logprobs=top, return_tokens=ids
    )


def say(answer: Answer, **message: object) -> list[StreamEvent]:
    """Give a message to the answer."""
    return answer.on_data(json.dumps(message).encode())


def progress(answer: Answer, cache: int, processed: int) -> list[StreamEvent]:
    """Give a progress message, whose token is none."""
    state = {"total": 9, "cache": cache, "processed": processed, "time_ms": 1}
    return say(answer, content="", tokens=[0], stop=False, prompt_progress=state)


def text(answer: Answer, content: str, count: int, **more: object) -> list[StreamEvent]:
    """Give a piece of text."""
    return say(answer, content=content, stop=False, tokens_predicted=count, **more)


def final(answer: Answer, stop_type: str, count: int) -> list[StreamEvent]:
    """Give the last message."""
    timings = {"cache_n": 4, "prompt_n": 5, "prompt_ms": 10, "predicted_n": 2}
    return say(
        answer, content="", stop=True, stop_type=stop_type, tokens_predicted=count, timings=timings
    )


def test_a_usual_answer() -> None:
    """Started at the first progress, progress from then on, text, and the end with the sums."""
    answer = Answer(3, 9, asking((), None))
    assert progress(answer, 4, 4) == [Started(9, 4, 3)]
    assert progress(answer, 4, 7) == [PrefillProgress(7, 9)]
    assert progress(answer, 4, 9) == []
    assert text(answer, "a", 1) == [Delta("a", 1)]
    assert text(answer, "😀", 4) == [Delta("😀", 3)]
    assert not answer.over
    assert final(answer, "eos", 5) == [Delta("", 1), Finished("stop", Usage(9, 4, 5))]
    assert answer.over
    assert answer.slot_free
    assert answer.timings
    assert answer.timings.prompt_n == 5


def test_a_whole_prompt_is_told_where_its_first_token_has_no_text() -> None:
    """Before whatever comes instead, and once."""
    whole = PrefillProgress(9, 9)
    halves, ends, fails = (Answer(3, 9, asking((), None)) for _ in range(3))
    for answer in (halves, ends, fails):
        assert progress(answer, 4, 9) == [Started(9, 4, 3)]
    assert text(halves, "", 1) == [whole]
    assert text(halves, "😀", 4) == [Delta("😀", 4)]
    assert final(ends, "eos", 0) == [whole, Finished("stop", Usage(9, 4, 0))]
    told, failed = say(fails, error={"code": 500, "message": "Compute error."})
    assert told == whole
    assert isinstance(failed, Failed)
    assert say(fails, error={"code": 500, "message": "Compute error."}) == []


def test_the_limit_is_told() -> None:
    """An answer cut by its limit ends with length."""
    answer = Answer(0, 9, asking((), None))
    progress(answer, 0, 9)
    text(answer, "a", 1)
    assert final(answer, "limit", 1) == [Finished("length", Usage(9, 0, 1))]


def test_a_server_without_progress() -> None:
    """A stream that begins with text begins with Started all the same."""
    answer = Answer(0, 9, asking((), None))
    assert text(answer, "a", 1) == [Started(9, 0, 0), Delta("a", 1)]


def test_a_stop_string_ends_it_here_and_not_there() -> None:
    """The answer is over while the server goes on: its slot is not free yet."""
    answer = Answer(0, 9, asking(("xy",), None))
    progress(answer, 0, 9)
    assert text(answer, "ax", 1) == [Delta("a", 1)]
    assert text(answer, "yb", 2) == [
        Delta("", 1),
        Finished("stop", Usage(9, 0, 2), "xy"),
    ]
    assert answer.over
    assert not answer.slot_free


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"error":{"code":500,"message":"at 0x1234 in /a/b"}}', "reported an error of code 500"),
        (b'{"error":{"message":"Context size has been exceeded."}}', "context memory is full"),
        (b"[DONE", "broke the protocol"),
        (b'{"content":5}', "broke the protocol"),
        (b'{"prompt_progress":{}}', "broke the protocol"),
    ],
)
def test_errors_are_told_in_our_words(data: bytes, message: str) -> None:
    """Whatever the server says, its own words go nowhere; what was spent is told."""
    answer = Answer(0, 9, asking(("b",), None))
    progress(answer, 0, 9)
    text(answer, "a", 1)
    (event,) = answer.on_data(data)
    assert isinstance(event, Failed)
    assert event.failure.reason == "runtime_error"
    assert message in event.failure.message
    assert "/a/b" not in event.failure.message
    assert event.usage == Usage(9, 0, 1)
    assert not answer.slot_free


def test_failure_before_the_start_has_cost_nothing() -> None:
    """Where nothing had begun nothing is charged, and a second failure is not told."""
    answer = Answer(0, 9, asking((), None))
    failure = Failure("runtime_died", "x")
    assert answer.on_failure(failure) == [Failed(failure, Usage())]
    assert answer.on_failure(failure) == []


def test_failure_releases_what_was_held() -> None:
    """Text that was held for a stop string comes out before the failure."""
    answer = Answer(0, 9, asking(("ab",), None))
    progress(answer, 0, 9)
    assert text(answer, "a", 1) == [PrefillProgress(9, 9)]
    failure = Failure("runtime_died", "x")
    assert answer.on_failure(failure) == [Delta("a", 1), Failed(failure, Usage(9, 0, 1))]


def test_log_probabilities() -> None:
    """As many alternatives as asked for; minus infinity, which JSON lacks, is a low number."""
    answer = Answer(0, 9, asking((), 1))
    progress(answer, 0, 9)
    first = {"token": "a", "bytes": [97], "logprob": -0.5}
    never = {"token": "b", "bytes": [98], "logprob": None}
    sure = {"token": "c", "bytes": [99], "logprob": 0.001}
    chosen = {**never, "top_logprobs": [sure, first]}
    (delta,) = text(answer, "b", 1, completion_probabilities=[chosen])
    assert delta == Delta(
        "b",
        1,
        (TokenChoice(TokenLogprob("b", LOGPROB_MIN, b"b"), (TokenLogprob("c", 0.0, b"c"),)),),
    )


def test_log_probabilities_nobody_wants() -> None:
    """Without a wish for them they are left out, and 0 alternatives are none."""
    probabilities = [{"token": "a", "bytes": [97], "logprob": -1.0, "top_logprobs": [{}]}]
    for top, choices in ((None, 0), (0, 1)):
        answer = Answer(0, 9, asking((), top))
        progress(answer, 0, 9)
        (delta,) = text(answer, "a", 1, completion_probabilities=probabilities)
        assert isinstance(delta, Delta)
        assert len(delta.logprobs) == choices
        assert all(choice.top == () for choice in delta.logprobs)


def test_ids_come_with_their_text() -> None:
    """A token whose text is held gives its id when the text comes out."""
    answer = Answer(0, 9, asking(("b!",), ids=True))
    progress(answer, 0, 9)
    assert text(answer, "a", 1, tokens=[7]) == [Delta("a", 1, ids=(7,))]
    assert text(answer, "xb", 2, tokens=[8]) == []
    assert text(answer, "c", 3, tokens=[9]) == [Delta("xbc", 2, ids=(8, 9))]
    assert final(answer, "eos", 4) == [Delta("", 1), Finished("stop", Usage(9, 0, 4))]


def test_the_ids_that_the_server_leaves_out_are_asked_for() -> None:
    """Of a character of several tokens it tells the last one; the others are looked up."""
    answer = Answer(0, 9, asking(ids=True))
    progress(answer, 0, 9)
    assert text(answer, "😀", 3, tokens=[5]) == []
    assert answer.unsure == "😀"
    assert answer.on_ids((3, 4, 5)) == [Delta("😀", 3, ids=(3, 4, 5))]
    assert answer.unsure == ""
    text(answer, "é", 5, tokens=[5])
    assert answer.on_ids((1, 2)) == [Delta("é", 2, ids=(5,))], "written in an unusual way: unknown"


def test_what_is_held_stays_held_when_the_server_dies() -> None:
    """Whoever goes on says it again; any other failure ends the answer, and lets it out."""
    for reason, rest in (("runtime_died", []), ("runtime_error", [Delta("b", 1, ids=(8,))])):
        answer = Answer(0, 9, asking(("b!",), ids=True))
        progress(answer, 0, 9)
        text(answer, "a", 1, tokens=[7])
        text(answer, "b", 2, tokens=[8])
        failure = Failure(reason, "No more.")
        told = 1 + len(rest)
        assert answer.on_failure(failure) == [*rest, Failed(failure, Usage(9, 0, told))]


def test_an_answer_without_room_is_complete() -> None:
    """It starts, and ends at its limit, without a word to the server."""
    answer = Answer(2, 9, asking(ids=True))
    assert answer.on_full() == [Started(9, 0, 2), Finished("length", Usage(9, 0, 0))]
    assert answer.slot_free


def test_completions_that_only_fill_the_slot_say_nothing() -> None:
    """Their progress counts towards the whole, and their text is nobody's."""
    answer = Answer(0, 9, asking(ids=True), steps=2)
    assert progress(answer, 2, 5) == [Started(9, 2, 0), PrefillProgress(5, 9)]
    assert text(answer, "x", 1, tokens=[1]) == []
    assert final(answer, "limit", 1) == []
    assert progress(answer, 5, 8) == [PrefillProgress(8, 9)]
    assert final(answer, "limit", 1) == []
    assert progress(answer, 8, 8) == []
    assert text(answer, "a", 1, tokens=[7]) == [Delta("a", 1, ids=(7,))]
    assert final(answer, "eos", 2)[-1] == Finished("stop", Usage(9, 2, 2))


def test_a_failure_while_the_slot_is_filled_ends_the_answer() -> None:
    """Whatever was still to come."""
    answer = Answer(0, 9, asking(ids=True), steps=2)
    progress(answer, 0, 5)
    (failed,) = say(answer, error={"code": 500, "message": "Compute error."})
    assert isinstance(failed, Failed)
    assert answer.over


@pytest.mark.parametrize(
    ("stop_type", "rest"), [("limit", [Delta("\ufffd", 2)]), ("eos", [Delta("", 2)])]
)
def test_a_character_that_the_limit_cuts(stop_type: str, rest: list[StreamEvent]) -> None:
    """The bytes of half a character never come: at a limit one mark stands for them."""
    answer = Answer(0, 9, asking((), None))
    progress(answer, 0, 9)
    text(answer, "a", 1)
    assert final(answer, stop_type, 3)[:-1] == rest


def test_a_character_that_is_whole_at_the_limit() -> None:
    """Where the last token has its text there is nothing to stand for."""
    answer = Answer(0, 9, asking((), None))
    progress(answer, 0, 9)
    text(answer, "", 2)
    text(answer, "😀", 4)
    assert final(answer, "limit", 4) == [Finished("length", Usage(9, 0, 4))]
