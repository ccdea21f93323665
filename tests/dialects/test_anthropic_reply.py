"""Replies of /v1/messages: the order of events, blocks that fit, and streamed equals whole."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.events import Delta, Failed, Finished, FinishReason, Started, StreamEvent, Usage
from roost.core.reading import Reading
from roost.dialects.anthropic.reply import MessageBody, MessageStream
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.options import ReplyOptions
from roost.errors import Failure, RoostError
from roost.text.sse import SseEvent, SseParser

CHOICE = Choice("msg_abc", 1, "m", ReplyOptions(stream=True))
READING = Reading(
    think=("<think>", "</think>"),
    call=("<tool_call>", "</tool_call>"),
    tools=("weather", "now"),
)
USAGE = Usage(10, 4, 7)
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "naïve 😀 歪"}}</tool_call>'
Event = dict[str, object]


def events_of(data: bytes) -> list[Event]:
    """Parse a stream; every event has its line, and it is that of its data."""
    found = []
    for item in SseParser(1 << 20).push(data):
        assert isinstance(item, SseEvent)
        told = json.loads(item.data)
        assert item.event == told["type"]
        found.append(told)
    return found


def started(reading: Reading | None = READING) -> Started:
    """Make the event with the counts of the prompt."""
    return Started(10, 4, 0, reading)


def finished(reason: FinishReason = "stop", stop_text: str | None = None) -> Finished:
    """Make an end."""
    return Finished(reason, USAGE, stop_text)


def streamed(
    texts: Sequence[str],
    end: StreamEvent,
    choice: Choice = CHOICE,
    reading: Reading | None = READING,
) -> list[Event]:
    """Stream an answer in these pieces."""
    voice = MessageStream(choice)
    data = voice.head() + voice.event(started(reading))
    data += b"".join(voice.event(Delta(text)) for text in texts)
    return events_of(data + voice.event(end))


def whole(
    texts: Sequence[str],
    end: StreamEvent,
    choice: Choice = CHOICE,
    reading: Reading | None = READING,
) -> Event:
    """Collect the same answer."""
    voice = MessageBody(choice)
    events: list[StreamEvent] = [started(reading), *(Delta(text) for text in texts), end]
    found: Event = json.loads(b"".join(map(voice.event, events)))
    return found


def assembled(events: Sequence[Event]) -> Event:
    """Put a stream together as clients do, and check its grammar on the way."""
    first, *middle = [event for event in events if event["type"] != "ping"]
    assert first["type"] == "message_start"
    message = first["message"]
    assert isinstance(message, dict)
    blocks: list[dict[str, str]] = []
    is_open = False
    for event in middle[:-2]:
        match event["type"]:
            case "content_block_start":
                assert not is_open
                assert event["index"] == len(blocks)
                block = event["content_block"]
                assert isinstance(block, dict)
                assert block.get("input", {}) == {}
                blocks.append({**block, "json": ""})
                is_open = True
            case "content_block_delta":
                assert is_open
                assert event["index"] == len(blocks) - 1
                _add(blocks[-1], event["delta"])
            case "content_block_stop":
                assert is_open
                assert event["index"] == len(blocks) - 1
                is_open = False
            case other:
                raise AssertionError(other)
    assert not is_open
    delta, stop = middle[-2:]
    assert (delta["type"], stop["type"]) == ("message_delta", "message_stop")
    end, usage = delta["delta"], delta["usage"]
    assert isinstance(end, dict)
    content = [_whole(block) for block in blocks]
    return {**message, **end, "content": content, "usage": usage}


def _add(block: dict[str, str], delta: object) -> None:
    assert isinstance(delta, dict)
    fits = {"thinking_delta": "thinking", "text_delta": "text", "input_json_delta": "tool_use"}
    assert fits[delta["type"]] == block["type"]
    name = {"thinking": "thinking", "text": "text", "tool_use": "partial_json"}[block["type"]]
    block["json" if name == "partial_json" else name] += delta[name]


def _whole(block: dict[str, str]) -> Event:
    text = block.pop("json")
    return (
        {**block, "input": json.loads(text or "{}")} if block["type"] == "tool_use" else {**block}
    )


def test_every_kind_of_block_in_one_answer() -> None:
    """Thoughts, text, two calls: four blocks in turn, and the call is why it ended."""
    answer = f'<think>hm</think>\n\nI look. {CALL}\n<tool_call>{{"name": "now"}}</tool_call>'
    found = assembled(streamed([answer], finished()))
    content = found["content"]
    assert isinstance(content, list)
    assert [block["type"] for block in content] == ["thinking", "text", "tool_use", "tool_use"]
    assert content[0] == {"type": "thinking", "thinking": "hm", "signature": ""}
    assert content[1] == {"type": "text", "text": "I look."}
    assert content[2] == {
        "type": "tool_use",
        "id": "toolu_abc_0",
        "name": "weather",
        "input": {"city": "naïve 😀 歪"},
    }
    assert content[3]["input"] == {}
    assert (found["stop_reason"], found["stop_sequence"]) == ("tool_use", None)
    assert found["usage"] == {
        "input_tokens": 6,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 4,
        "output_tokens": 7,
    }


_ANSWERS = st.sampled_from(
    [
        "Hello, naïve 😀 歪 שלום",
        "<think>one\ntwo</think>\n\nthree",
        f"<think>so</think>{CALL}",
        f"first {CALL} then",
        "",
        "<think>never closed",
        f"{CALL}{CALL}",
    ]
)
_ENDS = st.sampled_from(
    [finished(), finished("length"), finished("stop", "END"), finished("stop", "\u2028é")]
)


@given(_ANSWERS, st.lists(st.integers(0, 200), max_size=6), _ENDS, st.booleans())
def test_streamed_is_whole_however_it_is_cut(
    answer: str, cuts: list[int], end: Finished, thoughts: bool
) -> None:
    """The blocks, the reason and the usage of a stream put together are those of the body."""
    bounds = sorted({0, *(min(cut, len(answer)) for cut in cuts), len(answer)})
    texts = [answer[a:b] for a, b in pairwise(bounds)]
    choice = Choice("msg_abc", 1, "m", ReplyOptions(stream=True, thoughts=thoughts))
    body = whole([answer], end, choice)
    assert assembled(streamed(texts, end, choice)) == body
    content = body["content"]
    assert isinstance(content, list)
    kinds = [block["type"] for block in content]
    assert thoughts or "thinking" not in kinds
    assert (body["stop_reason"] == "tool_use") <= ("tool_use" in kinds)


@pytest.mark.parametrize(
    ("end", "reason", "sequence"),
    [
        (finished(), "end_turn", None),
        (finished("length"), "max_tokens", None),
        (finished("stop", "END"), "stop_sequence", "END"),
    ],
)
def test_why_an_answer_ended(end: Finished, reason: str, sequence: str | None) -> None:
    """Each reason of ours has one of theirs."""
    found = assembled(streamed(["text"], end, reading=None))
    assert (found["stop_reason"], found["stop_sequence"]) == (reason, sequence)


def test_nothing_said_is_no_block() -> None:
    """An answer that ends at once is whole all the same."""
    assert assembled(streamed([], finished()))["content"] == []


def test_only_pings_come_before_the_counts() -> None:
    """What waits is kept alive by pings; the first event has the counts and comes once."""
    voice = MessageStream(CHOICE)
    data = voice.head() + voice.comment("queued") + voice.comment("loading m 41 %")
    data += voice.event(started()) + voice.head() + voice.event(started())
    data += voice.event(Delta("x")) + voice.comment("") + voice.event(finished())
    kinds = [event["type"] for event in events_of(data)]
    assert kinds[:3] == ["ping", "ping", "message_start"]
    assert kinds.count("message_start") == 1
    assert kinds[-2:] == ["message_delta", "message_stop"]
    assert voice.comment("late") == voice.event(Delta("late")) == b""


def test_a_failure_is_an_event_and_the_last() -> None:
    """In mid-stream, before anything, and for a call that cannot be used."""
    failed = Failed(Failure("runtime_died", "gone"))
    events = streamed(["some"], failed)
    error = events[-1]
    assert error["type"] == "error"
    assert error["request_id"] == "abc"
    assert error["error"] == {"type": "api_error", "message": "gone"}
    assert not any(event["type"] in {"message_delta", "message_stop"} for event in events)
    voice = MessageStream(CHOICE)
    assert events_of(voice.error(Failure("overloaded", "full")))[0]["error"] == {
        "type": "overloaded_error",
        "message": "full",
    }
    wrong = '<tool_call>{"name": "nothing"}</tool_call>'
    voice = MessageStream(CHOICE)
    data = voice.event(started()) + voice.event(Delta(wrong)) + voice.event(finished())
    assert events_of(data)[-1]["type"] == "error"
    assert voice.broken
    with pytest.raises(RoostError, match="no such tool"):
        whole([wrong], finished())
    with pytest.raises(RoostError, match="gone"):
        whole(["some"], failed)


def test_facts_stand_at_the_end() -> None:
    """Beside the usage of a stream, and on the body."""
    voice = MessageStream(CHOICE)
    voice.event(started())
    voice.roost_extra({"placement": "warm"})
    assert events_of(voice.event(finished()))[-2]["roost"] == {"placement": "warm"}
    body = MessageBody(CHOICE)
    body.event(started())
    body.roost_extra({"placement": "warm"})
    assert json.loads(body.event(finished()))["roost"] == {"placement": "warm"}
