"""Bodies for /api/chat and /api/generate: what clients send, what it means, and what is refused."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.ids import TenantId
from roost.core.request import (
    ChatPrompt,
    JsonAny,
    JsonSchema,
    Message,
    Offer,
    Sampling,
    TextPrompt,
    Tool,
    ToolCall,
)
from roost.dialects.ollama.request import read_ollama_chat, read_ollama_generate, untagged
from roost.dialects.openai.options import Translated
from roost.dialects.stay import FOR_EVER, Stay
from roost.errors import Failure, RoostError
from roost.gateway.reading.parsing import Api, Job, Parsed, Unreadable, parse

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}


def chat(**fields: object) -> Translated:
    """Translate a chat with these fields, and a message if there is none."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}
    return read_ollama_chat(json.dumps(body).encode())


def generate(**fields: object) -> Translated:
    """Translate a prompt with these fields."""
    return read_ollama_generate(json.dumps({"model": "m", "prompt": "hi", **fields}).encode())


def said(*messages: object) -> tuple[Message, ...]:
    """Return our messages for theirs."""
    prompt = chat(messages=list(messages)).request.prompt
    assert isinstance(prompt, ChatPrompt)
    return prompt.messages


def refused(read: object, **fields: object) -> Failure:
    """Return why a body with these fields is refused."""
    with pytest.raises(RoostError) as caught:
        (chat if read == "chat" else generate)(**fields)
    assert caught.value.failure.status == 400
    return caught.value.failure


def test_what_litellm_sends_is_read() -> None:
    """Its recorded body has empty lists and objects for what it does not want."""
    found = chat(
        messages=[{"role": "user", "content": "hi", "images": []}], options={}, stream=False
    )
    assert found.request.prompt == ChatPrompt((Message("user", "hi"),))
    assert found.options.stream is False
    assert found.ignored == ()


def test_a_stream_is_what_comes_where_nobody_says_otherwise() -> None:
    """Other than in all other APIs here."""
    assert chat().options.stream
    assert generate().options.stream
    assert not generate(stream=False).options.stream


def test_options_are_told_by_our_names() -> None:
    """Those about drawing tokens count; those about runtimes are named as without effect."""
    options = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 40,
        "min_p": 0.05,
        "seed": -1,
        "presence_penalty": 1,
        "frequency_penalty": -1,
        "num_predict": 7,
        "stop": ["a", "b"],
        "num_ctx": 8192,
        "repeat_penalty": 1.1,
    }
    found = chat(options=options)
    assert found.request.sampling == Sampling(0.5, 0.9, 40, 0.05, 2**32 - 1, 1.0, -1.0)
    assert (found.request.max_tokens, found.request.stop) == (7, ("a", "b"))
    assert found.ignored == ("options.num_ctx", "options.repeat_penalty")
    assert generate(options={"num_predict": -1}).request.max_tokens is None
    assert generate(options={"num_predict": -2, "stop": "x"}).request.stop == ("x",)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"options": {"temperature": "hot"}}, "options.temperature"),
        ({"options": {"num_predict": 1.5}}, "options.num_predict"),
        ({"options": {"stop": [""]}}, "options.stop"),
        ({"options": []}, "options"),
        ({"format": "xml"}, "format"),
        ({"format": {}}, "format"),
        ({"think": "a lot"}, "think"),
        ({"keep_alive": "soon"}, "keep_alive"),
        ({"keep_alive": True}, "keep_alive"),
        ({"keep_alive": "-"}, "keep_alive"),
        ({"stream": "yes"}, "stream"),
        ({"model": ""}, "model"),
        ({"roost": 1}, "roost"),
    ],
)
@pytest.mark.parametrize("read", ["chat", "generate"])
def test_what_is_wrong_is_named(read: str, fields: dict[str, object], param: str) -> None:
    """By the path of the field, in the words of this API."""
    assert refused(read, **fields).param == param


