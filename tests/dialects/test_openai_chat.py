"""Chat requests in every form that clients write them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from roost.core.request import ChatPrompt, JsonAny, JsonSchema, Message
from roost.dialects.openai.chat import read_chat
from roost.dialects.openai.completions import read_completion
from roost.dialects.openai.messages import MESSAGES_MAX
from roost.errors import RoostError
from tests.dialects.openai_calls import chat, chat_failure, messages

_DATA = Path(__file__).parent / "data" / "client_requests.json"
SAMPLES = json.loads(_DATA.read_text("utf-8"))["requests"]

# What real clients send that is refused on purpose, with the field that is named.
REFUSED = {
    ("openai-python", "legacy completions"): "echo",
}
# What they send that has no effect here.
UNUSED = {"service_tier", "store", "metadata", "verbosity", "safety_identifier", "user"}


@pytest.mark.parametrize(
    "sample", SAMPLES, ids=lambda s: f"{s['client']}-{s['version']}-{s['name']}"
)
def test_what_real_clients_send(sample: dict[str, object]) -> None:
    """Every recorded body is translated whole, or refused by the one field that cannot be met."""
    sent = sample["body"]
    assert isinstance(sent, dict)
    read = read_chat if "chat" in str(sample["target"]) else read_completion
    wanted = next((p for (c, n), p in REFUSED.items() if _is(sample, c, n)), None)
    if wanted is not None:
        with pytest.raises(RoostError) as caught:
            read(json.dumps(sent).encode())
        assert (caught.value.failure.status, caught.value.failure.param) == (400, wanted)
        return
    translated = read(json.dumps(sent).encode())
    assert translated.request.model == sent["model"]
    assert translated.options.stream is sent.get("stream", False)
    assert translated.options.include_usage is ("stream_options" in sent)
    assert set(translated.ignored) <= UNUSED
    if isinstance(translated.request.prompt, ChatPrompt):
        assert len(translated.request.prompt.messages) == len(sent["messages"])
        offer = translated.request.prompt.offer
        assert len(offer.tools if offer else ()) == len(sent.get("tools", []))


def _is(sample: dict[str, object], client: str, name: str) -> bool:
    return str(sample["client"]).startswith(client) and sample["name"] == name


def test_the_samples_cover_the_clients() -> None:
    """Each refusal above is for a sample that exists, and all clients of this API are there."""
    assert all(any(_is(s, client, name) for s in SAMPLES) for client, name in REFUSED)
    assert len({s["client"] for s in SAMPLES}) >= 10


def test_roles() -> None:
    """`developer` is system, `function` is tool, wherever they stand."""
    sent = ["developer", "user", "assistant", "tool", "function", "system"]
    found = messages(*({"role": role, "content": "x"} for role in sent))
    assert [m.role for m in found] == ["system", "user", "assistant", "tool", "tool", "system"]


@pytest.mark.parametrize("role", ["robot", "", "User", "x" * 5000, None, 5, ["user"]])
def test_an_unknown_role(role: object) -> None:
    """An invented role is a 400 that names it, at most fifty characters of it."""
    failure = chat_failure(messages=[{"role": "user", "content": "x"}, {"role": role}])
    assert failure.param == "messages[1].role"
    assert len(failure.message) < 200
    if role == "robot":
        assert "'robot'" in failure.message


@pytest.mark.parametrize("role", ["system", "user", "assistant", "tool"])
def test_content_as_parts(role: str) -> None:
    """One part equals the string; several are joined in order with nothing between."""
    parts = [{"type": "text", "text": t} for t in ("a", " b", "\nc")]
    assert messages({"role": role, "content": "a"}) == messages(
        {"role": role, "content": [{"type": "text", "text": "a"}]}
    )
    assert messages({"role": role, "content": parts})[0].content == "a b\nc"
    assert messages({"role": role, "content": []})[0].content == ""


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file", "video_url", "input_image"])
def test_parts_that_are_not_text(kind: str) -> None:
    """An image is an honest 400, not a silent drop."""
    part = {"type": kind, kind: {"url": "http://127.0.0.1:9/x"}}
    failure = chat_failure(
        messages=[{"role": "user", "content": [{"type": "text", "text": "see"}, part]}]
    )
    assert (failure.reason, failure.param) == ("unsupported", "messages[0].content[1]")
    assert f"'{kind}'" in failure.message
    assert "127.0.0.1" not in failure.message


@pytest.mark.parametrize(
    ("part", "param"),
    [
        ({"type": "hologram"}, ".type"),
        ({"type": 5}, ".type"),
        ({}, ".type"),
        ({"type": "text"}, ".text"),
        ({"type": "text", "text": None}, ".text"),
        ({"type": "refusal", "refusal": 1}, ".refusal"),
        ("x", ""),
    ],
)
def test_broken_parts(part: object, param: str) -> None:
    """A part of an unknown type, or without its text, is a 400 with its place."""
    failure = chat_failure(messages=[{"role": "user", "content": [part]}])
    assert (failure.reason, failure.param) == ("bad_request", "messages[0].content[0]" + param)


def test_nulls_in_assistant_turns() -> None:
    """Null and absent content of an assistant are "", as are all the other nulls clients send."""
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    forms: list[dict[str, object]] = [
        {"content": None, "tool_calls": [call]},
        {"tool_calls": [call]},
        {"content": "", "tool_calls": None},
        {"content": None, "tool_calls": [], "function_call": None, "refusal": None, "name": None},
    ]
    for form in forms:
        found = messages(
            {"role": "user", "content": "q"},
            {"role": "assistant", **form},
            {"role": "tool", "tool_call_id": "c", "content": "sunny"},
            {"role": "user", "content": "so?"},
        )
        assert [m.content for m in found] == ["q", "", "sunny", "so?"]


@pytest.mark.parametrize("role", ["system", "user", "tool"])
@pytest.mark.parametrize("content", [None, 5, {"type": "text"}, True])
def test_content_of_a_wrong_kind(role: str, content: object) -> None:
    """Only an assistant may have said nothing."""
    failure = chat_failure(messages=[{"role": role, "content": content}])
    assert failure.param == "messages[0].content"


@pytest.mark.parametrize("sent", [None, [], "hi", {"role": "user"}, 5])
def test_no_messages(sent: object) -> None:
    """A chat without a list of messages is a 400 that names them."""
    assert chat_failure(messages=sent).param == "messages"


def test_messages_are_bounded() -> None:
    """More messages than anybody writes are refused before any work is done on them."""
    failure = chat_failure(messages=[{}] * (MESSAGES_MAX + 1))
    assert failure.param == "messages"
    assert chat_failure(messages=["hi"]).param == "messages[0]"


def test_names() -> None:
    """A name is kept; one that is no string is refused with its place."""
    assert messages({"role": "user", "content": "x", "name": "Ann"}) == (
        Message("user", "x", "Ann"),
    )
    failure = chat_failure(messages=[{"role": "user", "content": "x", "name": 5}])
    assert failure.param == "messages[0].name"


def test_fields_inside_messages_are_named() -> None:
    """What a message carries without effect is named like any other field."""
    sent = [
        {"role": "assistant", "content": "x", "annotations": [{}], "audio": None},
        {"role": "user", "content": "x", "cache_control": {}, "audio": None},
    ]
    assert chat(messages=sent, user="u").ignored == (
        "messages[].annotations",
        "messages[].cache_control",
        "user",
    )
    assert chat_failure(strict=True, messages=sent).param == "messages[].annotations"


@pytest.mark.parametrize("choice", ["required", {"name": "f"}])
def test_the_way_before_tools(choice: object) -> None:
    """A call that is demanded the old way is refused, never answered with plain text."""
    failure = chat_failure(functions=[{"name": "f"}], function_call=choice)
    assert (failure.reason, failure.param) == ("unsupported", "function_call")
    assert chat(functions=[{"name": "f"}], function_call="auto").ignored == ("functions",)


@pytest.mark.parametrize(
    ("fields", "thinking", "effort"),
    [
        ({}, None, ""),
        ({"reasoning_effort": "high"}, None, "high"),
        ({"reasoning_effort": "none"}, False, ""),
        ({"chat_template_kwargs": {"enable_thinking": True}}, True, ""),
        ({"reasoning_effort": None, "chat_template_kwargs": None}, None, ""),
    ],
)
def test_thinking(fields: dict[str, object], thinking: object, effort: str) -> None:
    """Whether and how much a model shall think is read in both ways that clients have."""
    prompt = chat(**fields).request.prompt  # type: ignore[arg-type]
    assert isinstance(prompt, ChatPrompt)
    assert (prompt.thinking, prompt.effort) == (thinking, effort)


def test_thinking_of_a_wrong_kind() -> None:
    """A word that means nothing is a 400, and what a template alone knows is named."""
    assert chat_failure(reasoning_effort="much").param == "reasoning_effort"
    assert chat_failure(reasoning_effort=5).param == "reasoning_effort"
    failure = chat_failure(chat_template_kwargs={"enable_thinking": 1})
    assert failure.param == "chat_template_kwargs.enable_thinking"
    assert chat(chat_template_kwargs={"x": 1}).ignored == ("chat_template_kwargs.x",)


def test_a_begun_answer() -> None:
    """An assistant's message at the end is the beginning of the answer; alone it is history."""
    user, said = {"role": "user", "content": "q"}, {"role": "assistant", "content": "The "}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    for sent, expected in (
        ([user, said], True),
        ([user, said, said], True),
        ([user, {**said, "content": ""}], True),
        ([user, said, user], False),
        ([said], False),
        ([user, {**said, "tool_calls": [call]}], False),
    ):
        prompt = chat(messages=sent).request.prompt
        assert isinstance(prompt, ChatPrompt)
        assert prompt.continues is expected


