"""MACHINE: vectors, or scores, of one request in whatever API: how to ask, and what came.

    request = embedding_request(model, EmbedPrompt(inputs))      for a dialect's reader
    vectors = Written(len(inputs), as_numbers)                   for its whole voice, with every
    vectors.ahead(event)                                         event as it comes, and once more
    usage = vectors.event(event)                                 with all until it gives the usage
    b",".join(vectors.texts())

Scores come as vectors of one number (`Collected`).
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Iterator

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
            yield from _rows(part)


class Written:
    """The same as text, written as they come: all of them at once would hold everybody up.

    What is written `ahead` may be of an attempt that came to nothing; then the next one writes all
    of its own, and the old is dropped.
    """

    def __init__(self, count: int, write: Callable[[bytes], bytes]) -> None:
        self._count = count
        self._write = write
        self._collected = Collected(count)
        self._parts: list[Vectors] = []
        self._ahead: dict[int, tuple[Vectors, list[bytes]]] = {}

    def ahead(self, event: Vectors) -> None:
        """Write vectors that have come, which may be wanted at the end."""
        if sum(len(texts) for _, texts in self._ahead.values()) >= self._count:
            self._ahead.clear()
        # With the event itself, or its number might be that of another one by then.
        self._ahead[id(event)] = event, [self._write(row) for row in _rows(event)]

    def event(self, event: StreamEvent) -> Usage | None:
        """Take an event; see `Collected.event`."""
        if isinstance(event, Vectors):
            self._parts.append(event)
        return self._collected.event(event)

    def texts(self) -> Iterator[bytes]:
        """Give the text of each vector, in the order of the inputs."""
        for part in self._parts:
            known = self._ahead.get(id(part))
            yield from known[1] if known is not None else map(self._write, _rows(part))


def _rows(part: Vectors) -> Iterator[bytes]:
    step = part.size * FLOAT_BYTES
    for begin in range(0, len(part.data), step):
        yield part.data[begin : begin + step]


def as_base64(row: bytes) -> bytes:
    """Write a vector as a JSON text of its bytes."""
    return b'"' + binascii.b2a_base64(row, newline=False) + b'"'


def as_numbers(row: bytes) -> bytes:
    """Write a vector as a JSON list."""
    return _encode(numbers(row))
