"""The models, as OpenAI's clients read them."""

from __future__ import annotations

import json

import msgspec

from roost.core.ids import ModelId
from roost.core.snapshots import ModelOffer
from roost.dialects.openai.models import model_body, models_body

TINY = ModelOffer(ModelId("tiny"), slots=4, ctx=4096, created_unix_s=1_700_000_000)
SLASHED = ModelOffer(ModelId("org/name:tag"), slots=1, ctx=2048)


def test_one_model() -> None:
    """A model has exactly OpenAI's four fields."""
    assert json.loads(model_body(TINY)) == {
        "id": "tiny",
        "object": "model",
        "created": 1_700_000_000,
        "owned_by": "roost",
    }


def test_a_model_that_says_no_texts_says_what_it_is_for() -> None:
    """So that nobody offers it for a chat."""
    vectors = msgspec.structs.replace(TINY, mode="embed")
    assert json.loads(model_body(vectors)) == json.loads(model_body(TINY)) | {"mode": "embed"}


def test_the_list() -> None:
    """The list keeps its order and may be empty."""
    listed = json.loads(models_body([SLASHED, TINY]))
    assert listed["object"] == "list"
    assert listed["data"] == [json.loads(model_body(SLASHED)), json.loads(model_body(TINY))]
    assert json.loads(models_body([])) == {"object": "list", "data": []}
