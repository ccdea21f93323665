"""Replies have OpenAI's shapes, streamed and whole, and end exactly once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types import Completion
from openai.types.chat import ChatCompletion, ChatCompletionChunk

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
from roost.dialects.openai.chat_reply import ChatBody, ChatStream
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.completions_reply import CompletionBody, CompletionStream
from roost.dialects.openai.logprobs import finite
from roost.dialects.openai.options import ReplyOptions
from roost.errors import Failure, RoostError
from roost.text.sse import SseEvent, SseParser

Stream: TypeAlias = ChatStream | CompletionStream
Body: TypeAlias = ChatBody | CompletionBody
Make: TypeAlias = Callable[[Choice], Stream]
MakeBody: TypeAlias = Callable[[Choice], Body]

USAGE = Usage(prompt_tokens=10, cached_tokens=6, completion_tokens=2)
USAGE_JSON = {
    "prompt_tokens": 10,
    "completion_tokens": 2,
    "total_tokens": 12,
    "prompt_tokens_details": {"cached_tokens": 6},
}
EVENTS: tuple[StreamEvent, ...] = (
    Started(10, 6, 0),
    PrefillProgress(10, 10),
    Delta("naïve "),
    Delta("", tokens=1),
    Delta('"😀"\n'),
    Finished("length", USAGE),
)
streams = pytest.mark.parametrize("make", [ChatStream, CompletionStream])


def _stream(make: Make, *, include_usage: bool = False, logprobs: bool = False) -> Stream:
    options = ReplyOptions(stream=True, include_usage=include_usage, logprobs=logprobs)
    return make(Choice("id-1", 1_700_000_000, "org/m", options))


def _body(make: MakeBody, *, logprobs: bool = False) -> Body:
    return make(Choice("id-1", 1_700_000_000, "org/m", ReplyOptions(logprobs=logprobs)))


def collect(body: Body, events: Sequence[StreamEvent]) -> bytes:
    """Give the JSON body for a whole stream."""
    return b"".join(map(body.event, events))


def _data(sent: bytes) -> list[bytes]:
    found = SseParser(1 << 20).push(sent)
    return [event.data for event in found if isinstance(event, SseEvent)]


def _chunks(sent: bytes) -> list[dict[str, object]]:
    """Parse a complete stream, which must end with the one `[DONE]` it holds."""
    *chunks, done = _data(sent)
    assert done == b"[DONE]"
    assert sent.count(b"[DONE]") == 1
    return [_json(chunk) for chunk in chunks]


def _json(data: bytes) -> dict[str, object]:
    """Parse what every JSON parser accepts: no NaN, no Infinity."""

    def refuse(word: str) -> None:
        raise AssertionError(word)

    found: dict[str, object] = json.loads(data, parse_constant=refuse)
    return found


def _run(stream: Stream, events: tuple[StreamEvent, ...] = EVENTS) -> bytes:
    return b"".join(stream.event(event) for event in events)


def test_a_chat_stream() -> None:
    """The role comes once and first, then text, one reason, and the mark of the end."""
    chunks = _chunks(_run(_stream(ChatStream)))
    assert [chunk["choices"] for chunk in chunks] == [
        [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}],
        [{"index": 0, "delta": {"content": "naïve "}, "finish_reason": None}],
        [{"index": 0, "delta": {"content": '"😀"\n'}, "finish_reason": None}],
        [{"index": 0, "delta": {}, "finish_reason": "length"}],
    ]
    for chunk in chunks:
        assert {**chunk, "choices": []} == {
            "id": "id-1",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": "org/m",
            "choices": [],
        }
        ChatCompletionChunk.model_validate(chunk, strict=True)


def test_a_completion_stream() -> None:
    """This API has no role; every chunk has text, and the last one the reason."""
    chunks = _chunks(_run(_stream(CompletionStream)))
    assert [chunk["choices"] for chunk in chunks] == [
        [{"index": 0, "text": "naïve ", "logprobs": None, "finish_reason": None}],
        [{"index": 0, "text": '"😀"\n', "logprobs": None, "finish_reason": None}],
        [{"index": 0, "text": "", "logprobs": None, "finish_reason": "length"}],
    ]
    assert {chunk["object"] for chunk in chunks} == {"text_completion"}
    Completion.model_validate(chunks[-1], strict=True)


@streams
def test_usage_only_on_request(make: Make) -> None:
    """Asked for, it is one chunk without choices between the reason and the end."""
    assert all("usage" not in chunk for chunk in _chunks(_run(_stream(make))))
    *others, last = _chunks(_run(_stream(make, include_usage=True)))
    assert (last["choices"], last["usage"]) == ([], USAGE_JSON)
    assert all("usage" not in chunk for chunk in others)


@streams
@pytest.mark.parametrize("usage", [True, False])
def test_late_facts_are_on_the_last_chunk(make: Make, usage: bool) -> None:
    """What was unknown when the headers were sent travels under `roost` on the last chunk alone."""
    stream = _stream(make, include_usage=usage)
    stream.roost_extra({"node": "n\u2028", "cached_tokens": 6, "queue_ms": 1.5, "moved": None})
    *others, last = _chunks(_run(stream))
    assert last["roost"] == {"node": "n\u2028", "cached_tokens": 6, "queue_ms": 1.5, "moved": None}
    assert not any("roost" in chunk for chunk in others)


def test_the_head_is_sent_once() -> None:
    """The role chunk may be asked for early; text then does not repeat it."""
    stream = _stream(ChatStream)
    assert b'"role":"assistant"' in stream.head()
    assert stream.head() == b""
    assert b"role" not in stream.event(Delta("x"))
    assert _stream(CompletionStream).head() == b""


def test_an_empty_answer() -> None:
    """A stream that ends at once still has its role, its reason and its end."""
    chunks = _chunks(_run(_stream(ChatStream), (Finished("stop", Usage()),)))
    assert len(chunks) == 2


@streams
def test_a_failure_in_mid_stream(make: Make) -> None:
    """One error event ends the stream: no reason, no `[DONE]`, nothing after it."""
    stream = _stream(make, include_usage=True)
    stream.event(Delta("a"))
    (error,) = _data(stream.event(Failed(Failure("node_lost", "The node was lost."))))
    assert _json(error) == {
        "error": {
            "message": "The node was lost.",
            "type": "server_error",
            "param": None,
            "code": "node_lost",
        }
    }
    assert stream.ended
    assert _run(stream) + stream.head() + stream.comment("x") == b""
    assert stream.error(Failure("internal", "x")) == b""


@streams
def test_nothing_after_the_end(make: Make) -> None:
    """After a clean end neither text nor an error nor a second end is sent."""
    stream = _stream(make)
    _run(stream)
    assert stream.ended
    assert _run(stream) + stream.error(Failure("internal", "x")) + stream.comment("x") == b""


@streams
def test_comments(make: Make) -> None:
    """A sign of life is a comment and no event."""
    stream = _stream(make)
    assert stream.comment("waiting") == b": waiting\n\n"
    assert not stream.ended


def test_a_whole_chat_reply() -> None:
    """The message, the reason and the usage, in a body the official client accepts."""
    body = _body(ChatBody)
    body.roost_extra({"node": "n"})
    found = _json(collect(body, EVENTS))
    assert found == {
        "id": "id-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "org/m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": 'naïve "😀"\n', "refusal": None},
                "logprobs": None,
                "finish_reason": "length",
            }
        ],
        "usage": USAGE_JSON,
        "roost": {"node": "n"},
    }
    ChatCompletion.model_validate(found, strict=True)


def test_a_whole_completion() -> None:
    """The text and the reason in the shape of the older API."""
    found = _json(collect(_body(CompletionBody), EVENTS))
    assert found["choices"] == [
        {"index": 0, "text": 'naïve "😀"\n', "logprobs": None, "finish_reason": "length"}
    ]
    assert found["usage"] == USAGE_JSON
    Completion.model_validate(found, strict=True)


@pytest.mark.parametrize("make", [ChatBody, CompletionBody])
def test_a_whole_reply_that_fails(make: MakeBody) -> None:
    """A failure is raised, so that it keeps its status."""
    with pytest.raises(RoostError, match=r"was lost") as caught:
        collect(_body(make), (Delta("a"), Failed(Failure("node_lost", "It was lost."))))
    assert caught.value.failure.reason == "node_lost"


def _token(raw: bytes, logprob: float) -> TokenLogprob:
    return TokenLogprob(raw.decode("utf-8", "replace"), logprob, raw)


# An emoji in two tokens, one drawn with certainty and beside alternatives of probability zero.
SMILE = "😀".encode()
TOKENS = (
    TokenChoice(_token(b"a\xc3\xa9", -0.5), (_token(b"a\xc3\xa9", -0.5), _token(b"b", -math.inf))),
    TokenChoice(_token(SMILE[:2], 0.0), (_token(SMILE[:2], 0.0), _token(SMILE[:3], -1.0))),
    TokenChoice(_token(SMILE[2:], -1.5), (_token(SMILE[2:], math.nan),)),
    TokenChoice(_token(b"!", -2.0)),
)
LOGGED: tuple[StreamEvent, ...] = (
    Delta("aé", logprobs=TOKENS[:1]),
    Delta("", logprobs=TOKENS[1:2]),
    Delta("😀!", tokens=2, logprobs=TOKENS[2:]),
    Finished("stop", USAGE),
)


def test_chat_logprobs() -> None:
    """Raw bytes, numbers that JSON has, and the same tokens streamed and whole."""
    whole = _json(collect(_body(ChatBody, logprobs=True), LOGGED))
    checked = ChatCompletion.model_validate(whole, strict=True).choices[0].logprobs
    assert checked
    assert checked.content
    assert [entry.bytes for entry in checked.content] == [list(t.chosen.raw) for t in TOKENS]
    assert [entry.logprob for entry in checked.content] == [-0.5, 0.0, -1.5, -2.0]
    assert [[t.logprob for t in entry.top_logprobs] for entry in checked.content] == [
        [-0.5, -9999.0],
        [0.0, -1.0],
        [-9999.0],
        [],
    ]
    streamed = []
    for chunk in _chunks(_run(_stream(ChatStream, logprobs=True), LOGGED)):
        choice = ChatCompletionChunk.model_validate(chunk, strict=True).choices[0]
        streamed += (choice.logprobs and choice.logprobs.content) or []
    assert streamed == checked.content


def test_completion_logprobs() -> None:
    """Parallel lists, offsets in characters that run on, and tokens without text by their bytes."""
    whole = _json(collect(_body(CompletionBody, logprobs=True), LOGGED))
    expected = {
        "tokens": ["aé", r"bytes:\xf0\x9f", r"bytes:\x98\x80", "!"],
        "token_logprobs": [-0.5, 0.0, -1.5, -2.0],
        "top_logprobs": [
            {"aé": -0.5, "b": -9999.0},
            {r"bytes:\xf0\x9f": 0.0, r"bytes:\xf0\x9f\x98": -1.0},
            {r"bytes:\x98\x80": -9999.0},
            {},
        ],
        "text_offset": [0, 2, 2, 3],
    }
    assert whole["choices"][0]["logprobs"] == expected  # type: ignore[index]
    joined: dict[str, list[object]] = {name: [] for name in expected}
    for chunk in _chunks(_run(_stream(CompletionStream, logprobs=True), LOGGED)):
        for name, values in (chunk["choices"][0]["logprobs"] or {}).items():  # type: ignore[index]
            joined[name] += values
    assert joined == expected


@streams
def test_logprobs_only_on_request(make: Make) -> None:
    """Numbers that nobody asked for are not sent, nor chunks that would hold nothing else."""
    chunks = _chunks(_run(_stream(make), LOGGED))
    assert not any(chunk["choices"][0].get("logprobs") for chunk in chunks)  # type: ignore[index]
    assert len(chunks) == (4 if make is ChatStream else 3)
    assert b'"logprobs":null' in collect(_body(ChatBody), LOGGED)


@given(st.floats())
def test_every_logprob_is_a_json_number(value: float) -> None:
    """Nothing leaves the range from the floor to zero."""
    assert -9999.0 <= finite(value) <= 0.0


@given(st.lists(st.text(st.characters(), max_size=5), max_size=6))
def test_text_arrives_whole(texts: list[str]) -> None:
    """For any text in any pieces, streamed and whole replies hold that text on single lines."""
    events: tuple[StreamEvent, ...] = (*map(Delta, texts), Finished("stop", Usage()))
    expected = "".join(texts).encode("utf-8", "replace").decode()
    for make in (ChatStream, CompletionStream):
        sent = _run(_stream(make), events)
        found = [chunk["choices"][0] for chunk in _chunks(sent)]  # type: ignore[index]
        assert "".join(
            c.get("text", "") or c.get("delta", {}).get("content", "") for c in found
        ) == (expected)
        assert len(sent.decode().splitlines()) == sent.count(b"\n")
    whole = _json(collect(_body(ChatBody), events))
    assert whole["choices"][0]["message"]["content"] == expected  # type: ignore[index]
