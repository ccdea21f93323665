"""Replies of /api/chat and /api/generate: lines, streamed equals whole, and ends that are ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.events import (
    Delta,
    Failed,
    Finished,
    FinishReason,
    Started,
    StreamEvent,
    TokenChoice,
    TokenLogprob,
    Usage,
)
from roost.core.reading import Reading
from roost.dialects.ollama.reply import OllamaBody, OllamaStream, Shape
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.options import ReplyOptions
from roost.dialects.stay import Stay
from roost.errors import Failure, RoostError

Line = dict[str, object]
CHOICE = Choice("ollama-abc", 1_700_000_000, "m", ReplyOptions(stream=True))
READING = Reading(
    think=("<think>", "</think>"), call=("<tool_call>", "</tool_call>"), tools=("weather", "now")
)
USAGE = Usage(10, 4, 7)
CALL = '<tool_call>{"name": "weather",\n "arguments": {"city": "naïve 😀 \\u2028"}}\n</tool_call>'
FACTS: dict[str, str | int | float | bool | None] = {
    "node": "n1",
    "total_ns": 9,
    "load_ns": 2,
    "prefill_ns": 3,
    "decode_ns": 4,
}


def lines_of(data: bytes) -> list[Line]:
    """Parse a stream as clients do that split at every end of a line there is."""
    assert not data or data.endswith(b"\n")
    return [json.loads(line) for line in data.decode().splitlines()]


def finished(reason: FinishReason = "stop", stop_text: str | None = None) -> Finished:
    """Make an end."""
    return Finished(reason, USAGE, stop_text)


def streamed(
    texts: Sequence[str],
    end: StreamEvent,
    choice: Choice = CHOICE,
    shape: Shape = "chat",
    reading: Reading | None = READING,
) -> list[Line]:
    """Stream an answer in these pieces, with a sign of life before it."""
    voice = OllamaStream(choice, shape)
    data = voice.head() + voice.comment("waiting") + voice.event(Started(10, 4, 0, reading))
    data += b"".join(voice.event(Delta(text)) for text in texts)
    voice.roost_extra(FACTS)
    return lines_of(data + voice.event(end) + voice.event(end) + voice.comment("late"))


def whole(
    texts: Sequence[str],
    end: StreamEvent,
    choice: Choice = CHOICE,
    shape: Shape = "chat",
    reading: Reading | None = READING,
) -> Line:
    """Collect the same answer."""
    voice = OllamaBody(choice, shape)
    voice.roost_extra(FACTS)
    events: list[StreamEvent] = [Started(10, 4, 0, reading), *(Delta(text) for text in texts), end]
    found: Line = json.loads(b"".join(map(voice.event, events)))
    return found


def assembled(lines: Sequence[Line], shape: Shape = "chat") -> Line:
    """Put a stream together as clients do, and check its grammar on the way."""
    *middle, last = lines
    assert all(line["done"] is False for line in middle)
    assert last["done"] is True
    text, thought, calls = "", "", []
    for line in lines:
        assert (line["model"], line["created_at"]) == ("m", "2023-11-14T22:13:20Z")
        said = cast("Line", line["message"]) if shape == "chat" else line
        text += str(said["content" if shape == "chat" else "response"])
        thought += str(said.get("thinking", ""))
        calls += cast("list[Line]", said.get("tool_calls", []))
    told: Line = {"thinking": thought} if thought else {}
    told |= {"tool_calls": calls} if calls else {}
    if shape == "generate":
        return {**last, "response": text, **told}
    return {**last, "message": {"role": "assistant", "content": text, **told}}


def test_every_kind_of_line_in_one_answer() -> None:
    """A thought, text, a call whose arguments are an object, and an end with its figures."""
    lines = streamed([f"<think>hm</think>I look. {CALL}"], finished())
    quiet, thought, text, call, last = lines
    assert quiet["message"] == {"role": "assistant", "content": ""}
    assert thought["message"] == {"role": "assistant", "content": "", "thinking": "hm"}
    assert text["message"] == {"role": "assistant", "content": "I look."}
    assert call["message"] == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "call_abc_0",
                "function": {
                    "index": 0,
                    "name": "weather",
                    "arguments": {"city": "naïve 😀 \u2028"},
                },
            }
        ],
    }
    assert last == {
        "model": "m",
        "created_at": "2023-11-14T22:13:20Z",
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": "stop",
        "total_duration": 9,
        "load_duration": 2,
        "prompt_eval_duration": 3,
        "eval_duration": 4,
        "prompt_eval_count": 10,
        "eval_count": 7,
        "roost": {"node": "n1"},
    }


_ANSWERS = st.sampled_from(
    [
        "Hello, naïve 😀 歪 שלום\u2028\u0085",
        "<think>one\ntwo</think>\n\nthree",
        f"<think>so</think>{CALL}",
        f"first {CALL} then",
        "",
        "<think>never closed",
        f"{CALL}{CALL}",
    ]
)
_ENDS = st.sampled_from([finished(), finished("length"), finished("stop", "END")])


@given(
    _ANSWERS,
    st.lists(st.integers(0, 200), max_size=6),
    _ENDS,
    st.booleans(),
    st.sampled_from(["chat", "generate"]),
)
def test_streamed_is_whole_however_it_is_cut(
    answer: str, cuts: list[int], end: Finished, thoughts: bool, shape: Shape
) -> None:
    """The lines of a stream put together are the body that comes whole."""
    bounds = sorted({0, *(min(cut, len(answer)) for cut in cuts), len(answer)})
    texts = [answer[a:b] for a, b in pairwise(bounds)]
    choice = Choice("ollama-abc", 1_700_000_000, "m", ReplyOptions(thoughts=thoughts))
    reading = READING if shape == "chat" else Reading(think=READING.think)
    body = whole([answer], end, choice, shape, reading)
    assert assembled(streamed(texts, end, choice, shape, reading), shape) == body
    assert thoughts or "thinking" not in json.dumps(body)


@pytest.mark.parametrize("shape", ["chat", "generate"])
def test_a_stream_that_fails_says_so_and_is_never_done(shape: Shape) -> None:
    """One line with the error is the last one; whole, it is raised."""
    failed = Failed(Failure("runtime_died", "it is gone\u2028"))
    lines = streamed(["half"], failed, shape=shape)
    assert lines[-1] == {"error": "it is gone\u2028"}
    assert not any(line.get("done") for line in lines)
    assert not OllamaStream(CHOICE, shape).fails_cleanly
    with pytest.raises(RoostError, match="it is gone"):
        whole(["half"], failed, shape=shape)


def test_a_call_that_cannot_be_read_is_an_error() -> None:
    """The answer was complete, and is of no use."""
    voice = OllamaStream(CHOICE, "chat")
    voice.event(Started(1, 0, 0, READING))
    text = '<tool_call>{"name": "nobody"}</tool_call>'
    lines = lines_of(voice.event(Delta(text)) + voice.finish(finished()))
    assert voice.broken
    assert list(lines[-1]) == ["error"]
    assert not any(line.get("done") for line in lines)


@pytest.mark.parametrize(("keep_s", "reason"), [(None, "load"), (5.0, "load"), (0.0, "unload")])
def test_a_model_that_is_only_loaded_says_nothing(keep_s: float | None, reason: str) -> None:
    """What it was asked for that is told to nobody, and neither are counts of it."""
    options = ReplyOptions(stream=True, stay=Stay(keep_s, alone=True))
    choice = Choice("ollama-abc", 1, "m", options)
    [quiet, last] = streamed(["."], finished(), choice, reading=None)
    assert quiet["done"] is False
    assert last["message"] == {"role": "assistant", "content": ""}
    assert (last["done"], last["done_reason"]) == (True, reason)
    assert "eval_count" not in last
    body = whole(["."], finished(), choice, "generate", None)
    assert (body["response"], body["done_reason"], body["load_duration"]) == ("", reason, 2)


def test_what_was_not_measured_is_left_out() -> None:
    """An answer without text has no time in which it was said."""
    body = json.loads(OllamaBody(CHOICE, "chat").event(finished()))
    assert not any(name.endswith("duration") for name in body)
    assert "roost" not in body


def test_log_probabilities_stand_beside_the_text() -> None:
    """As a list, the alternatives with each token."""
    token = TokenChoice(TokenLogprob("Hi", -0.5, b"Hi"), (TokenLogprob("Ho", -1.5, b"Ho"),))
    options = ReplyOptions(logprobs=True)
    told = [
        {
            "token": "Hi",
            "logprob": -0.5,
            "bytes": [72, 105],
            "top_logprobs": [{"token": "Ho", "logprob": -1.5, "bytes": [72, 111]}],
        }
    ]
    choice = Choice("ollama-abc", 1, "m", options)
    stream, body = OllamaStream(choice, "generate"), OllamaBody(choice, "generate")
    delta = Delta("Hi", logprobs=(token,))
    [line] = lines_of(stream.event(delta))
    assert (line["response"], line["logprobs"]) == ("Hi", told)
    body.event(delta)
    assert json.loads(body.event(finished()))["logprobs"] == told
