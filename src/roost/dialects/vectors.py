"""MACHINE: vectors, or scores, of one request in whatever API: how to ask, and what came.

    request = embedding_request(model, EmbedPrompt(inputs))      for a dialect's reader
    vectors = Collected(len(inputs))                             for its whole voice, with every
    usage = vectors.event(event)                                 event until it gives the usage
    [numbers(row) for row in vectors.rows()]

Scores come as vectors of one number.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator

import msgspec

from roost.core.events import Failed, Finished, StreamEvent, Usage, Vectors
from roost.core.ids import ModelId
from roost.core.request import EmbedPrompt, GenerateRequest, RankPrompt
from roost.core.vectors import FLOAT_BYTES, numbers
from roost.errors import RoostError, fail

_encode = msgspec.json.Encoder().encode


def embedding_request(model: ModelId, prompt: EmbedPrompt | RankPrompt) -> GenerateRequest:
    """Ask for vectors or scores; no token is generated, and 1 is the least there is to ask for."""
    return GenerateRequest(model, prompt, max_tokens=1)


class Collected:
    """The vectors of `count` inputs as they come."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._parts: list[Vectors] = []

    def event(self, event: StreamEvent) -> Usage | None:
        """Take an event; the last one gives the usage.

        Raises the failure that ended it, and `upstream_error` where vectors are missing.
        """
        if isinstance(event, Failed):
            raise RoostError(event.failure)
        if isinstance(event, Vectors):
            self._parts.append(event)
        if not isinstance(event, Finished):
            return None
        sizes = {part.size for part in self._parts}
        size = min(sizes, default=0)
        length = sum(len(part.data) for part in self._parts)
        if len(sizes) != 1 or size < 1 or length != self._count * size * FLOAT_BYTES:
            raise fail("upstream_error", "The node did not make one vector of each input.")
        return event.usage

    def rows(self) -> Iterator[bytes]:
        """Give each vector, in the order of the inputs; see `core.vectors`."""
        for part in self._parts:
            step = part.size * FLOAT_BYTES
            for begin in range(0, len(part.data), step):
                yield part.data[begin : begin + step]


def as_base64(row: bytes) -> bytes:
    """Write a vector as a JSON text of its bytes."""
    return b'"' + binascii.b2a_base64(row, newline=False) + b'"'


def as_numbers(row: bytes) -> bytes:
    """Write a vector as a JSON list."""
    return _encode(numbers(row))
