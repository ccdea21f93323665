"""Requests for scores of documents, and their replies."""

from __future__ import annotations

from typing import cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roost.core.events import Finished, Started, StreamEvent, Usage, Vectors
from roost.core.request import RankPrompt
from roost.core.vectors import packed
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.options import ReplyOptions, ScoreOptions, Translated
from roost.dialects.rerank import RerankBody, read_rerank
from roost.errors import RoostError

DONE = Finished("stop", Usage(prompt_tokens=7))
TEXTS = ("low", "high", "middle", "high too")
SCORES = Vectors(1, packed([(-2.5,), (4.0,), (0.5,), (4.0,)]))


def read(**fields: object) -> Translated:
    """Read a body with these fields."""
    return read_rerank(msgspec.json.encode({"model": "m", "query": "q", **fields}))


def results(top: int, *events: StreamEvent, texts: tuple[str, ...] = ()) -> dict[str, object]:
    """Give the reply to these events."""
    options = ReplyOptions(scores=ScoreOptions(len(TEXTS), top, texts))
    voice = RerankBody(Choice("rerank-1", 1, "name", options))
    voice.roost_extra({"node": "n1"})
    *first, last = map(voice.event, events)
    assert not any(first)
    return msgspec.json.decode(last, type=dict[str, object])


def test_documents_come_in_every_form() -> None:
    """Texts, or objects with one; all of them come back where nobody says how many."""
    found = read(documents=["a", {"text": "b", "title": "x"}])
    assert found.request.prompt == RankPrompt("q", ("a", "b"))
    assert found.options.scores == ScoreOptions(2, 2)
    found = read(documents=["a", "b", "c"], top_n=2, return_documents=True)
    assert found.options.scores == ScoreOptions(3, 2, ("a", "b", "c"))


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({}, "documents"),
        ({"documents": []}, "documents"),
        ({"documents": "a"}, "documents"),
        ({"documents": ["a", ""]}, "documents"),
        ({"documents": ["a", 5]}, "documents"),
        ({"documents": [{"title": "a"}]}, "documents"),
        ({"documents": ["a"], "query": ""}, "query"),
        ({"documents": ["a"], "query": None}, "query"),
        ({"documents": ["a"], "query": ["a"]}, "query"),
        ({"documents": ["a"], "top_n": 0}, "top_n"),
        ({"documents": ["a"], "top_n": "1"}, "top_n"),
        ({"documents": ["a"], "return_documents": "yes"}, "return_documents"),
        ({"documents": ["a"], "model": ""}, "model"),
    ],
)
def test_what_is_wrong_is_named(fields: dict[str, object], param: str) -> None:
    """The field at fault, and never another status than 400."""
    with pytest.raises(RoostError) as caught:
        read(**fields)
    assert caught.value.failure.reason == "bad_request"
    assert caught.value.failure.param == param


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@settings(max_examples=50)
@given(JSON, JSON, JSON)
def test_whatever_is_sent_is_read_or_refused(one: object, two: object, three: object) -> None:
    """Arbitrary JSON in every field is a request or a failure of its sender's."""
    reason = ""
    try:
        read_rerank(msgspec.json.encode({"query": one, "documents": two, "top_n": three}))
    except RoostError as error:
        reason = error.failure.reason
    assert reason in ("", "bad_request")


def test_the_best_come_first() -> None:
    """By score, of equal ones the one that was sent first; each says which document it is of."""
    reply = results(9, Started(7, 0, 0), SCORES, DONE)
    assert reply["results"] == [
        {"index": 1, "relevance_score": 4.0},
        {"index": 3, "relevance_score": 4.0},
        {"index": 2, "relevance_score": 0.5},
        {"index": 0, "relevance_score": -2.5},
    ]
    assert (reply["id"], reply["object"], reply["model"]) == ("rerank-1", "list", "name")
    assert reply["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    assert reply["roost"] == {"node": "n1"}


def test_some_of_them_with_their_texts() -> None:
    """As many as were asked for, and the documents where they were."""
    reply = results(2, SCORES, DONE, texts=TEXTS)
    found = cast("list[dict[str, object]]", reply["results"])
    assert [one["document"] for one in found] == [{"text": "high"}, {"text": "high too"}]


def test_a_score_that_is_missing_is_an_error() -> None:
    """Nobody gets a list in which a score is another document's."""
    with pytest.raises(RoostError) as caught:
        results(4, Vectors(1, packed([(1.0,)])), DONE)
    assert caught.value.failure.reason == "upstream_error"
