"""Bodies for /v1/messages: what real clients send, every shape of a block, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.request import ChatPrompt, JsonSchema, Message, Offer, Tool, ToolCall
from roost.dialects.anthropic.request import read_message
from roost.dialects.openai.options import Translated
from roost.errors import RoostError

_DATA = Path(__file__).parent / "data" / "message_requests.json"
RECORDED = json.loads(_DATA.read_text("utf-8"))["requests"]
PNG = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"}}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"name": "weather", "description": "Looks.", "input_schema": SCHEMA}


def read(**fields: object) -> Translated:
    """Translate a body with these fields, and a message if there is none."""
    return read_message(body_of(**fields))


def body_of(**fields: object) -> bytes:
    """Write a body with these fields, and a message if there is none."""
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}]}
    return json.dumps({**body, **fields}).encode()


def chat(**fields: object) -> ChatPrompt:
    """Return the prompt of a body."""
    prompt = read(**fields).request.prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt


def said(*messages: object) -> tuple[Message, ...]:
    """Return our messages for theirs."""
    return chat(messages=list(messages)).messages


def user(*blocks: object) -> dict[str, object]:
    """Make a turn of a person."""
    return {"role": "user", "content": list(blocks)}


def text(words: str) -> dict[str, str]:
    """Make a block of text."""
    return {"type": "text", "text": words}


@pytest.mark.parametrize("sent", RECORDED, ids=[one["client"] for one in RECORDED])
def test_what_real_clients_send_is_read(sent: dict[str, object]) -> None:
    """Every recorded body, whole, is a chat that begins with what was said."""
    found = read_message(json.dumps(sent["body"]).encode())
    assert isinstance(found.request.prompt, ChatPrompt)
    assert all(one.content or one.calls for one in found.request.prompt.messages)


def test_claude_code_is_read() -> None:
    """Its billing line is gone, its last system message stays last, its session is the key."""
    (body,) = [one["body"] for one in RECORDED if one["client"].startswith("Claude Code")]
    found = read_message(json.dumps(body).encode())
    prompt = found.request.prompt
    assert isinstance(prompt, ChatPrompt)
    assert [one.role for one in prompt.messages] == ["system", "user", "system"]
    assert "billing" not in prompt.messages[0].content
    assert "Placeholder 1" in prompt.messages[0].content
    assert prompt.messages[1].content.endswith("\n\nsay hi")
    assert prompt.thinking is True
    assert prompt.offer is not None
    assert [tool.name for tool in prompt.offer.tools][:2] == ["Agent", "Bash"]
    assert found.cache_key == json.loads(body["metadata"]["user_id"])["session_id"]
    assert found.request.max_tokens == 32_000
    assert "context_management" in found.ignored


def test_the_billing_line_changes_nothing() -> None:
    """Two requests that differ in it alone are the same; text that mentions it is kept."""
    line = "x-anthropic-billing-header: cc_version=2.1; cch=%s;"
    lists = [chat(system=[text(line % n), text("Be brief.")]).messages for n in "ab"]
    strings = [chat(system=f"{line % n}\nBe brief.").messages for n in "ab"]
    assert lists[0] == lists[1] == strings[0] == strings[1]
    assert lists[0][0] == Message("system", "Be brief.")
    assert chat(system=[text(line % "a")]).messages[0].role == "user"
    mention = "It says x-anthropic-billing-header: here."
    assert chat(system=mention).messages[0].content == mention


def test_results_of_tools_are_turns_of_their_own() -> None:
    """A string, texts, nothing, an error, a picture: each is a turn, in the order of the blocks."""
    picture = {"type": "tool_result", "tool_use_id": "d", "content": [text("seen:"), PNG]}
    assert said(
        user(
            {"type": "tool_result", "tool_use_id": "a", "content": "sun"},
            {"type": "tool_result", "tool_use_id": "b", "content": [text("x"), text("y")]},
            {"type": "tool_result", "tool_use_id": "c", "is_error": True, "content": "no net"},
            picture,
            {"type": "tool_result", "tool_use_id": "e"},
            text("and now?"),
        )
    ) == (
        Message("tool", "sun", call_id="a"),
        Message("tool", "x\n\ny", call_id="b"),
        Message("tool", "Error: no net", call_id="c"),
        Message("tool", "seen:\n\n[image left out: this model reads text only]", call_id="d"),
        Message("tool", "", call_id="e"),
        Message("user", "and now?"),
    )


def test_an_answer_in_the_history_is_read() -> None:
    """Thoughts with any signature, text in pieces, and calls with their arguments."""
    turn = {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "anything"},
            {"type": "redacted_thinking", "data": "…"},
            text("I look"),
            text("."),
            {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Oslo"}},
        ],
    }
    call = ToolCall("t1", "weather", '{"city":"Oslo"}')
    found = said({"role": "user", "content": "q"}, turn, user({**RESULT, "tool_use_id": "t1"}))
    assert found[1] == Message("assistant", "I look.", reasoning="hm", calls=(call,))


RESULT = {"type": "tool_result", "content": "sun"}


def test_an_answer_that_was_begun_goes_on() -> None:
    """The last turn is an assistant's: it is the beginning of the answer."""
    begun = chat(
        messages=[{"role": "user", "content": "q"}, {"role": "assistant", "content": "A:"}]
    )
    assert begun.continues
    assert not chat().continues