@pytest.mark.parametrize("choice", ["sometimes", 5, True, []])
def test_an_unknown_choice(choice: object) -> None:
    """A word that means nothing is a 400."""
    failure = chat_failure(tool_choice=choice)
    assert (failure.reason, failure.param) == ("bad_request", "tool_choice")


@pytest.mark.parametrize(
    ("sent", "held_to"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, JsonAny()),
        ({"type": "json_object", "schema": {"type": "array"}}, JsonSchema('{"type":"array"}')),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}},
            JsonSchema('{"type":"object"}'),
        ),
    ],
)
def test_formats(sent: object, held_to: object) -> None:
    """What an answer is held to is read in every form; text is held to nothing."""
    translated = chat(response_format=sent)
    assert translated.request.constraint == held_to
    assert translated.ignored == ()


@pytest.mark.parametrize(
    ("sent", "param"),
    [
        ({"type": "yaml"}, ""),
        ({"type": None}, ""),
        ("json", ""),
        ({"type": "json_schema"}, ".json_schema.schema"),
        ({"type": "json_schema", "json_schema": 5}, ".json_schema"),
        ({"type": "json_schema", "json_schema": {"schema": {}}}, ".json_schema.schema"),
        ({"type": "json_schema", "json_schema": {"schema": []}}, ".json_schema.schema"),
    ],
)
def test_formats_of_a_wrong_kind(sent: object, param: str) -> None:
    """Each mistake is a 400 with its place."""
    failure = chat_failure(response_format=sent)
    assert (failure.reason, failure.param) == ("bad_request", f"response_format{param}")


def test_a_format_leaves_no_room_for_calls() -> None:
    """Both at once cannot be had; with `none` there is no call to have."""
    tools = [{"type": "function", "function": {"name": "f"}}]
    json_object = {"type": "json_object"}
    failure = chat_failure(response_format=json_object, tools=tools)
    assert (failure.reason, failure.param) == ("unsupported", "response_format")
    assert chat(response_format=json_object, tools=tools, tool_choice="none").ignored == ()


def test_logprobs() -> None:
    """They are a switch and a number from 0 to 20, which needs the switch."""
    assert chat(logprobs=True).request.top_logprobs == 0
    assert chat(logprobs=True, top_logprobs=20).request.top_logprobs == 20
    assert chat(logprobs=True).options.logprobs
    assert chat(logprobs=False).request.top_logprobs is None
    assert chat_failure(logprobs=True, top_logprobs=21).param == "top_logprobs"
    assert chat_failure(top_logprobs=5).param == "top_logprobs"
    assert chat_failure(logprobs=False, top_logprobs=0).param == "top_logprobs"
    assert chat_failure(logprobs=1).param == "logprobs"
