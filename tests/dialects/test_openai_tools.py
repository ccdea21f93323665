"""Tools, choices and calls in every form that clients write, and in forms that nobody should."""

from __future__ import annotations

import json

import pytest

from roost.core.request import ChatPrompt, Offer, Tool, ToolCall
from roost.dialects.openai.tools import CALLS_MAX, TOOLS_MAX
from tests.dialects.openai_calls import chat, chat_failure, messages

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather.",
        "parameters": SCHEMA,
        "strict": True,
    },
}
TIME = {"type": "function", "function": {"name": "get_time"}}
TOOLS = (Tool("get_weather", "The weather.", json.dumps(SCHEMA, separators=(",", ":"))),)
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}


def offer(**fields: object) -> Offer | None:
    """Translate a chat with these fields and give its offer."""
    prompt = chat(strict=False, **fields).request.prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt.offer


def calls(**fields: object) -> tuple[ToolCall, ...]:
    """Translate an assistant's turn and give its calls."""
    turn = {"role": "assistant", "content": None, **fields}
    return messages({"role": "user", "content": "q"}, turn)[1].calls


def test_tools() -> None:
    """A tool is read with its schema as it was sent; none, null and [] are no offer."""
    assert offer(tools=[WEATHER]) == Offer(TOOLS)
    flat = {"type": "function", "name": "get_time"}
    assert offer(tools=[flat]) == Offer((Tool("get_time"),))
    assert offer() is None
    assert offer(tools=None) is None
    assert offer(tools=[], tool_choice="auto") is None


def test_tools_that_others_run() -> None:
    """A type that is nobody's business here is left out and named."""
    sent = [{"type": "web_search"}, TIME, {"type": "namespace", "tools": []}]
    assert chat(tools=sent).ignored == ("tools[].type",)
    assert offer(tools=sent) == Offer((Tool("get_time"),))
    assert offer(tools=[{"type": "web_search"}]) is None


@pytest.mark.parametrize(
    ("choice", "mode", "only"),
    [
        (None, "auto", ""),
        ("auto", "auto", ""),
        ("none", "none", ""),
        ("required", "required", ""),
        ("any", "required", ""),
        ({"type": "function", "function": {"name": "get_time"}}, "required", "get_time"),
        ({"type": "function", "name": "get_time"}, "required", "get_time"),
    ],
)
def test_choices(choice: object, mode: str, only: str) -> None:
    """All four ways to choose, and one call at a time where that is asked for."""
    found = offer(tools=[WEATHER, TIME], tool_choice=choice, parallel_tool_calls=False)
    assert found is not None
    assert (found.mode, found.only, found.parallel) == (mode, only, False)


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_choice": "required"},
        {"tool_choice": "required", "tools": []},
        {"tool_choice": "required", "tools": [{"type": "web_search"}]},
        {"tool_choice": {"type": "function", "function": {"name": "f"}}},
        {"tool_choice": {"type": "function", "function": {"name": "nope"}}, "tools": [TIME]},
        {"tool_choice": "sometimes", "tools": [TIME]},
        {"tool_choice": {"type": "custom"}, "tools": [TIME]},
        {"tool_choice": 5},
    ],
)
def test_choices_that_cannot_be_met(fields: dict[str, object]) -> None:
    """A call of nothing, or of what was not offered, is the caller's mistake."""
    failure = chat_failure(**fields)  # type: ignore[arg-type]
    assert (failure.reason, failure.param) == ("bad_request", "tool_choice")


@pytest.mark.parametrize(
    ("tools", "param"),
    [
        ("x", "tools"),
        ({}, "tools"),
        ([TIME] * (TOOLS_MAX + 1), "tools"),
        ([5], "tools[0]"),
        ([{"type": "function"}], "tools[0].name"),
        ([{"type": "function", "function": 5}], "tools[0].function"),
        ([{"type": "function", "function": {"name": ""}}], "tools[0].name"),
        ([{"type": "function", "function": {"name": "a\nb"}}], "tools[0].function.name"),
        (
            [{"type": "function", "function": {"name": "a", "parameters": []}}],
            "tools[0].function.parameters",
        ),
        ([TIME, TIME], "tools[1].name"),
    ],
)
def test_tools_of_a_wrong_kind(tools: object, param: str) -> None:
    """Each mistake is a 400 with its place."""
    failure = chat_failure(tools=tools)
    assert failure.reason == "bad_request"
    assert failure.param is not None
    assert failure.param.startswith(param.removesuffix(".name"))


def test_calls_in_a_history() -> None:
    """Calls keep their ids and arguments; results know which call they are of."""
    assert calls(tool_calls=[CALL]) == (ToolCall("c1", "f", "{}"),)
    assert calls(tool_calls=None, function_call=None) == ()
    assert calls(tool_calls=[], function_call=None) == ()
    assert calls(function_call={"name": "f", "arguments": ""}) == (ToolCall("", "f", "{}"),)
    given = {"name": "f", "arguments": {"a": 1}}
    assert calls(tool_calls=[{"id": None, "function": given}]) == (ToolCall("", "f", '{"a":1}'),)
    assert calls(tool_calls=[{"type": "custom", "custom": {}}]) == ()
    result = messages(
        {"role": "tool", "content": [{"type": "text", "text": "x"}], "tool_call_id": "c1"}
    )
    assert (result[0].call_id, result[0].content) == ("c1", "x")


def test_thoughts_in_a_history() -> None:
    """Both names for them are read; other shapes are nobody's."""
    for name in ("reasoning_content", "reasoning"):
        (turn,) = messages({"role": "assistant", "content": "x", name: "hm"})
        assert turn.reasoning == "hm"
    assert messages({"role": "assistant", "content": "x", "reasoning": {}})[0].reasoning == ""


@pytest.mark.parametrize(
    ("sent", "place"),
    [
        ("x", ""),
        ([CALL] * (CALLS_MAX + 1), ""),
        ([5], "[0]"),
        ([{"id": 5, "function": CALL["function"]}], "[0].id"),
        ([{}], "[0].function.name"),
        ([{"function": {"name": "f", "arguments": 5}}], "[0].function.arguments"),
        ([{"function": {"name": "f", "arguments": '{"city": "Os'}}], "[0].function.arguments"),
        ([{"function": {"name": "f", "arguments": "[1]"}}], "[0].function.arguments"),
        ([{"function": {"name": "f", "arguments": "[" * 5000}}], "[0].function.arguments"),
    ],
)
def test_calls_of_a_wrong_kind(sent: object, place: str) -> None:
    """A call that was cut off, or is none, is a 400 with its place, and never a 500."""
    turn = {"role": "assistant", "content": None, "tool_calls": sent}
    failure = chat_failure(messages=[{"role": "user", "content": "q"}, turn])
    assert failure.reason == "bad_request"
    assert failure.param == f"messages[1].tool_calls{place}"
