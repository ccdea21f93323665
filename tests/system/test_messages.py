"""`/v1/messages` of a live roost: the official client, what agents send, and raw bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.client import HTTPConnection
from typing import cast
from urllib.parse import urlsplit

import pytest
from anthropic import Anthropic, APIStatusError, BadRequestError, NotFoundError
from anthropic.types import MessageParam, TextBlock, ThinkingBlock, ToolParam, ToolUseBlock

from tests.dialects.test_anthropic_request import RECORDED
from tests.patience import PATIENCE_S
from tests.system.conftest import MODEL, Start
from tests.system.processes import fetch

Client = Callable[[str], Anthropic]
SCRIPTED = ("serve", "--port", "0", "--backend", "scripted", "--ctx", "32768")
TOOL: ToolParam = {
    "name": "weather",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
ANSWER = [
    "<think>hm",
    "</think>\n\nI look. <tool_",
    'call>\n{"name": "weather", "arguments": {"city": "naïve 😀 歪 שלום"}}\n</tool_call>',
]


def scripted(*pieces: str, **more: object) -> MessageParam:
    """Ask the scripted backend to say this."""
    return {"role": "user", "content": "@script " + json.dumps({"pieces": pieces, **more})}


def test_the_official_client_talks_and_calls_tools(start: Start, anthropic: Client) -> None:
    """Whole and streamed: text, thoughts, a call and its result, a stop sequence, a limit.

    One process for all of it: what is promised is one way through the same parts.
    """
    url = start(*SCRIPTED).url()
    client = anthropic(url)
    create = client.messages.create
    plain = create(model=MODEL, max_tokens=64, messages=[scripted("naïve ", "😀 歪 ", "שלום")])
    assert [block.text for block in plain.content if isinstance(block, TextBlock)] == [
        "naïve 😀 歪 שלום"
    ]
    assert plain.stop_reason == "end_turn"
    assert plain.id.startswith("msg_")

    asked = scripted(*ANSWER)
    thinking = {"type": "enabled", "budget_tokens": 1024}
    whole = create(  # type: ignore[call-overload]
        model=MODEL, max_tokens=2048, messages=[asked], tools=[TOOL], thinking=thinking
    )
    thought, text, call = whole.content
    assert isinstance(thought, ThinkingBlock)
    assert (thought.thinking, text.text, call.name) == ("hm", "I look.", "weather")
    assert call.input == {"city": "naïve 😀 歪 שלום"}
    assert whole.stop_reason == "tool_use"
    with client.messages.stream(
        model=MODEL, max_tokens=2048, messages=[asked], tools=[TOOL]
    ) as stream:
        streamed = stream.get_final_message()
    assert [block.type for block in streamed.content] == ["text", "tool_use"]
    assert isinstance(streamed.content[1], ToolUseBlock)
    assert streamed.content[1].input == call.input
    assert streamed.usage.output_tokens == whole.usage.output_tokens

    result = {"type": "tool_result", "tool_use_id": call.id, "content": [text.model_dump()]}
    history = [
        asked,
        {"role": "assistant", "content": [block.model_dump() for block in whole.content]},
        {"role": "user", "content": [result]},
        scripted("Sunny."),
    ]
    after = create(
        model=MODEL, max_tokens=64, messages=cast("list[MessageParam]", history), tools=[TOOL]
    )
    assert [block.text for block in after.content if isinstance(block, TextBlock)] == ["Sunny."]

    stopped = create(
        model=MODEL,
        max_tokens=64,
        messages=[scripted("one ", "two ", "three")],
        stop_sequences=["nine", "two"],
    )
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "two")
    cut = create(model=MODEL, max_tokens=1, messages=[scripted("one ", "two ")])
    assert cut.stop_reason == "max_tokens"


def test_a_count_is_that_of_the_real_call(start: Start, anthropic: Client) -> None:
    """The sum of the call's three fields, with tools and system, at any length, and in no slot."""
    url = start(*SCRIPTED, "--slots", "1").url()
    client = anthropic(url)
    messages = [scripted("Hello.")]
    counted = client.messages.count_tokens(
        model=MODEL, messages=messages, tools=[TOOL], system="Be brief."
    )
    for _ in range(2):
        usage = client.messages.create(
            model=MODEL, max_tokens=9, messages=messages, tools=[TOOL], system="Be brief."
        ).usage
        cached = (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)
        assert usage.input_tokens + cached == counted.input_tokens
    long: MessageParam = {"role": "user", "content": "word " * 40_000}
    assert client.messages.count_tokens(model=MODEL, messages=[long]).input_tokens > 32_768
    slots = json.loads(fetch(url, "/roost/v1/fleet"))["nodes"][0]["runtimes"][0]["slots"]
    assert slots[0]["tokens"] < 1000


def test_failures_are_those_of_the_api(start: Start, anthropic: Client) -> None:
    """Status, type and words of each mistake arrive as the client's own exceptions."""
    url = start(*SCRIPTED, "--ctx", "200").url()
    client = anthropic(url)
    hello: MessageParam = {"role": "user", "content": "x"}
    with pytest.raises(NotFoundError) as unknown:
        client.messages.create(model="nope", max_tokens=5, messages=[hello])
    assert unknown.value.body["error"]["type"] == "not_found_error"  # type: ignore[index]
    long: MessageParam = {"role": "user", "content": "word " * 500}
    with pytest.raises(BadRequestError, match=r"prompt is too long: \d+ tokens > \d+ maximum"):
        client.messages.create(model=MODEL, max_tokens=5, messages=[long])
    robot = cast("MessageParam", {"role": "robot", "content": "x"})
    with pytest.raises(BadRequestError, match="role"):
        client.messages.create(model=MODEL, max_tokens=5, messages=[robot])
    broken = scripted("one ", "two ", fail_after=1)
    with (
        pytest.raises(APIStatusError),
        client.messages.stream(model=MODEL, max_tokens=50, messages=[broken]) as stream,
    ):
        stream.until_done()


def test_what_agents_send_is_answered(start: Start) -> None:
    """Every recorded body gets 200 in the shape of its `stream`, with pings and types in place."""
    url = start(*SCRIPTED).url()
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
    connection.request("HEAD", "/")
    probe = connection.getresponse()
    assert probe.status in range(200, 300)
    probe.read()
    for sent in RECORDED:
        body = {**sent["body"], "model": MODEL}
        headers = {"Content-Type": "application/json", "anthropic-version": "2023-06-01"}
        connection.request("POST", sent["target"], json.dumps(body), headers)
        reply = connection.getresponse()
        raw = reply.read().decode()
        assert reply.status == 200, raw
        if "count_tokens" in sent["target"]:
            assert json.loads(raw)["input_tokens"] > 0
        elif body.get("stream"):
            assert raw.startswith("event: message_start\n")
            assert raw.endswith('event: message_stop\ndata: {"type":"message_stop"}\n\n')
        else:
            assert json.loads(raw)["type"] == "message"
    connection.close()
