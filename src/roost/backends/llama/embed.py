"""SHELL: texts become vectors on a llama.cpp server that was started for that."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from roost.backends import checks
from roost.backends.http1.exchange import Lost, call
from roost.backends.llama.link import CALL_TIMEOUT_S, Link
from roost.errors import RoostError, fail


class _Vector(msgspec.Struct):
    embedding: tuple[float, ...]
    index: int


class _Vectors(msgspec.Struct):
    data: tuple[_Vector, ...]


class _Tokens(msgspec.Struct):
    tokens: tuple[int, ...]


class LlamaEmbedder:
    """See `base.Embedder`; `ctx` tokens of ids below `vocab_size` are an input at most."""

    def __init__(self, link: Link, vocab_size: int, ctx: int, max_token_bytes: int) -> None:
        self._link = link
        self._vocab_size = vocab_size
        self._ctx = ctx
        self._max_token_bytes = max_token_bytes

    async def tokenize(
        self, inputs: Sequence[str | tuple[int, ...]]
    ) -> tuple[tuple[int, ...], ...]:
        """Give the tokens of each text with those that the model wants around it."""
        checks.check_texts(inputs, self._max_token_bytes, self._ctx)
        # One after another: of a list the server joins the tokens.
        found = [await self._tokens(one) if isinstance(one, str) else one for one in inputs]
        checks.check_inputs(found, self._vocab_size, self._ctx)
        return tuple(found)

    async def embed(self, batch: Sequence[tuple[int, ...]]) -> tuple[tuple[float, ...], ...]:
        """Make a vector for each input."""
        checks.check_batch(batch, self._vocab_size, self._ctx)
        body = msgspec.json.encode({"input": batch, "encoding_format": "float"})
        path, place = "/v1/embeddings", self._link.place
        try:
            status, data = await call(place, "POST", path, body, timeout_s=CALL_TIMEOUT_S)
        except Lost as lost:
            raise RoostError(await self._link.blame(str(lost))) from None
        if status == 400:
            message = "llama.cpp makes no vectors with this model: it may need `pooling`."
            raise fail("unsupported", message, param="model")
        vectors = _read(data, len(batch)) if status == 200 else None
        if vectors is None:
            raise fail("runtime_error", "The runtime made no vectors.")
        return vectors

    async def _tokens(self, text: str) -> tuple[int, ...]:
        wanted = {"content": text, "add_special": True, "parse_special": False}
        try:
            answer = await self._link.ask("/tokenize", _Tokens, msgspec.json.encode(wanted))
        except Lost as lost:
            raise RoostError(await self._link.blame(str(lost))) from None
        return answer.tokens


def _read(data: bytes, count: int) -> tuple[tuple[float, ...], ...] | None:
    """Read vectors in the order of their inputs; None where they are not what was asked for."""
    try:
        said = msgspec.json.decode(data, type=_Vectors)
    except msgspec.DecodeError:
        return None
    found = {one.index: one.embedding for one in said.data}
    vectors = tuple(found.get(place, ()) for place in range(count))
    same = len({len(vector) for vector in vectors}) == 1 and len(found) == count
    good = same and all(vector and all(map(math.isfinite, vector)) for vector in vectors)
    return vectors if good else None
