"""What comes of one chat request, as `roost run` tells it."""

from __future__ import annotations

import msgspec
import pytest

from roost.cli.oneshot import OneShot, Usage


def chunk(content: str | None = None, reason: str | None = None, **more: object) -> bytes:
    """One event of a stream."""
    choice = {"index": 0, "delta": {"content": content}, "finish_reason": reason}
    return msgspec.json.encode({"choices": [choice], **more})


def test_a_stream_is_its_text_its_end_and_what_it_took() -> None:
    """Piece by piece; usage has no choice, and the end comes after it."""
    one = OneShot()
    assert [one.on_event(chunk("Hel")), one.on_event(chunk("lo"))] == ["Hel", "lo"]
    assert one.on_event(chunk(None, "stop")) == ""
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    assert one.on_event(msgspec.json.encode({"choices": [], "usage": usage})) == ""
    assert not one.over
    one.on_event(b"[DONE]")
    assert one.over
    one.on_end()
    assert (one.text, one.reason, one.failure, one.usage) == ("Hello", "stop", "", Usage(7, 2))


def test_a_whole_reply_is_the_same() -> None:
    """In one piece, with a message in place of deltas."""
    one = OneShot()
    message = {"role": "assistant", "content": "Hello"}
    choice = {"index": 0, "message": message, "finish_reason": "length"}
    assert one.on_body(msgspec.json.encode({"choices": [choice]})) == "Hello"
    assert (one.over, one.reason, one.failure) == (True, "length", "")


@pytest.mark.parametrize(
    ("data", "failure"),
    [
        (b'{"error":{"message":"The node\\nis gone."}}', "The node is gone."),
        (b"<html>", "What answers there does not speak as a gateway of roost does."),
        (b'{"choices":[1]}', "What answers there does not speak as a gateway of roost does."),
    ],
)
def test_an_error_in_a_stream_is_its_end(data: bytes, failure: str) -> None:
    """In one line, and the first of them counts."""
    one = OneShot()
    one.on_event(chunk("so far"))
    one.on_event(data)
    assert (one.over, one.failure, one.text) == (True, failure, "so far")
    one.on_end()
    assert one.failure == failure


def test_an_end_without_its_last_words_is_none() -> None:
    """A connection that breaks looks like this."""
    one = OneShot()
    one.on_event(chunk("so far"))
    one.on_end()
    assert one.failure == "The connection ended before the answer did."


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        (b'{"error":{"message":"No such model."}}', "No such model."),
        (b"Bad gateway", "The gateway answered 502."),
        (b"{}", "The gateway answered 502."),
    ],
)
def test_a_refusal_says_why_or_at_least_how(body: bytes, failure: str) -> None:
    """What stands before a gateway may answer in its place."""
    one = OneShot()
    one.on_refused(502, body)
    assert (one.over, one.failure) == (True, failure)
