"""The official client calls tools on a live roost over an engine that gives nothing but text."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import cast

import pytest
from openai import APIError, APIStatusError, OpenAI
from openai.types.chat import ChatCompletionFunctionToolParam, ChatCompletionMessageParam

from tests.system.conftest import MODEL, Start

Client = Callable[[str], OpenAI]
TOOL: ChatCompletionFunctionToolParam = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CALLS = [
    "<think>hm",
    "</think>\n\nI look. <tool_",
    'call>\n{"name": "get_weather", "argu',
    'ments": {"city": "naïve 😀 歪 שלום"}}\n</tool_call>\n<tool_call>{"name": "get_weather"}',
    "</tool_call>",
]


def scripted(*pieces: str) -> ChatCompletionMessageParam:
    """Ask the scripted backend to say this."""
    return {"role": "user", "content": "@script " + json.dumps({"pieces": pieces})}


def test_the_official_client_calls_tools(start: Start, openai: Client) -> None:
    """Streamed and whole: two calls, their ids and arguments, thoughts, results, demands, failures.

    One process for all of it: what is promised is one way through the same parts.
    """
    client = openai(start("serve", "--port", "0", "--backend", "scripted", "--ctx", "32768").url())
    create = client.chat.completions.create
    asked = scripted(*CALLS)

    whole = create(model=MODEL, messages=[asked], tools=[TOOL]).choices[0]
    assert whole.finish_reason == "tool_calls"
    assert whole.message.content == "I look."
    assert whole.message.model_extra == {"reasoning_content": "hm"}
    calls = whole.message.tool_calls or []
    arguments = [json.loads(call.function.arguments) for call in calls if call.type == "function"]
    assert arguments == [{"city": "naïve 😀 歪 שלום"}, {}]
    assert len({call.id for call in calls}) == 2

    with client.chat.completions.stream(model=MODEL, messages=[asked], tools=[TOOL]) as stream:
        stream.until_done()
        streamed = stream.get_final_completion().choices[0]
    assert streamed.finish_reason == "tool_calls"
    assert streamed.message.content == "I look."
    made = streamed.message.tool_calls or []
    assert [json.loads(call.function.arguments) for call in made] == arguments

    history: list[ChatCompletionMessageParam] = [
        {"role": "user", "content": "q"},
        cast("ChatCompletionMessageParam", whole.message.model_dump(exclude_unset=True)),
        {"role": "tool", "tool_call_id": calls[0].id, "content": "sun"},
        {"role": "tool", "tool_call_id": calls[1].id, "content": "rain"},
        scripted("It is ", "sunny."),
    ]
    after = create(model=MODEL, messages=history, tools=[TOOL]).choices[0]
    assert (after.message.content, after.finish_reason) == ("It is sunny.", "stop")

    demanded = create(
        model=MODEL,
        messages=[scripted('{"city": "Oslo"}')],
        tools=[TOOL],
        tool_choice={"type": "function", "function": {"name": "get_weather"}},
    ).choices[0]
    (call,) = demanded.message.tool_calls or []
    assert call.type == "function"
    assert json.loads(call.function.arguments) == {"city": "Oslo"}

    bad = scripted("<tool_call>{}</tool_call>")
    with pytest.raises(APIStatusError) as failed:
        create(model=MODEL, messages=[bad], tools=[TOOL])
    assert (failed.value.status_code, failed.value.code) == (502, "bad_tool_call")
    with pytest.raises(APIError) as broken:
        list(create(model=MODEL, messages=[bad], tools=[TOOL], stream=True))
    assert broken.value.code == "bad_tool_call"

    begun: list[ChatCompletionMessageParam] = [
        scripted("42."),
        {"role": "assistant", "content": "The answer is "},
    ]
    assert create(model=MODEL, messages=begun).choices[0].message.content == "42."
    three = create(model=MODEL, messages=[{"role": "user", "content": "x"}], n=3, seed=1)
    assert [choice.index for choice in three.choices] == [0, 1, 2]
    assert len({choice.message.content for choice in three.choices}) == 3