def test_tools_and_choices() -> None:
    """Four choices, one call at a time, and tools that others run left out."""
    tools = [TOOL, {"type": "web_search_20250305", "name": "web_search"}, {"name": "now"}]
    offer = Offer(
        (Tool("weather", "Looks.", json.dumps(SCHEMA, separators=(",", ":"))), Tool("now"))
    )
    assert chat(tools=tools).offer == offer
    assert "tools[].type" in read(tools=tools).ignored
    choices = {
        "auto": ("auto", ""),
        "any": ("required", ""),
        "none": ("none", ""),
    }
    for kind, (mode, only) in choices.items():
        found = chat(tools=tools, tool_choice={"type": kind}).offer
        assert found is not None
        assert (found.mode, found.only, found.parallel) == (mode, only, True)
    one = {"type": "tool", "name": "now", "disable_parallel_tool_use": True}
    found = chat(tools=tools, tool_choice=one).offer
    assert found is not None
    assert (found.mode, found.only, found.parallel) == ("required", "now", False)
    assert chat(tools=[]).offer is None


@pytest.mark.parametrize(
    ("thinking", "wanted"),
    [
        (None, False),
        ({"type": "disabled"}, False),
        ({"type": "enabled", "budget_tokens": 1024}, True),
        ({"type": "adaptive"}, True),
    ],
)
def test_thoughts_are_told_where_they_are_asked_for(thinking: object, wanted: bool) -> None:
    """The model is told the same as the client."""
    found = read(thinking=thinking, output_config={"effort": "high"})
    assert isinstance(found.request.prompt, ChatPrompt)
    assert found.request.prompt.thinking is wanted
    assert found.options.thoughts is wanted
    assert found.request.prompt.effort == ("high" if wanted else "")


def test_sampling_and_stops() -> None:
    """What newer versions of the API refuse is read as well."""
    found = read(temperature=0.5, top_p=0.9, top_k=40, stop_sequences=["END", "\n\n"]).request
    assert (found.sampling.temperature, found.sampling.top_p, found.sampling.top_k) == (
        0.5,
        0.9,
        40,
    )
    assert found.stop == ("END", "\n\n")
    assert read(max_tokens=None).request.max_tokens is None


def test_an_answer_may_be_held_to_a_schema() -> None:
    """As it was sent; together with tools it cannot be."""
    form = {"type": "json_schema", "schema": SCHEMA}
    found = read(output_config={"format": form}).request
    assert found.constraint == JsonSchema(json.dumps(SCHEMA, separators=(",", ":")))
    with pytest.raises(RoostError, match="cannot call"):
        read(output_config={"format": form}, tools=[TOOL])
    assert read(output_config={"format": form}, tools=[TOOL], tool_choice={"type": "none"})
    for wrong in ({"type": "json_schema"}, {"type": "xml"}):
        with pytest.raises(RoostError, match=r"output_config\.format"):
            read(output_config={"format": wrong})


