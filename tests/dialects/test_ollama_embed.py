"""Bodies for /api/embed and /api/embeddings, and their replies."""

from __future__ import annotations

import json

import pytest

from roost.core.events import Failed, Finished, Started, Usage, Vectors
from roost.core.request import EmbedPrompt
from roost.core.vectors import packed
from roost.dialects.ollama.embed import OllamaVectors, read_ollama_embed, read_ollama_embeddings
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.options import Translated
from roost.dialects.stay import Stay
from roost.errors import Failure, RoostError

END = Finished("stop", Usage(5))


def embed(**sent: object) -> Translated:
    """Translate a body with these fields."""
    return read_ollama_embed(json.dumps({"model": "m", **sent}).encode())


def test_texts_are_inputs() -> None:
    """One or several; dimensions are passed on; options have no effect on vectors."""
    assert embed(input="a").request.prompt == EmbedPrompt(("a",))
    found = embed(input=["a", "b"], dimensions=8, options={"num_ctx": 1}, keep_alive="5m")
    assert found.request.prompt == EmbedPrompt(("a", "b"), 8)
    assert found.ignored == ("options.num_ctx",)
    assert found.options.stay == Stay(300.0)
    old = read_ollama_embeddings(b'{"model": "m", "prompt": "a"}')
    assert old.request.prompt == EmbedPrompt(("a",))


def test_nothing_is_cut() -> None:
    """The wish that a text may be cut is named as one without effect."""
    assert embed(input="a", truncate=True).ignored == ("truncate",)
    assert embed(input="a", truncate=False).ignored == ()


@pytest.mark.parametrize("empty", [{}, {"input": ""}, {"input": []}, {"input": None}])
def test_without_a_text_it_is_about_the_model_alone(empty: dict[str, object]) -> None:
    """The reply has no vector, whatever was made to load the model."""
    options = embed(**empty).options
    assert options.stay == Stay(alone=True)
    voice = OllamaVectors(Choice("ollama-1", 1, "m", options), "embed")
    voice.event(Vectors(2, packed([(1.0, 0.0)])))
    assert json.loads(voice.event(END)) == {"model": "m", "embeddings": []}
    options = read_ollama_embeddings(b'{"model": "m", "keep_alive": 0}').options
    gone = OllamaVectors(Choice("ollama-1", 1, "m", options), "embeddings")
    assert json.loads(gone.event(END)) == {"embedding": []}


@pytest.mark.parametrize("wrong", [3, [""], ["a", 1], {"a": 1}, True])
def test_what_is_no_text_is_refused(wrong: object) -> None:
    """By the name of the field."""
    with pytest.raises(RoostError) as refused:
        embed(input=wrong)
    assert (refused.value.failure.status, refused.value.failure.param) == (400, "input")


def test_replies_have_vectors_counts_and_durations() -> None:
    """In the order of the inputs, in either of the two shapes."""
    options = embed(input=["a", "b"]).options
    voice = OllamaVectors(Choice("ollama-1", 1, "m", options), "embed")
    voice.roost_extra({"node": "n1", "total_ns": 9, "load_ns": 2, "prefill_ns": 3})
    assert voice.event(Started(5, 0, 0)) == b""
    voice.event(Vectors(2, packed([(1.0, 0.0)])))
    voice.event(Vectors(2, packed([(0.5, -0.5)])))
    assert json.loads(voice.event(END)) == {
        "model": "m",
        "embeddings": [[1.0, 0.0], [0.5, -0.5]],
        "total_duration": 9,
        "load_duration": 2,
        "prompt_eval_count": 5,
    }
    options = read_ollama_embeddings(b'{"model": "m", "prompt": "a"}').options
    old = OllamaVectors(Choice("ollama-1", 1, "m", options), "embeddings")
    old.event(Vectors(2, packed([(1.0, 0.0)])))
    assert json.loads(old.event(END)) == {"embedding": [1.0, 0.0]}


def test_a_failure_is_raised() -> None:
    """There is no half of a vector."""
    voice = OllamaVectors(Choice("ollama-1", 1, "m", embed(input="a").options), "embed")
    with pytest.raises(RoostError, match="gone"):
        voice.event(Failed(Failure("runtime_died", "gone")))
