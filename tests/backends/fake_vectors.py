"""What the fake llama.cpp server makes of texts that it is not to go on with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

Model: TypeAlias = Mapping[str, Any]
"""What the model's file says, as JSON."""


def embed(model: Model, inputs: list[list[int]]) -> tuple[int, object]:
    """Count bytes by their last bits; with `pooling` "none" a model makes no vectors."""
    if model.get("pooling") == "none":
        return 400, {"error": {"message": "pooling is none", "code": 400}}
    if "vectors" in model:
        return 200, {"data": model["vectors"]}
    data = []
    for index, tokens in enumerate(inputs):
        counts = [sum(token % 8 == place for token in tokens) for place in range(8)]
        length = sum(count * count for count in counts) ** 0.5
        vector = [count / length for count in counts]
        data.append({"object": "embedding", "index": index, "embedding": vector})
    return 200, {"object": "list", "data": data[::-1]}


def rank(model: Model, query: str, documents: list[str]) -> tuple[int, object]:
    """Score by bytes that a document shares with the query, the best first, as llama.cpp does.

    A model may have `scores` for some queries: a status, and what to say in their place.
    """
    if query in model.get("scores", {}):
        status, said = model["scores"][query]
        return status, said
    scored = [(_shared(query, text), index) for index, text in enumerate(documents)]
    results = [
        {"index": index, "relevance_score": score} for score, index in sorted(scored, reverse=True)
    ]
    tokens = sum(len(query.encode()) + len(text.encode()) + 4 for text in documents)
    return 200, {"results": results, "usage": {"prompt_tokens": tokens}}


def _shared(query: str, text: str) -> float:
    raw = text.encode()
    return sum(byte in query.encode() for byte in raw) / len(raw)
