"""DECIDER: vectors and scores of texts without a model: near where texts have the same bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roost.backends import checks
from roost.backends.base import Ranked

SIZE = 16


def tokens_of(
    inputs: Sequence[str | tuple[int, ...]], bos: int, vocab_size: int, ctx: int
) -> tuple[tuple[int, ...], ...]:
    """Give the bytes of each text behind a BOS; raises as `base.Embedder.tokenize` says."""
    checks.check_texts(inputs, 1, ctx)
    found = tuple((bos, *one.encode()) if isinstance(one, str) else one for one in inputs)
    checks.check_inputs(found, vocab_size, ctx)
    return found


def vector(tokens: tuple[int, ...]) -> tuple[float, ...]:
    """Count tokens by what is left of them after division, and make that a vector of length 1."""
    counts = [0] * SIZE
    for token in tokens:
        counts[token % SIZE] += 1
    length = math.hypot(*counts)
    return tuple(count / length for count in counts)


def pairs_of(
    query: str, documents: Sequence[str], bos: int, ctx: int
) -> tuple[tuple[int, ...], ...]:
    """Give the bytes of the query and of each document, each behind a BOS; raises as `pairs`."""
    checks.check_pairs(query, documents, (), 1, ctx)
    found = tuple((bos, *query.encode(), bos, *one.encode()) for one in documents)
    checks.check_lengths(found, 0, ctx)
    return found


def ranked(pairs: Sequence[tuple[int, ...]], bos: int) -> Ranked:
    """Score how much alike the vectors of query and document are, from 0 to 1."""
    scores = []
    for pair in pairs:
        middle = pair.index(bos, 1)
        both = vector(pair[:middle]), vector(pair[middle:])
        scores.append(sum(a * b for a, b in zip(*both, strict=True)))
    return Ranked(tuple(scores), sum(map(len, pairs)))
