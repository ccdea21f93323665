"""SHELL: documents are scored by a llama.cpp server that was started for that.

It is given texts and takes marks between them for what they are called, so texts with such names in
them are refused before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from roost.backends import checks
from roost.backends.base import EMBED_BATCH_MAX, Ranked
from roost.backends.http1.exchange import Lost, call
from roost.backends.llama.link import CALL_TIMEOUT_S, Link
from roost.errors import RoostError, fail

AROUND = 4
"""Most tokens that llama.cpp puts around a query and a document."""


class _Score(msgspec.Struct):
    index: int
    relevance_score: float


class _Usage(msgspec.Struct):
    prompt_tokens: int


class _Scores(msgspec.Struct):
    results: tuple[_Score, ...]
    usage: _Usage


class LlamaRanker:
    """See `base.Ranker`; a pair has at most `ctx` tokens, and no text one of `control_tokens`."""

    def __init__(
        self, link: Link, ctx: int, max_token_bytes: int, control_tokens: Sequence[str]
    ) -> None:
        self._link = link
        self._ctx = ctx
        self._max_token_bytes = max_token_bytes
        self._control_tokens = tuple(control_tokens)

    async def pairs(self, query: str, documents: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Give the tokens of the query with each document."""
        self._check(query, documents)
        try:
            asked = await self._link.tokenize([query], special=False)
            found = [asked + await self._link.tokenize([one], special=False) for one in documents]
        except Lost as lost:
            raise RoostError(await self._link.blame(str(lost))) from None
        checks.check_lengths(found, AROUND, self._ctx)
        return tuple(found)

    async def rank(self, query: str, documents: Sequence[str]) -> Ranked:
        """Score documents."""
        self._check(query, documents)
        if len(documents) > EMBED_BATCH_MAX:
            message = f"There may be {EMBED_BATCH_MAX} documents, got {len(documents)}."
            raise fail("bad_request", message, param="documents")
        body = msgspec.json.encode({"query": query, "documents": documents})
        try:
            status, data = await call(
                *(self._link.place, "POST", "/v1/rerank", body), timeout_s=CALL_TIMEOUT_S
            )
        except Lost as lost:
            raise RoostError(await self._link.blame(str(lost))) from None
        if status in (400, 501):
            message = "llama.cpp scores no documents with this model."
            raise fail("unsupported", message, param="model")
        found = _read(data, len(documents)) if status == 200 else None
        if found is None:
            raise fail("runtime_error", "The runtime scored no documents.")
        return found

    def _check(self, query: str, documents: Sequence[str]) -> None:
        checks.check_pairs(query, documents, self._control_tokens, self._max_token_bytes, self._ctx)


def _read(data: bytes, count: int) -> Ranked | None:
    """Read scores in the order of their documents; None where one has none."""
    try:
        said = msgspec.json.decode(data, type=_Scores)
    except msgspec.DecodeError:
        return None
    found = {one.index: one.relevance_score for one in said.results}
    scores = tuple(found.get(place, math.nan) for place in range(count))
    whole = len(found) == len(said.results) == count and all(map(math.isfinite, scores))
    return Ranked(scores, said.usage.prompt_tokens) if whole else None
