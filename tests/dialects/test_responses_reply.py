"""Responses: the grammar of their events, checked against the official types as well."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel

from roost.core.events import Delta, Failed, Finished, Started, StreamEvent, Usage
from roost.core.reading import Reading
from roost.core.request import Message, ToolCall
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.options import ReplyOptions
from roost.dialects.responses.reply import ResponseBody, ResponseStream
from roost.dialects.responses.response import spoken
from roost.dialects.wishes import Wishes
from roost.errors import Failure, RoostError
from roost.text.sse import SseEvent, SseParser

WISHES = Wishes("resp_0", instructions="Be brief.", metadata={"a": "b"})
CHOICE = Choice("resp_abc", 1, "m", ReplyOptions(stream=True, wishes=WISHES))
READING = Reading(
    think=("<think>", "</think>"),
    call=("<tool_call>", "</tool_call>"),
    tools=("weather", "now"),
)
CALL = '<tool_call>{"name": "weather", "arguments": {"city": "naïve 😀 歪"}}</tool_call>'
TYPED: dict[str, type[BaseModel]] = {
    get_args(kind.model_fields["type"].annotation)[0]: kind
    for kind in get_args(get_args(ResponseStreamEvent)[0])
}
TERMINAL = {"response.completed", "response.incomplete", "response.failed"}
OVERFLOW = b'"context_length_exceeded"'
"""A code that agents know, and the types do not."""
Event = dict[str, object]


def started(reading: Reading | None = READING) -> Started:
    """Make the event with the counts of the prompt."""
    return Started(10, 4, 0, reading)


def finished(reason: str = "stop") -> Finished:
    """Make an end."""
    return Finished("length" if reason == "length" else "stop", Usage(10, 4, 7, 2))


def events_of(data: bytes) -> list[Event]:
    """Parse a stream; each event has its line and its number, and is what the SDK expects."""
    found: list[Event] = []
    for item in SseParser(1 << 20).push(data):
        assert isinstance(item, SseEvent)
        if not item.data:
            continue
        told = json.loads(item.data)
        assert item.event == told["type"]
        assert told["sequence_number"] == len(found)
        TYPED[item.event].model_validate_json(item.data.replace(OVERFLOW, b'"server_error"'))
        found.append(told)
    return found


def streamed(texts: Sequence[str], end: StreamEvent) -> list[Event]:
    """Stream an answer in these pieces."""
    voice = ResponseStream(CHOICE)
    data = voice.head() + voice.event(started())
    data += b"".join(voice.event(Delta(text)) for text in texts)
    return events_of(data + voice.event(end))


def whole(texts: Sequence[str], end: StreamEvent) -> Event:
    """Collect the same answer."""
    voice = ResponseBody(CHOICE)
    events: list[StreamEvent] = [started(), *(Delta(text) for text in texts), end]
    found: Event = json.loads(b"".join(map(voice.event, events)))
    Response.model_validate(found)
    return found


def assembled(events: Sequence[Event]) -> list[Event]:
    """Put the items together from the events alone, and check their grammar on the way."""
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1]["type"] in TERMINAL
    assert not any(event["type"] in TERMINAL for event in events[:-1])
    items: list[Event] = []
    text = ""
    opened: list[str] = []
    for event in events[2:-1]:
        kind = str(event["type"]).removeprefix("response.")
        assert event["output_index"] == len(items)
        if kind.endswith(".added"):
            opened.append(kind.removesuffix(".added"))
            text = ""
        elif kind.endswith(".delta"):
            text += str(event["delta"])
        elif kind in {"output_item.done", "content_part.done"}:
            assert opened.pop() == kind.removesuffix(".done")
            if kind == "output_item.done":
                item = event["item"]
                assert isinstance(item, dict)
                items.append(item)
                assert (
                    text in json.dumps(item, ensure_ascii=False).replace('\\"', '"') or "\n" in text
                )
        else:
            assert kind.endswith(".done")
            assert event.get("text", event.get("arguments")) == text
    assert opened == []
    return items


def test_every_kind_of_item_in_one_response() -> None:
    """Thoughts, text and two calls are four items, and the last event has all of them."""
    answer = f'<think>hm</think>\n\nI look. {CALL}\n<tool_call>{{"name": "now"}}</tool_call>'
    events = streamed([answer], finished())
    items = assembled(events)
    response = events[-1]["response"]
    assert isinstance(response, dict)
    assert response["output"] == items
    assert [item["type"] for item in items] == ["reasoning", "message", *["function_call"] * 2]
    assert items[2]["arguments"] == '{"city": "naïve 😀 歪"}'
    assert items[2]["call_id"] == "call_abc_0"
    assert len({item["id"] for item in items}) == 4
    assert response["status"] == "completed"
    assert response["usage"] == {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 7,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 17,
    }
    assert (response["previous_response_id"], response["metadata"]) == ("resp_0", {"a": "b"})
    calls = (
        ToolCall("call_abc_0", "weather", '{"city": "naïve 😀 歪"}'),
        ToolCall("call_abc_1", "now", "{}"),
    )
    assert spoken(items) == (Message("assistant", "I look.", reasoning="hm", calls=calls),)


_ANSWERS = st.sampled_from(
    [
        "Hello, naïve 😀 歪 שלום",
        "<think>one\ntwo</think>\n\nthree",
        f"<think>so</think>{CALL}",
        f"first {CALL} then",
        "",
        "<think>never closed",
        f"{CALL}{CALL}",
        "half a pair \ud83d here",
    ]
)


@given(_ANSWERS, st.lists(st.integers(0, 200), max_size=6), st.sampled_from(["stop", "length"]))
def test_streamed_is_whole_however_it_is_cut(answer: str, cuts: list[int], reason: str) -> None:
    """The response at the end of a stream is the one that comes whole."""
    bounds = sorted({0, *(min(cut, len(answer)) for cut in cuts), len(answer)})
    events = streamed([answer[a:b] for a, b in pairwise(bounds)], finished(reason))
    assembled(events)
    found = whole([answer], finished(reason))
    assert events[-1]["response"] == found
    ends = {"stop": ("response.completed", None), "length": ("response.incomplete", _LIMIT)}
    assert (events[-1]["type"], found["incomplete_details"]) == ends[reason]


_LIMIT = {"reason": "max_output_tokens"}


@pytest.mark.parametrize(
    ("reason", "code"),
    [("context_length_exceeded", "context_length_exceeded"), ("runtime_died", "server_error")],
)
def test_a_failure_is_the_last_event(reason: str, code: str) -> None:
    """With what there was until then, and before anything as well; nothing follows."""
    failure = Failure(reason, "so it is")
    events = streamed(["some"], Failed(failure))
    assembled(events)
    response = events[-1]["response"]
    assert isinstance(response, dict)
    assert (response["status"], response["error"]["code"]) == ("failed", code)
    assert response["output"][0]["status"] == "incomplete"
    voice = ResponseStream(CHOICE)
    told = events_of(voice.error(failure))
    assert [event["type"] for event in told] == [
        "response.created",
        "response.in_progress",
        "response.failed",
    ]
    assert voice.event(Delta("late")) == voice.comment("late") == voice.head() == b""


def test_a_call_that_cannot_be_used_is_a_failure() -> None:
    """Streamed and whole."""
    wrong = '<tool_call>{"name": "nothing"}</tool_call>'
    voice = ResponseStream(CHOICE)
    data = voice.event(started()) + voice.event(Delta(wrong)) + voice.event(finished())
    assert events_of(data)[-1]["type"] == "response.failed"
    assert voice.fails_cleanly
    with pytest.raises(RoostError, match="no such tool"):
        whole([wrong], finished())


def test_what_waits_is_kept_alive_and_facts_stand_at_the_end() -> None:
    """Comments anywhere; facts in the last response."""
    voice = ResponseStream(CHOICE)
    data = voice.comment("queued") + voice.head() + voice.comment("loading")
    voice.roost_extra({"placement": "warm"})
    response = events_of(data + voice.event(finished()))[-1]["response"]
    assert isinstance(response, dict)
    assert response["roost"] == {"placement": "warm"}
    body = ResponseBody(CHOICE)
    body.roost_extra({"placement": "warm"})
    assert json.loads(body.event(finished()))["roost"] == {"placement": "warm"}
