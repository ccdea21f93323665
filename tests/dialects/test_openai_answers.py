"""Thoughts and calls in the shapes of OpenAI's chats, the same streamed and whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from roost.core.events import (
    Delta,
    Finished,
    FinishReason,
    Started,
    StreamEvent,
    TokenChoice,
    TokenLogprob,
    Usage,
)
from roost.core.reading import Reading
from roost.dialects.openai.chat_reply import ChatBody, ChatStream, chat_ends
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.completions_reply import (
    CompletionBody,
    CompletionStream,
    completion_ends,
)
from roost.dialects.openai.options import ReplyOptions
from roost.errors import RoostError
from tests.text.test_answers import CALL, THINK, TOOLS, call

Object: TypeAlias = dict[str, Any]
READING = Reading(THINK, CALL, tools=TOOLS)
SPENT = Usage(9, 4, 12, 5)
ANSWER = "<think>\nLet me see.\n</think>\n\nI look." + call("look", at="naïve 😀") + call("say")


def reply(*, logprobs: bool = False, index: int = 0, alone: bool = True) -> Choice:
    """Give the choice of a reply."""
    options = ReplyOptions(stream=True, include_usage=True, logprobs=logprobs)
    return Choice("chatcmpl-77", 1_700_000_000, "org/m", options, index, alone)


def events(
    pieces: Sequence[str], reason: FinishReason = "stop", reading: Reading | None = READING
) -> list[StreamEvent]:
    """Give the events of an answer that comes in these pieces."""
    started = Started(9, 4, 0, reading, digest="a1b2c3d4e5f6a7b8")
    return [started, *map(Delta, pieces), Finished(reason, SPENT)]


def chunks(stream: ChatStream, said: Sequence[StreamEvent]) -> list[Object]:
    """Encode a stream and give its chunks, which must end with one `[DONE]`."""
    sent = b"".join(map(stream.event, said))
    data = [line[6:] for line in sent.split(b"\n") if line.startswith(b"data: ")]
    assert data[-1] == b"[DONE]"
    assert sent.count(b"[DONE]") == 1
    return [json.loads(one) for one in data[:-1]]


def rebuilt(found: Sequence[Object]) -> Object:
    """Put a streamed message together as clients do, checking the rules of its chunks."""
    message: Object = {"role": "assistant", "content": None, "refusal": None}
    calls: list[Object] = []
    reasons = []
    for number, chunk in enumerate(one for one in found if one["choices"]):
        ChatCompletionChunk.model_validate(chunk, strict=True)
        (choice,) = chunk["choices"]
        delta = choice["delta"]
        assert ("role" in delta) == (number == 0)
        for name in ("content", "reasoning_content"):
            if delta.get(name):
                message[name] = (message.get(name) or "") + delta[name]
        for part in delta.get("tool_calls", ()):
            if part["index"] == len(calls):
                assert set(part) == {"index", "id", "type", "function"}
                calls.append({k: v for k, v in part.items() if k != "index"})
            else:
                assert part["index"] == len(calls) - 1, "calls follow each other"
                assert set(part) == {"index", "function"}
                calls[-1]["function"]["arguments"] += part["function"]["arguments"]
        reasons += [choice["finish_reason"]] if choice["finish_reason"] else []
    (reason,) = reasons
    if calls:
        message["tool_calls"] = calls
    return {"message": message, "finish_reason": reason}


def whole(said: Sequence[StreamEvent], *, logprobs: bool = False) -> Object:
    """Encode a whole reply."""
    body = ChatBody(reply(logprobs=logprobs))
    found: Object = json.loads(b"".join(map(body.event, said)))
    ChatCompletion.model_validate(found, strict=True)
    return found


def test_thoughts_and_calls_whole() -> None:
    """Each part has its place, ids are like no other reply's, and usage tells the thoughts."""
    found = whole(events([ANSWER]))
    assert found["choices"] == [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "I look.",
                "reasoning_content": "Let me see.",
                "tool_calls": [
                    {
                        "id": "call_77_0",
                        "type": "function",
                        "function": {"name": "look", "arguments": json.dumps({"at": "naïve 😀"})},
                    },
                    {
                        "id": "call_77_1",
                        "type": "function",
                        "function": {"name": "say", "arguments": "{}"},
                    },
                ],
                "refusal": None,
            },
            "logprobs": None,
            "finish_reason": "tool_calls",
        }
    ]
    assert found["usage"]["completion_tokens_details"] == {"reasoning_tokens": 5}
    assert found["system_fingerprint"] == "fp_a1b2c3d4e5f6"


def test_a_call_alone_has_no_content() -> None:
    """Content is null where there is nothing but calls, and "" where there is nothing at all."""
    alone = whole(events([call("look")]))["choices"][0]
    assert (alone["message"]["content"], alone["finish_reason"]) == (None, "tool_calls")
    nothing = whole(events([]))["choices"][0]
    assert (nothing["message"]["content"], nothing["finish_reason"]) == ("", "stop")


