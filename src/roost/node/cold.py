"""DECIDER: whether a prompt that is only counted needs a model's weights at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.core.ids import RuntimeId
from roost.node.effects import Prepare

if TYPE_CHECKING:
    from collections.abc import Container

    from roost.core.snapshots import ModelOffer
    from roost.node.floor.floor import Floor
    from roost.node.stream import Stream

VOCABULARY = RuntimeId("vocabulary")
"""Stands for what has a model's vocabulary alone, where a runtime is named."""


def cold_count(stream: Stream) -> Prepare:
    """Take a stream on to be counted by the vocabulary."""
    moved = stream.move("loaded")
    assert moved, f"counted while {stream.phase}"
    return Prepare(stream.key, VOCABULARY, stream.request, stream.tenant)


def is_cold_count(
    stream: Stream, offer: ModelOffer, floor: Floor | None, backends: Container[str]
) -> bool:
    """Whether this is to be counted by the vocabulary, as no runtime of its model is at hand.

    `backends` are those whose models can be. What was put back has been tried: it waits for the
    weights.
    """
    known = offer.backend in backends and offer.mode == "generate"
    return stream.request.counts and known and floor is None and not stream.was_recalled
