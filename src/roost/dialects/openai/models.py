"""DECIDER: the list of models, and one model, as OpenAI's clients read them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from roost.core.engine import Mode
from roost.core.snapshots import ModelOffer

_encode = msgspec.json.Encoder().encode


class _Model(msgspec.Struct, frozen=True):
    """OpenAI's four fields, and of a model that says no texts what it is for."""

    id: str
    created: int
    object: str = "model"
    owned_by: str = "roost"
    mode: Mode | msgspec.UnsetType = msgspec.UNSET


def models_body(offers: Iterable[ModelOffer]) -> bytes:
    """Encode the list, in the order given; `created` is in seconds since 1970."""
    return _encode({"object": "list", "data": [_model(offer) for offer in offers]})


def model_body(offer: ModelOffer) -> bytes:
    """Encode one model."""
    return _encode(_model(offer))


def _model(offer: ModelOffer) -> _Model:
    mode = msgspec.UNSET if offer.mode == "generate" else offer.mode
    return _Model(offer.model, offer.created_unix_s, mode=mode)
