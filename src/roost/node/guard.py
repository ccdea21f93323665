"""DECIDER: whether a node takes a request: a gateway's lease is a prediction, this is the guard."""

from __future__ import annotations

from collections.abc import Mapping

from roost.backends.base import Prepared
from roost.core import vectors
from roost.core.ids import ModelId
from roost.core.request import EmbedPrompt, mode_for
from roost.core.snapshots import ModelOffer
from roost.errors import Failure
from roost.node import refusals
from roost.node.desk import Desk
from roost.node.models.boarding import no_model
from roost.node.settings import AgentSettings
from roost.wire.messages import Open


def why_not(
    message: Open, offers: Mapping[ModelId, ModelOffer], desk: Desk, settings: AgentSettings
) -> Failure | None:
    """Say why a node that takes work does not take this; None where it does."""
    model = message.request.model
    offer = offers.get(model)
    if offer is None:
        return no_model(model)
    prompt = message.request.prompt
    if mode_for(prompt) != offer.mode:
        return refusals.other_mode(offer.mode, mode_for(prompt))
    if isinstance(prompt, EmbedPrompt) and (
        no_size := vectors.why_not(prompt.dimensions, offer.vector_sizes)
    ):
        return no_size
    begun = message.request.continuation
    if begun is not None and begun.digest != offer.digest:
        return refusals.OTHER_WEIGHTS
    if message.deadline_s is not None and message.deadline_s <= 0:
        return refusals.TOO_LATE
    limit = offer.slots if settings.max_in_flight is None else settings.max_in_flight
    if desk.in_flight(model) >= limit or len(desk) >= settings.streams_max:
        return refusals.BUSY
    return None


def too_long(ready: Prepared, prompt_max: int | None, vectors_max: int) -> Failure | None:
    """Say that a request that was prepared has more tokens than it may have; None where it fits.

    `prompt_max` is of the prompt, None for no limit but the context; `vectors_max` of all inputs.
    """
    count, inputs = len(ready.tokens), sum(map(len, ready.inputs))
    if prompt_max is not None and count > prompt_max:
        return refusals.too_long(count, prompt_max)
    if inputs <= vectors_max:
        return None
    param = "input" if isinstance(ready.request.prompt, EmbedPrompt) else "documents"
    return refusals.inputs_too_long(inputs, vectors_max, param)