def test_documents_of_text_are_text() -> None:
    """With their title before them."""
    source = {"type": "text", "media_type": "text/plain", "data": "words"}
    document = {"type": "document", "source": source, "title": "T"}
    assert said(user(document, text("sum up")))[0].content == "T\nwords\n\nsum up"


@pytest.mark.parametrize("user_id", ["plain", '{"session_id": 3}', '{"a": 1}', "[" * 5000])
def test_a_user_is_no_session(user_id: str) -> None:
    """Only a session within it groups requests: one name may stand for a whole company."""
    assert read(metadata={"user_id": user_id}).cache_key == ""


@pytest.mark.parametrize(
    ("fields", "reason", "param"),
    [
        ({"messages": None}, "bad_request", "messages"),
        ({"messages": []}, "bad_request", "messages"),
        ({"messages": ["x"]}, "bad_request", "messages[0]"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "bad_request", "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "bad_request", "messages[0].content"),
        ({"messages": [user("x")]}, "bad_request", "messages[0].content[0]"),
        ({"messages": [user({"text": "x"})]}, "bad_request", "messages[0].content[0].type"),
        ({"messages": [user({"type": "text"})]}, "bad_request", "messages[0].content[0].text"),
        ({"messages": [user(PNG)]}, "unsupported", "messages[0].content[0]"),
        ({"messages": [user({"type": "search"})]}, "unsupported", "messages[0].content[0].type"),
        ({"messages": [user(RESULT)]}, "bad_request", "messages[0].content[0].tool_use_id"),
        ({"max_tokens": 0}, "bad_request", "max_tokens"),
        ({"max_tokens": "9"}, "bad_request", "max_tokens"),
        ({"system": 3}, "bad_request", "system"),
        ({"system": [PNG]}, "unsupported", "system[0]"),
        ({"stop_sequences": "x"}, "bad_request", "stop_sequences"),
        ({"stop_sequences": [""]}, "bad_request", "stop_sequences[0]"),
        ({"temperature": 3}, "bad_request", "temperature"),
        ({"thinking": {"type": "much"}}, "bad_request", "thinking.type"),
        ({"thinking": "much"}, "bad_request", "thinking"),
        ({"tools": {}}, "bad_request", "tools"),
        ({"tools": [TOOL, TOOL]}, "bad_request", "tools[1].name"),
        ({"tools": [{"name": ""}]}, "bad_request", "tools[0].name"),
        ({"tool_choice": {"type": "any"}}, "bad_request", "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "bad_request", "tool_choice.name"),
        ({"tools": [TOOL], "tool_choice": {"type": "x"}}, "bad_request", "tool_choice.type"),
        ({"stream": 1}, "bad_request", "stream"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, object], reason: str, param: str) -> None:
    """Reason and place of each mistake."""
    with pytest.raises(RoostError) as refused:
        read(**fields)
    assert (refused.value.failure.reason, refused.value.failure.param) == (reason, param)


def test_strict_refuses_what_has_no_effect() -> None:
    """By name; without it the same is read."""
    assert read(service_tier="auto").ignored == ("service_tier",)
    with pytest.raises(RoostError, match="service_tier"):
        read_message(body_of(service_tier="auto"), strict=True)


_NAMES = st.sampled_from(
    (
        *("role", "content", "type", "text", "user", "id", "name", "input", "tool_use_id"),
        *("model", "messages", "system", "tools", "tool_choice", "thinking", "metadata"),
        *("source", "data", "is_error", "max_tokens"),
    )
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_NAMES, inner, max_size=5),
    max_leaves=25,
)


@given(st.dictionaries(_NAMES, _JSON, max_size=8))
def test_no_json_is_our_fault(body: dict[str, object]) -> None:
    """Whatever is sent is read or refused as the caller's mistake."""
    reason = ""
    try:
        read_message(json.dumps(body).encode())
    except RoostError as refused:
        reason = refused.failure.reason
    assert reason in {"", "bad_request", "unsupported"}