def test_a_call_that_was_cut() -> None:
    """The limit is the reason, and of the call there is nothing."""
    text = "Well. " + call("look")[:-20]
    found = whole(events([text], "length"))["choices"][0]
    assert (found["message"]["content"], found["finish_reason"]) == ("Well.", "length")
    assert "tool_calls" not in found["message"]
    assert rebuilt(chunks(ChatStream(reply()), events(list(text), "length"))) == {
        "message": found["message"],
        "finish_reason": "length",
    }


def test_a_call_that_cannot_be_used() -> None:
    """Whole it is a 502; streamed one error event, no reason and no `[DONE]`."""
    said = events(["So: <tool_call>nonsense</tool_call>"])
    with pytest.raises(RoostError) as caught:
        whole(said)
    assert (caught.value.failure.reason, caught.value.failure.status) == ("bad_tool_call", 502)
    stream = ChatStream(reply())
    sent = b"".join(map(stream.event, said))
    assert b'"content":"So:"' in sent
    assert b'"code":"bad_tool_call"' in sent
    assert b"[DONE]" not in sent
    assert b'"finish_reason":"' not in sent
    assert stream.broken
    assert stream.ended
    assert stream.event(Delta("x")) + stream.finish(Finished("stop", SPENT)) == b""


@given(st.lists(st.integers(0, len(ANSWER)), max_size=6), st.sampled_from(["stop", "length"]))
def test_streamed_is_whole(cuts: list[int], reason: FinishReason) -> None:
    """However an answer is cut, what is put together of a stream is the whole reply."""
    bounds = [0, *sorted(cuts), len(ANSWER)]
    pieces = [ANSWER[a:b] for a, b in pairwise(bounds)]
    found = chunks(ChatStream(reply()), events(pieces, reason))
    complete = whole(events([ANSWER], reason))
    choice = complete["choices"][0]
    assert rebuilt(found) == {k: choice[k] for k in ("message", "finish_reason")}
    assert found[-1]["usage"] == complete["usage"]
    assert {chunk.get("system_fingerprint") for chunk in found} == {"fp_a1b2c3d4e5f6"}
    assert len({(c["id"], c["created"], c["model"]) for c in found}) == 1


def test_another_attempt_is_read_in_its_own_way() -> None:
    """Before the first text another node may take over, whose template thinks otherwise."""
    stream = ChatStream(reply())
    stream.event(Started(9, 0, 0, Reading(THINK, begun="<think>\n")))
    stream.head()
    stream.event(Started(9, 0, 0))
    assert b'"content":"plain"' in stream.event(Delta("plain"))
    stream.event(Started(9, 0, 0, Reading(THINK, begun="<think>\n")))
    assert b'"content":" text"' in stream.event(Delta(" text"))


def _token(text: str) -> TokenChoice:
    return TokenChoice(TokenLogprob(text, -0.5, text.encode()))


def test_only_text_has_log_probabilities() -> None:
    """Tokens of thoughts, calls and marks have none; those of the text are all there, once."""
    tokens = ["<think>", "hm", "</think>", "\n", "a", " <", " b", "<tool", "_call>", '{"name":']
    tokens += ['"look"}', "</tool_call>"]
    said: list[StreamEvent] = [
        Started(9, 4, 0, READING),
        *(Delta(text, logprobs=(_token(text),)) for text in tokens),
        Finished("stop", SPENT),
    ]
    found = whole(said, logprobs=True)["choices"][0]
    assert found["message"]["content"] == "a < b"
    assert [one["token"] for one in found["logprobs"]["content"]] == ["a", " <", " b"]
    streamed = chunks(ChatStream(reply(logprobs=True)), said)
    logged = [c["choices"][0].get("logprobs") for c in streamed if c["choices"]]
    assert [one["token"] for log in logged if log for one in log["content"]] == ["a", " <", " b"]


def test_one_of_several_choices() -> None:
    """Its chunks have its number, and the end is left to whoever puts them together."""
    said = events(["Hi."], reading=None)
    for stream, ends in (
        (ChatStream(reply(index=2, alone=False)), chat_ends),
        (CompletionStream(reply(index=2, alone=False)), completion_ends),
    ):
        sent = b"".join(map(stream.event, said))
        data = [json.loads(line[6:]) for line in sent.split(b"\n") if line]
        assert {chunk["choices"][0]["index"] for chunk in data} == {2}
        assert "usage" not in data[-1]
        last = ends(reply()).stream(SPENT)
        assert last.count(b"data: ") == 2
        assert last.endswith(b"data: [DONE]\n\n")
    bodies: list[tuple[ChatBody | CompletionBody, Any]] = [
        (ChatBody(reply(index=1, alone=False)), chat_ends),
        (CompletionBody(reply(index=1, alone=False)), completion_ends),
    ]
    for body, ends in bodies:
        choice = b"".join(map(body.event, said))
        joined = json.loads(ends(reply()).body([choice, choice], SPENT))
        assert [one["index"] for one in joined["choices"]] == [1, 1]
        assert joined["usage"]["completion_tokens"] == 12