@pytest.mark.parametrize(
    ("value", "keep_s"),
    [
        *((None, None), ("", None), (0, 0.0), ("0", 0.0), ("0s", 0.0), (-1, FOR_EVER)),
        *(("-1", FOR_EVER), ("-1m", FOR_EVER), ("5m", 300.0), ("1h30m", 5400.0), (90, 90.0)),
        *((1.5, 1.5), ("1.5h", 5400.0), ("300ms", 0.3), ("24h", 86_400.0), (2**80, FOR_EVER)),
        *((-(2**80), FOR_EVER), ("99999999h", FOR_EVER), ("+5m", 300.0)),
    ],
    ids=repr,
)
def test_how_long_a_model_is_to_stay(value: object, keep_s: float | None) -> None:
    """Numbers are seconds, texts have units, and what is less than 0 is for ever."""
    found = chat(keep_alive=value).options.stay
    assert found is not None
    assert found.keep_s == (None if keep_s is None else pytest.approx(keep_s))


@pytest.mark.parametrize("empty", [{"messages": []}, {"messages": None}])
def test_a_chat_without_messages_is_about_the_model_alone(empty: dict[str, object]) -> None:
    """It is loaded, by the shortest of answers; or unloaded where it is to be kept for no time."""
    found = chat(**empty)
    assert found.options.stay == Stay(None, alone=True)
    assert found.request.max_tokens == 1
    gone = chat(**empty, keep_alive=0).options.stay
    assert gone is not None
    assert gone.unloads
    assert not Stay(0.0).unloads


def test_a_prompt_that_is_empty_is_about_the_model_alone() -> None:
    """With whatever options."""
    for fields in ({"prompt": ""}, {"prompt": None, "options": {"num_predict": 9}}):
        found = generate(**fields)
        assert found.options.stay == Stay(None, alone=True)
        assert found.request.max_tokens == 1


def test_a_prompt_is_a_chat_unless_it_is_raw() -> None:
    """The template is put around it, with the system's word before."""
    prompt = generate(system="Be brief.", think=False).request.prompt
    messages = (Message("system", "Be brief."), Message("user", "hi"))
    assert prompt == ChatPrompt(messages, thinking=False)
    assert generate(raw=True).request.prompt == TextPrompt("hi")
    assert refused("generate", raw=True, system="x").param == "system"


@pytest.mark.parametrize(
    ("field", "value"),
    [("context", [1, 2]), ("template", "{{ .Prompt }}"), ("suffix", "}"), ("images", ["aGk="])],
)
def test_what_would_be_another_answer_is_refused(field: str, value: object) -> None:
    """An empty one of it is none."""
    failure = refused("generate", **{field: value})
    assert (failure.reason, failure.param) == ("unsupported", field)
    empty: object = [] if isinstance(value, list) else ""
    assert generate(**{field: empty}).request.prompt == generate().request.prompt


def test_pictures_are_refused_by_the_message_they_are_in() -> None:
    """What a model cannot see it does not answer about."""
    failure = refused("chat", messages=[{"role": "user", "content": "?", "images": ["aGk="]}])
    assert (failure.reason, failure.param) == ("unsupported", "messages[0].images")


def test_formats_and_tools() -> None:
    """The word `json`, or a schema; and tools as in OpenAI's API."""
    assert chat(format="json").request.constraint == JsonAny()
    assert chat(format="").request.constraint is None
    held = chat(format=SCHEMA).request.constraint
    assert isinstance(held, JsonSchema)
    assert json.loads(held.text) == SCHEMA
    prompt = chat(tools=[TOOL]).request.prompt
    assert isinstance(prompt, ChatPrompt)
    tool = Tool("weather", "", json.dumps(SCHEMA, separators=(",", ":")))
    assert prompt.offer == Offer((tool,))
    assert refused("chat", tools=[TOOL], format="json").reason == "unsupported"


@pytest.mark.parametrize(
    ("think", "thinking", "effort", "told"),
    [
        (None, None, "", True),
        (True, True, "", True),
        (False, False, "", False),
        ("high", True, "high", True),
    ],
)
def test_whether_a_model_thinks(
    think: object, thinking: bool | None, effort: str, told: bool
) -> None:
    """Thoughts are told unless somebody does not want them."""
    for found in (chat(think=think), generate(think=think)):
        prompt = found.request.prompt
        assert isinstance(prompt, ChatPrompt)
        assert (prompt.thinking, prompt.effort, found.options.thoughts) == (thinking, effort, told)


