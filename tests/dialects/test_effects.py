"""A field has an effect where its reader knows it, and none at all where it is named as ignored."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

import msgspec
import pytest

from roost.dialects.anthropic import request as anthropic
from roost.dialects.ollama import request as ollama
from roost.dialects.openai import chat, completions
from roost.dialects.openai.options import Translated
from roost.dialects.responses import request as responses
from roost.dialects.system1 import infer


class Dialect(NamedTuple):
    """How bodies are read, the fields that are known then, and the least that is read."""

    read: Callable[[bytes], Translated | infer.InferAsked]
    known: frozenset[str]
    least: dict[str, object]


TURNS: dict[str, object] = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
DIALECTS = {
    "chat": Dialect(chat.read_chat, chat.FIELDS, TURNS),
    "completions": Dialect(
        completions.read_completion, completions.FIELDS, {"model": "m", "prompt": "hi"}
    ),
    "responses": Dialect(responses.read_response, responses.FIELDS, {"model": "m", "input": "hi"}),
    "messages": Dialect(anthropic.read_message, anthropic.FIELDS, {**TURNS, "max_tokens": 5}),
    "ollama_chat": Dialect(ollama.read_ollama_chat, ollama.CHAT_FIELDS, TURNS),
    "ollama_generate": Dialect(
        ollama.read_ollama_generate, ollama.GENERATE_FIELDS, {"model": "m", "prompt": "hi"}
    ),
    "infer": Dialect(
        infer.read_infer, infer.FIELDS, {"model": "m", "prompt": "hi", "max_tokens": 5}
    ),
}
FIELDS: dict[str, object] = {
    "temperature": 0.5,
    "top_p": 0.5,
    "top_k": 3,
    "min_p": 0.1,
    "seed": 7,
    "presence_penalty": 1.0,
    "frequency_penalty": 1.0,
    "logit_bias": {"5": 1.0},
    "stop": ["x"],
    "stop_sequences": ["x"],
    "n": 3,
    "max_tokens": 4,
    "max_completion_tokens": 4,
    "max_output_tokens": 4,
    "ignore_eos": True,
    "logprobs": True,
    "stream_options": {"include_usage": True},
    "response_format": {"type": "json_object"},
    "grammar": 'root ::= "a"',
    "prompt_cache_key": "k",
    "reasoning_effort": "low",
}
"""What some APIs know and others do not."""


def without_names(found: Translated | infer.InferAsked) -> object:
    """What is asked for, but not which fields were ignored."""
    return msgspec.structs.replace(found, ignored=())


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("name", DIALECTS)
def test_a_field_has_an_effect_or_is_said_to_have_none(name: str, field: str) -> None:
    """Never neither, and never both."""
    read, known, least = DIALECTS[name]
    plain = read(json.dumps(least).encode())
    value = 1 if (name, field) == ("completions", "logprobs") else FIELDS[field]
    found = read(json.dumps({**least, field: value}).encode())
    assert plain.ignored == ()
    assert found.ignored == (() if field in known else (field,))
    assert (without_names(found) != without_names(plain)) is (field in known)
