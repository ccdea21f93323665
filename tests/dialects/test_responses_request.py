"""Bodies for /v1/responses: what real clients send, every item, and what is refused."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.request import ChatPrompt, JsonAny, JsonSchema, Message, ToolCall
from roost.dialects.openai.options import Translated
from roost.dialects.responses.items import as_items, read_input
from roost.dialects.responses.request import going_on, own, read_response
from roost.dialects.wishes import Wishes
from roost.errors import RoostError

_DATA = Path(__file__).parent / "data" / "response_requests.json"
RECORDED = json.loads(_DATA.read_text("utf-8"))["requests"]
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "one"}


def body_of(**fields: object) -> bytes:
    """Write a body with these fields, and an input if there is none."""
    return json.dumps({"model": "m", "input": "hi", **fields}).encode()


def read(**fields: object) -> Translated:
    """Translate such a body."""
    return read_response(body_of(**fields))


def said(*items: object) -> tuple[Message, ...]:
    """Return our turns for their items."""
    return read_input({"input": list(items)}, lambda _: None)


def wishes_of(found: Translated) -> Wishes:
    """Return what is wished beside the text."""
    assert found.options.wishes is not None
    return found.options.wishes


@pytest.mark.parametrize("sent", RECORDED, ids=[one["client"] for one in RECORDED])
def test_what_real_clients_send_is_read(sent: dict[str, object]) -> None:
    """Every recorded body is a chat with something in every turn."""
    prompt = read_response(json.dumps(sent["body"]).encode()).request.prompt
    assert isinstance(prompt, ChatPrompt)
    assert all(one.content or one.calls for one in prompt.messages)


def test_codex_is_read() -> None:
    """Its developer's words are system messages, tools of other types are left out, no keeping."""
    (sent,) = [one for one in RECORDED if one["client"].startswith("Codex")]
    found = read_response(json.dumps(sent["body"]).encode())
    prompt = found.request.prompt
    assert isinstance(prompt, ChatPrompt)
    assert [one.role for one in prompt.messages] == ["system", "system", "user", "user"]
    assert prompt.messages[1].content.count("\n\n") == 1
    assert prompt.offer is not None
    assert len(prompt.offer.tools) == 1
    assert "tools[].type" in found.ignored
    assert wishes_of(found).keep is False
    assert found.cache_key == sent["body"]["prompt_cache_key"]


def test_what_an_assistant_did_is_one_turn() -> None:
    """Thoughts, text and calls in a run; their results are turns, and so is what comes after."""
    reasoning = {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "hm"}],
    }
    assert said(
        {"role": "user", "content": "q"},
        reasoning,
        {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        CALL,
        {**CALL, "call_id": "c2", "arguments": ""},
        OUTPUT,
        {**OUTPUT, "call_id": "c2", "output": [{"type": "input_text", "text": "two"}]},
        {"type": "message", "role": "assistant", "content": "Both."},
        {"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
    ) == (
        Message("user", "q"),
        Message(
            "assistant",
            "I look.",
            reasoning="hm",
            calls=(ToolCall("c1", "f", '{"a": 1}'), ToolCall("c2", "f", "{}")),
        ),
        Message("tool", "one", call_id="c1"),
        Message("tool", "two", call_id="c2"),
        Message("assistant", "Both."),
        Message("system", "Be brief."),
    )


def test_thoughts_that_only_others_can_read_are_none() -> None:
    """Encrypted reasoning is no text; a summary is, where there is nothing better."""
    assert said(
        {"type": "reasoning", "encrypted_content": "…"}, {"role": "user", "content": "q"}
    ) == (Message("user", "q"),)
    summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "so"}]}
    assert said(summary, CALL)[0].reasoning == "so"


def test_items_of_tools_that_others_run_are_left_out() -> None:
    """By name, and the conversation goes on without them."""
    told: list[str] = []
    items = [{"type": "web_search_call", "id": "x"}, {"role": "user", "content": "q"}]
    assert read_input({"input": items}, told.append) == (Message("user", "q"),)
    assert told == ["input[].web_search_call"]


def test_a_response_goes_on_from_another() -> None:
    """Instructions come first and are those of this response; what was said is between."""
    found = read(instructions="Be brief.", previous_response_id="resp_1", input="and now?")
    wishes = wishes_of(found)
    assert (wishes.previous, wishes.keep, wishes.instructions) == ("resp_1", True, "Be brief.")
    assert own(found.request, wishes) == (Message("user", "and now?"),)
    before = (Message("user", "q"), Message("assistant", "a"))
    prompt = going_on(found.request, wishes, before).prompt
    assert isinstance(prompt, ChatPrompt)
    assert prompt.messages == (
        Message("system", "Be brief."),
        *before,
        Message("user", "and now?"),
    )


