"""DECIDER: the list of models, and one model, as OpenAI's clients read them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from roost.core.snapshots import ModelOffer

_encode = msgspec.json.Encoder().encode


class _Model(msgspec.Struct, frozen=True):
    id: str
    created: int
    object: str = "model"
    owned_by: str = "roost"


def models_body(offers: Iterable[ModelOffer]) -> bytes:
    """Encode the list, in the order given; `created` is in seconds since 1970."""
    return _encode({"object": "list", "data": [_model(offer) for offer in offers]})


def model_body(offer: ModelOffer) -> bytes:
    """Encode one model."""
    return _encode(_model(offer))


def _model(offer: ModelOffer) -> _Model:
    return _Model(offer.model, offer.created_unix_s)
