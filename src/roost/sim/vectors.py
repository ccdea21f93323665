"""DECIDER: vectors and scores that prove themselves: each is a hash of what it is made of."""

from __future__ import annotations

from zlib import crc32

from roost.core.events import Vectors
from roost.core.request import EmbedPrompt, GenerateRequest, RankPrompt
from roost.core.vectors import FLOAT_BYTES, numbers, packed

BATCH_INPUTS = 3
"""How many any engine here works on at once."""
_EXACT = 2**24
"""Whole numbers below this are exact in 32 bits."""


def inputs_of(request: GenerateRequest) -> tuple[tuple[int, ...], ...]:
    """Tokenise what vectors or scores are made of; empty for a request for text."""
    match request.prompt:
        case EmbedPrompt(inputs):
            texts = [str(one) for one in inputs]
        case RankPrompt(query, documents):
            texts = [f"{query} {document}" for document in documents]
        case _:
            texts = []
    return tuple(tuple(map(crc32, text.encode().split())) for text in texts)


def made_of(request: GenerateRequest) -> list[Vectors]:
    """List what any engine here says of this request, batch by batch."""
    inputs = inputs_of(request)
    size = 1 if isinstance(request.prompt, RankPrompt) else 2
    vectors = [tuple(_number(one, place) for place in range(size)) for one in inputs]
    parts = (vectors[n : n + BATCH_INPUTS] for n in range(0, len(vectors), BATCH_INPUTS))
    return [Vectors(size, packed(part)) for part in parts]


def read(event: Vectors) -> list[str]:
    """Spell vectors, a word for each, so that an answer of vectors is a text like any other."""
    length = FLOAT_BYTES * event.size
    each = (event.data[n : n + length] for n in range(0, len(event.data), length))
    return ["-".join(f"{int(number):06x}" for number in numbers(one)) + " " for one in each]


def oracle_of(request: GenerateRequest) -> tuple[str, ...]:
    """Spell the whole answer to this request."""
    return tuple(word for event in made_of(request) for word in read(event))


def _number(tokens: tuple[int, ...], place: int) -> float:
    return float(crc32(f"{place} {tokens}".encode()) % _EXACT)
