"""DECIDER: vectors of texts without a model: near where texts have the same bytes."""

from __future__ import annotations

import math
from collections.abc import Sequence

from roost.backends import checks

SIZE = 16


def tokens_of(
    texts: Sequence[str], bos: int, vocab_size: int, ctx: int
) -> tuple[tuple[int, ...], ...]:
    """Give the bytes of each text behind a BOS; raises as `base.Embedder.tokenize` says."""
    checks.check_texts(texts, 1, ctx)
    found = tuple((bos, *text.encode()) for text in texts)
    checks.check_inputs(found, vocab_size, ctx)
    return found


def vector(tokens: tuple[int, ...]) -> tuple[float, ...]:
    """Count tokens by what is left of them after division, and make that a vector of length 1."""
    counts = [0] * SIZE
    for token in tokens:
        counts[token % SIZE] += 1
    length = math.hypot(*counts)
    return tuple(count / length for count in counts)
