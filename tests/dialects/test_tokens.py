"""/tokenize, /detokenize and /apply-template: bodies of llama.cpp and vLLM, and their replies."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.events import Delta, Failed, Finished, Usage
from roost.core.ids import TenantId
from roost.core.request import ChatPrompt, Message, TextPrompt, TokensPrompt
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.options import ReplyOptions, Translated
from roost.dialects.tokens import (
    Asked,
    PromptTold,
    read_detokenize,
    read_template,
    read_tokenize,
)
from roost.errors import Failure, RoostError
from roost.gateway.reading.parsing import Api, Job, Parsed, Unreadable, parse

CHOICE = Choice("tok-1", 1, "m", ReplyOptions())
HI = {"role": "user", "content": "hi"}


def read(how: Asked, **sent: object) -> Translated:
    """Translate a body with these fields."""
    reader = {"tokens": read_tokenize, "text": read_detokenize, "template": read_template}[how]
    return reader(json.dumps({"model": "m", **sent}).encode())


@pytest.mark.parametrize(
    ("sent", "prompt"),
    [
        ({"content": "x"}, TextPrompt("x", bare=True)),
        ({"content": "x", "add_special": True}, TextPrompt("x")),
        ({"content": "x", "parse_special": False}, TextPrompt("x", bare=True)),
        ({"prompt": "x"}, TextPrompt("x")),
        ({"prompt": "x", "add_special_tokens": False}, TextPrompt("x", bare=True)),
        ({"prompt": "x", "return_token_strs": False}, TextPrompt("x")),
        ({"messages": [HI]}, ChatPrompt((Message("user", "hi"),))),
        (
            {"messages": [HI], "add_generation_prompt": True},
            ChatPrompt((Message("user", "hi"),)),
        ),
    ],
)
def test_what_tokens_are_asked_of(sent: dict[str, object], prompt: object) -> None:
    """A text as llama.cpp's clients send it, or vLLM's, or a conversation."""
    found = read("tokens", **sent)
    assert found.request.prompt == prompt
    assert (found.request.counts, found.request.return_tokens) == (True, True)
    assert found.ignored == ()


def test_what_texts_are_asked_of() -> None:
    """Token ids, or a conversation with its tools."""
    assert read("text", tokens=[1, 2]).request.prompt == TokensPrompt((1, 2))
    prompt = read("template", messages=[HI], tools=[]).request.prompt
    assert prompt == ChatPrompt((Message("user", "hi"),))


@pytest.mark.parametrize(
    ("how", "sent", "reason", "param"),
    [
        ("tokens", {}, "bad_request", "content"),
        ("tokens", {"content": "x", "prompt": "x"}, "bad_request", "content"),
        ("tokens", {"content": 1}, "bad_request", "content"),
        ("tokens", {"content": "x", "with_pieces": True}, "unsupported", "with_pieces"),
        ("tokens", {"content": "x", "parse_special": True}, "unsupported", "parse_special"),
        ("tokens", {"prompt": "x", "add_special_tokens": 1}, "bad_request", "add_special_tokens"),
        ("tokens", {"messages": []}, "bad_request", "messages"),
        ("text", {}, "bad_request", "tokens"),
        ("text", {"tokens": []}, "bad_request", "tokens"),
        ("text", {"tokens": [-1]}, "bad_request", "tokens"),
        ("text", {"tokens": ["a"]}, "bad_request", "tokens"),
        ("template", {}, "bad_request", "messages"),
        (
            "template",
            {"messages": [HI], "add_generation_prompt": False},
            "unsupported",
            "add_generation_prompt",
        ),
    ],
)
def test_what_is_wrong_is_named(
    how: Asked, sent: dict[str, object], reason: str, param: str
) -> None:
    """By its field; a wish that would give other tokens is refused and not read past."""
    with pytest.raises(RoostError) as refused:
        read(how, **sent)
    assert (refused.value.failure.reason, refused.value.failure.param) == (reason, param)


def test_unknown_fields_are_named() -> None:
    """In each of the three."""
    assert read("tokens", content="x", zoo=1).ignored == ("zoo",)
    assert read("text", tokens=[1], zoo=1).ignored == ("zoo",)
    assert read("template", messages=[{**HI, "mood": 1}], zoo=1).ignored == (
        "messages[].mood",
        "zoo",
    )


def reply(asked: Asked, *events: Delta | Failed | Finished) -> object:
    """Make the reply to these."""
    voice = PromptTold(CHOICE, asked)
    return json.loads(b"".join(map(voice.event, events)))


def test_replies() -> None:
    """Pieces of them are put together."""
    end = Finished("stop", Usage(3, 3))
    deltas = Delta("nä", 0, ids=(1, 2)), Delta("\u2028", 0, ids=(3,))
    assert reply("tokens", *deltas, end) == {"tokens": [1, 2, 3], "count": 3}
    text = "nä\u2028"
    assert reply("text", *deltas, end) == {"content": text, "prompt": text}
    assert reply("template", *deltas, end) == {"prompt": text}


def test_what_a_node_does_not_tell_is_no_empty_answer() -> None:
    """An older node ends at once; an engine may tell tokens and no text."""
    for asked in ("tokens", "text", "template"):
        with pytest.raises(RoostError, match="older"):
            reply(asked, Finished("stop", Usage(3, 3)))
    with pytest.raises(RoostError, match="templates"):
        reply("template", Delta("", 0, ids=(1,)), Finished("stop", Usage(1, 1)))
    with pytest.raises(RoostError, match="gone"):
        reply("tokens", Failed(Failure("node_lost", "gone")))


_leaves = st.none() | st.booleans() | st.integers(-2, 2**70) | st.floats() | st.just("x")
_names = st.sampled_from(["content", "prompt", "messages", "tokens", "role", "model", "roost"])
_anything = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_names, inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("api", ["tokenize", "detokenize", "apply_template"])
@given(body=st.dictionaries(_names, _anything, max_size=4))
def test_no_body_is_worse_than_a_400(api: Api, body: dict[str, object]) -> None:
    """It is read, or refused with a reason that is the caller's."""
    outcome = parse(Job(api, json.dumps(body).encode(), TenantId("t"), "m", strict=False))
    if isinstance(outcome, Unreadable):
        assert outcome.failure.status == 400
        return
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(outcome), type=Parsed) == outcome
