"""DECIDER: what two sequences, of tokens or characters, begin with alike."""

from __future__ import annotations

from collections.abc import Sequence


def common_length(one: Sequence[object], other: Sequence[object]) -> int:
    """Count what both begin with."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))