def test_an_answer_may_be_held_to_json() -> None:
    """To any, to a schema, or to nothing."""
    schema = {"type": "object"}
    form = {"type": "json_schema", "name": "n", "schema": schema, "strict": True}
    assert read(text={"format": form}).request.constraint == JsonSchema('{"type":"object"}')
    assert read(text={"format": {"type": "json_object"}}).request.constraint == JsonAny()
    assert read(text={"verbosity": "low"}).request.constraint is None


def test_limits_and_thinking() -> None:
    """The limit has a name of its own; no effort is no thinking."""
    found = read(max_output_tokens=7, reasoning={"effort": "low", "summary": "auto"})
    assert found.request.max_tokens == 7
    assert isinstance(found.request.prompt, ChatPrompt)
    assert found.request.prompt.effort == "low"
    prompt = read(reasoning={"effort": "none"}).request.prompt
    assert isinstance(prompt, ChatPrompt)
    assert prompt.thinking is False


@pytest.mark.parametrize(
    ("fields", "reason", "param"),
    [
        ({"input": None}, "bad_request", "input"),
        ({"input": []}, "bad_request", "input"),
        ({"input": ["x"]}, "bad_request", "input[0]"),
        ({"input": [{"type": "item_reference", "id": "x"}]}, "unsupported", "input[0].type"),
        ({"input": [{}]}, "bad_request", "input[0].type"),
        ({"input": [{"role": "robot", "content": "x"}]}, "bad_request", "input[0].role"),
        ({"input": [{"role": "user"}]}, "bad_request", "input[0].content"),
        ({"input": [{**CALL, "arguments": "{"}]}, "bad_request", "input[0].arguments"),
        ({"input": [{**CALL, "call_id": None}]}, "bad_request", "input[0].call_id"),
        ({"input": [{**OUTPUT, "call_id": 3}]}, "bad_request", "input[0].call_id"),
        (
            {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
            "unsupported",
            "input[0].content[0]",
        ),
        ({"max_output_tokens": 0}, "bad_request", "max_output_tokens"),
        ({"metadata": {"a": 1}}, "bad_request", "metadata"),
        ({"metadata": {"a": "b" * 513}}, "bad_request", "metadata"),
        ({"previous_response_id": 3}, "bad_request", "previous_response_id"),
        ({"background": True, "store": False}, "bad_request", "background"),
        ({"reasoning": {"effort": "wild"}}, "bad_request", "reasoning.effort"),
        ({"text": {"format": {"type": "xml"}}}, "bad_request", "text.format"),
        ({"tool_choice": "required"}, "bad_request", "tool_choice"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, object], reason: str, param: str) -> None:
    """Reason and place of each mistake."""
    with pytest.raises(RoostError) as refused:
        read(**fields)
    assert (refused.value.failure.reason, refused.value.failure.param) == (reason, param)


_WORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=12)
_CALLS = st.builds(ToolCall, st.just("c"), st.just("f"), st.just('{"a":1}'))
_TURNS = st.lists(
    st.one_of(
        st.builds(Message, st.sampled_from(["user", "system"]), _WORDS),
        st.builds(lambda text: Message("tool", text, call_id="c"), _WORDS),
        st.builds(
            lambda text, calls: Message("assistant", text, calls=tuple(calls)),
            _WORDS,
            st.lists(_CALLS, max_size=2),
        ),
    ),
    min_size=1,
    max_size=6,
)


@given(_TURNS)
def test_turns_told_back_are_read_as_they_were(turns: list[Message]) -> None:
    """Except that neighbouring turns of an assistant become one, where no call is between."""
    found = read_input({"input": json.loads(as_items(turns))}, lambda _: None)
    assert "".join(one.content for one in found) == "".join(one.content for one in turns)
    assert [call for one in found for call in one.calls] == [c for one in turns for c in one.calls]
    alone = all(not (a.role == b.role == "assistant") for a, b in pairwise(turns))
    assert not alone or found == tuple(turns)


_NAMES = st.sampled_from(
    (
        *("role", "content", "type", "text", "user", "id", "name", "arguments", "call_id"),
        *("model", "input", "instructions", "tools", "tool_choice", "reasoning", "metadata"),
        *("output", "summary", "store", "background", "message", "function_call"),
    )
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | _NAMES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=5),
    max_leaves=25,
)


@given(st.dictionaries(_NAMES, _JSON, max_size=8))
def test_no_json_is_our_fault(body: dict[str, object]) -> None:
    """Whatever is sent is read or refused as the caller's mistake."""
    reason = ""
    try:
        read_response(json.dumps(body).encode())
    except RoostError as refused:
        reason = refused.failure.reason
    assert reason in {"", "bad_request", "unsupported"}
