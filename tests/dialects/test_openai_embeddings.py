"""Requests for vectors in OpenAI's words, and their replies."""

from __future__ import annotations

import base64
from typing import cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.core.events import Failed, Finished, Started, StreamEvent, Usage, Vectors
from roost.core.request import EmbedPrompt
from roost.core.vectors import numbers, packed
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.embeddings import EmbeddingsBody, read_embeddings
from roost.dialects.openai.options import ReplyOptions, Translated, VectorOptions
from roost.errors import Failure, RoostError

VECTORS = ((0.6, 0.8), (1.0, 0.0), (0.0, -1.0))
DONE = Finished("stop", Usage(prompt_tokens=7))


def read(**fields: object) -> Translated:
    """Read a body with these fields."""
    return read_embeddings(msgspec.json.encode({"model": "m", **fields}))


def refused(**fields: object) -> Failure:
    """Give the failure of a body with these fields."""
    with pytest.raises(RoostError) as caught:
        read(**fields)
    return caught.value.failure


def said(*events: StreamEvent, count: int = 3, base64: bool = False) -> dict[str, object]:
    """Give the reply to these events."""
    options = ReplyOptions(vectors=VectorOptions(count, base64))
    voice = EmbeddingsBody(Choice("r", 1, "name", options))
    voice.roost_extra({"node": "n1"})
    *first, last = map(voice.event, events)
    assert not any(first)
    return msgspec.json.decode(last, type=dict[str, object])


@pytest.mark.parametrize(
    ("sent", "inputs"),
    [
        ("text", ("text",)),
        (["one", "two"], ("one", "two")),
        ([1, 2, 3], ((1, 2, 3),)),
        ([[1], [2, 3]], ((1,), (2, 3))),
        (["one", [2, 3]], ("one", (2, 3))),
    ],
)
def test_inputs_come_in_every_form(sent: object, inputs: tuple[object, ...]) -> None:
    """Texts and token ids, one or several; nothing is generated."""
    found = read(input=sent)
    assert found.request.prompt == EmbedPrompt(inputs)  # type: ignore[arg-type]
    assert found.request.max_tokens == 1
    assert found.options.vectors == VectorOptions(len(inputs))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "input"),
        ({"input": None}, "input"),
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": ["a", ""]}, "input"),
        ({"input": [[]]}, "input"),
        ({"input": [1, "a"]}, "input"),
        ({"input": [True]}, "input"),
        ({"input": [-1]}, "input"),
        ({"input": [1.5]}, "input"),
        ({"input": {"text": "a"}}, "input"),
        ({"input": [{"text": "a"}]}, "input"),
        ({"input": "a", "dimensions": 0}, "dimensions"),
        ({"input": "a", "dimensions": "8"}, "dimensions"),
        ({"input": "a", "encoding_format": "int8"}, "encoding_format"),
        ({"input": "a", "stream": True}, "stream"),
        ({"input": "a", "user": 5}, "user"),
        ({"input": "a", "model": ""}, "model"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, object], param: str) -> None:
    """The field at fault, and never another status than 400."""
    failure = refused(**fields)
    assert failure.reason in ("bad_request", "unsupported")
    assert failure.param == param


def test_fields_without_effect_are_told() -> None:
    """They are listed, or refused where somebody is strict."""
    assert read(input="a", user="u", temperature=1).ignored == ("temperature",)
    with pytest.raises(RoostError):
        read_embeddings(b'{"model":"m","input":"a","top_k":1}', strict=True)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@settings(max_examples=50)
@given(JSON, JSON, JSON)
def test_whatever_is_sent_is_read_or_refused(one: object, two: object, three: object) -> None:
    """Arbitrary JSON in every field is a request or a failure of its sender's."""
    body = msgspec.json.encode({"input": one, "dimensions": two, "encoding_format": three})
    reason = ""
    try:
        read_embeddings(body)
    except RoostError as error:
        reason = error.failure.reason
    assert reason in ("", "bad_request", "unsupported")


def test_vectors_are_in_the_order_of_inputs() -> None:
    """However many messages they came in; usage is what the node counted."""
    first, rest = Vectors(2, packed(VECTORS[:1])), Vectors(2, packed(VECTORS[1:]))
    reply = said(Started(7, 0, 0), first, rest, DONE)
    assert reply["object"] == "list"
    assert reply["model"] == "name"
    assert reply["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert reply["roost"] == {"node": "n1"}
    data = cast("list[dict[str, object]]", reply["data"])
    assert [one["index"] for one in data] == [0, 1, 2]
    assert {one["object"] for one in data} == {"embedding"}
    for one, vector in zip(data, VECTORS, strict=True):
        assert one["embedding"] == list(numbers(packed([vector])))


def test_base64_is_the_same_numbers() -> None:
    """Four bytes each, little-endian, as OpenAI's clients read them."""
    reply = said(Vectors(2, packed(VECTORS)), DONE, base64=True)
    data = cast("list[dict[str, str]]", reply["data"])
    rows = [base64.b64decode(one["embedding"]) for one in data]
    assert rows == [packed([vector]) for vector in VECTORS]


@pytest.mark.parametrize(
    "events",
    [
        (),
        (Vectors(2, packed(VECTORS[:2])),),
        (Vectors(2, packed(VECTORS)), Vectors(2, packed(VECTORS[:1]))),
        (Vectors(2, packed(VECTORS[:2])), Vectors(1, packed([[1.0]]))),
        (Vectors(0, b""),),
        (Vectors(2, packed(VECTORS)[:-1]),),
    ],
)
def test_a_vector_that_is_missing_is_an_error(events: tuple[StreamEvent, ...]) -> None:
    """Nobody gets a list in which numbers are another input's."""
    with pytest.raises(RoostError) as caught:
        said(*events, DONE)
    assert caught.value.failure.reason == "upstream_error"


def test_a_failure_is_raised_as_it_is() -> None:
    """Its words and its class are the node's."""
    died = Failure("runtime_died", "it died")
    with pytest.raises(RoostError) as caught:
        said(Vectors(2, packed(VECTORS)), Failed(died))
    assert caught.value.failure == died
