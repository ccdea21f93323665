"""One reply to `roost chat`: what is shown of it, and what its line says."""

from __future__ import annotations

import json

import pytest

from roost.cli.chatting.answer import Answer

HEAD = {
    "x-roost-request-id": "r1",
    "x-roost-node": "n1",
    "x-roost-placement": "warm",
    "x-roost-cached-tokens": "40",
}


def event(**what: object) -> bytes:
    """An event's data."""
    return json.dumps(what).encode()


def last(**roost: object) -> bytes:
    """The last event of a whole answer."""
    known = {"node": "n1", "placement": "warm", "cached_tokens": 40, "prompt_tokens": 52, **roost}
    return event(finished=True, reason="stop", seq=2, roost=known)


def begun() -> Answer:
    """An answer whose headers are there."""
    answer = Answer()
    answer.on_head(HEAD)
    return answer


def test_the_line_says_where_what_and_how_quick() -> None:
    """Pace is that between first and last token, the wait before it left out."""
    answer = begun()
    assert answer.on_event(event(token="Hel", seq=0), 10.0) == "Hel"
    assert answer.on_event(event(token="lo", seq=1), 12.0) == "lo"
    assert not answer.over
    assert answer.on_event(last(completion_tokens=21), 12.5) == ""
    assert answer.over
    assert answer.line() == "n1 · warm · 40 tokens cached · 12 prefilled · 21 said, 10.0 tokens/s"
    assert answer.close() == "\n"


def test_an_answer_in_one_piece_has_no_pace() -> None:
    """A number that means nothing is not shown."""
    answer = begun()
    answer.on_event(event(token="all\n", seq=0), 10.0)
    answer.on_event(last(completion_tokens=5), 10.0)
    assert answer.line().endswith("12 prefilled · 5 said")
    assert answer.close() == ""


def test_an_answer_that_was_cut_at_its_limit_says_so() -> None:
    """Nobody should take it for whole."""
    answer = begun()
    answer.on_event(event(finished=True, reason="length", seq=0), 1.0)
    assert answer.line() == "n1 · warm · 40 tokens cached · cut at --max-tokens"


def test_a_stopped_answer_says_what_is_known() -> None:
    """The headers came before the text, the counts never did."""
    answer = begun()
    answer.on_event(event(token="half", seq=0), 1.0)
    answer.on_stopped()
    assert answer.ending == "stopped"
    assert answer.line() == "n1 · warm · 40 tokens cached · stopped"


def test_a_gateway_that_sends_no_last_event_is_understood() -> None:
    """The end of the reply is then the end of the answer."""
    answer = begun()
    answer.on_event(event(token="x", seq=0), 1.0)
    answer.on_end()
    assert (answer.ending, answer.line()) == ("stop", "n1 · warm · 40 tokens cached")


def test_a_failure_is_told_once_with_where_to_look() -> None:
    """The first thing that goes wrong is what went wrong."""
    answer = begun()
    answer.on_event(event(error="Worker decode failed", code="runtime_died", finished=True), 1.0)
    answer.on_failed("something else")
    answer.on_stopped()
    assert answer.ending == "failed"
    assert answer.failure == "Worker decode failed (runtime_died). `roost why r1` may know more."


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"error":"System at capacity","reason":"no_workers","message":"None."}', "None."),
        (b'{"error":"Too long.","reason":"session_full"}', "Too long. /new begins another"),
        (b'{"error":{"message":"No key.","code":"unauthorized"}}', "No key."),
        (b"<html>", "The gateway answered 503."),
        (b'{"error":"\\u001b[31m!"}', "\ufffd[31m!"),
    ],
)
def test_a_refusal_is_told_in_its_own_words(body: bytes, told: str) -> None:
    """Whoever refuses, the reason is on the screen, and nothing that a terminal obeys."""
    answer = Answer()
    answer.on_refused(503, body)
    assert answer.failure.startswith(told)
    assert answer.line() == ""


def test_what_a_terminal_obeys_is_not_shown() -> None:
    """Neither in the text nor in names that come from other machines."""
    answer = Answer()
    answer.on_head({**HEAD, "x-roost-node": "n\x1b[2J", "x-roost-cached-tokens": "\u0664"})
    assert answer.on_event(event(token="\x1b[31mred", seq=0), 1.0) == "\ufffd[31mred"
    answer.on_stopped()
    assert answer.line() == "n\ufffd[2J · warm · stopped"


def test_what_is_no_event_ends_the_answer() -> None:
    """A stream that cannot be read is not read on."""
    answer = begun()
    assert answer.on_event(b"{", 1.0) == ""
    assert answer.ending == "failed"