def test_calls_and_results_find_each_other_without_ids() -> None:
    """By the name of the tool, or in their order; ids that are sent count more."""

    def call(name: str, **more: object) -> dict[str, object]:
        return {"function": {"name": name, "arguments": {"a": 1}}, **more}

    found = said(
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": "", "tool_calls": [call("f"), call("g"), call("f")]},
        {"role": "tool", "content": "G", "tool_name": "g"},
        {"role": "tool", "content": "F1", "tool_name": "f"},
        {"role": "tool", "content": "F2"},
        {"role": "tool", "content": "nobody's", "tool_name": "f"},
        {"role": "assistant", "content": None, "thinking": "hm", "tool_calls": [call("h", id="x")]},
        {"role": "tool", "content": "H", "tool_call_id": "x"},
    )
    assert found[1].calls[0] == ToolCall("call_1", "f", '{"a":1}')
    assert [one.call_id for one in found[2:6]] == ["call_2", "call_1", "call_3", None]
    assert (found[6].reasoning, found[6].calls[0].id, found[7].call_id) == ("hm", "x", "x")


def test_fields_that_nobody_knows_are_named() -> None:
    """At the top, in options and in messages; with `strict` they are refused."""
    messages = [{"role": "user", "content": "hi", "mood": "good"}]
    found = chat(messages=messages, shift=True, options={"numa": False})
    assert found.ignored == ("messages[].mood", "options.numa", "shift")
    body = json.dumps({"model": "m", "prompt": "x", "shift": True}).encode()
    with pytest.raises(RoostError) as caught:
        read_ollama_generate(body, strict=True)
    assert caught.value.failure.param == "shift"


def test_truncate_is_the_wish_to_have_a_chat_trimmed() -> None:
    """It is said the same way as by a header; where nothing is said, settings decide."""
    assert chat(truncate=True).roost == {"context": "trim"}
    assert chat(truncate=False, roost={"class": "bulk"}).roost == {
        "class": "bulk",
        "context": "reject",
    }
    assert chat().roost == {}


def test_a_tag_that_clients_add_is_left_off() -> None:
    """Unless somebody has given that very name to a model."""
    assert untagged("tiny:latest", {}) == "tiny"
    assert untagged("tiny:latest", {"tiny:latest": "big"}) == "tiny:latest"
    assert untagged("tiny:7b", {}) == "tiny:7b"


_texts = st.sampled_from(["", "x", "json", "user", "tool", "assistant", "5m", "-1", "\ud800", "é"])
_leaves = st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | _texts
_names = st.sampled_from(
    [
        *("model", "messages", "prompt", "system", "options", "format", "keep_alive", "think"),
        *("tools", "images", "raw", "stream", "context", "suffix", "template", "truncate"),
        *(
            "input",
            "dimensions",
            "role",
            "content",
            "tool_calls",
            "tool_name",
            "function",
            "name",
            "arguments",
            "stop",
        ),
        *("temperature", "num_predict", "seed", "logprobs", "top_logprobs", "roost", "thinking"),
    ]
)
_anything = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=5),
    max_leaves=15,
)


@pytest.mark.parametrize(
    "api", ["ollama_chat", "ollama_generate", "ollama_embed", "ollama_embeddings"]
)
@given(body=st.dictionaries(_names, _anything, max_size=6))
def test_no_body_is_worse_than_a_400(api: Api, body: dict[str, object]) -> None:
    """It is read, or refused with a reason that is the caller's; what is read can be sent on."""
    raw = json.dumps(body).encode("utf-8", "surrogatepass")
    outcome = parse(Job(api, raw, TenantId("t"), "m", strict=False))
    if isinstance(outcome, Unreadable):
        assert outcome.failure.status == 400
        assert outcome.failure.message
        return
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(outcome), type=Parsed) == outcome
