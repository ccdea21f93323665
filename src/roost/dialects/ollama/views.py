"""DECIDER: models as Ollama's clients list them, and what is loaded; what is not known is left out.

Clients choose by `capabilities`, and by the context under `model_info`, whose name begins with the
architecture. A model that is chatted with may be given tools, whatever its engine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from datetime import UTC, datetime

import msgspec

from roost.core.snapshots import ModelOffer, RuntimeView
from roost.dialects.json_body import JsonObject, parse_object
from roost.dialects.openai.options import read_model
from roost.errors import fail

API_VERSION = "0.12.11"
"""The release of Ollama whose API this is: clients ask whether it is new enough for them."""

NEVER_UNIX_S = 4_102_444_800
"""The first second of the year 2100, for what stays until somebody says otherwise."""

_UNKNOWN = math.inf
_LAST_UNIX_S = 253_402_300_799
"""The last second that has a date."""

_encode = msgspec.json.Encoder().encode


class Running(msgspec.Struct, frozen=True):
    """A runtime that is ready, and the model in it as its node offers it."""

    offer: ModelOffer
    runtime: RuntimeView


def version_body(software: str) -> bytes:
    """Encode which API this is, and who speaks it."""
    return _encode({"version": API_VERSION, "roost": software})


def tags_body(offers: Iterable[ModelOffer]) -> bytes:
    """Encode the list of models, in the order given."""
    return _encode({"models": [_listed(offer) for offer in offers]})


def running_body(running: Iterable[Running], now_unix_s: float) -> bytes:
    """Encode what is loaded, each model once: as it is where it stays for the longest."""
    longest: dict[str, tuple[float, Running]] = {}
    for one in running:
        until_s = _until_unix_s(one.runtime, now_unix_s)
        known = longest.get(one.offer.model)
        if known is None or until_s > known[0]:
            longest[one.offer.model] = until_s, one
    return _encode({"models": [_loaded(one, until_s) for until_s, one in longest.values()]})


def read_show(body: bytes) -> str:
    """Read of which model /api/show is asked; the older name of the field is `name`."""
    sent = parse_object(body)
    model = read_model({"model": sent.get("model") or sent.get("name")})
    if model is None:
        raise fail("bad_request", "'model' is required; GET /api/tags lists them.", param="model")
    return model


def show_body(offer: ModelOffer) -> bytes:
    """Encode one model."""
    family = offer.architecture
    info: JsonObject = {"general.architecture": family} if family else {}
    if offer.ctx:
        info[f"{family or 'general'}.context_length"] = offer.ctx
    shown: JsonObject = {
        "details": _details(offer),
        "model_info": info,
        "capabilities": _capabilities(offer),
    }
    return _encode(shown | _made(offer))


def _capabilities(offer: ModelOffer) -> list[str]:
    if offer.mode != "generate":
        return ["embedding"] if offer.mode == "embed" else []
    return ["completion", "tools"] if offer.has_chat else ["completion"]


def _listed(offer: ModelOffer) -> JsonObject:
    shown: JsonObject = {"name": offer.model, "model": offer.model}
    return shown | _made(offer) | _weighed(offer) | {"details": _details(offer)}


def _loaded(one: Running, until_s: float) -> JsonObject:
    offer, runtime = one.offer, one.runtime
    shown: JsonObject = {"name": offer.model, "model": offer.model}
    size = offer.measured_bytes or offer.size_bytes
    if size:
        shown |= {"size": size, "size_vram": 0 if offer.device == "host" else size}
    if offer.digest:
        shown["digest"] = offer.digest
    shown["details"] = _details(offer)
    if until_s != _UNKNOWN:
        shown["expires_at"] = _time(until_s)
    return shown | ({"context_length": runtime.ctx} if runtime.ctx else {})


def _until_unix_s(runtime: RuntimeView, now_unix_s: float) -> float:
    """When a runtime goes if nobody comes; nobody knows of one that is in use now."""
    if runtime.unload_in_s is not None:
        return now_unix_s + runtime.unload_in_s
    return NEVER_UNIX_S if runtime.pinned or runtime.idle_s is not None else _UNKNOWN


def _made(offer: ModelOffer) -> JsonObject:
    return {"modified_at": _time(offer.created_unix_s)} if offer.created_unix_s else {}


def _weighed(offer: ModelOffer) -> JsonObject:
    shown: JsonObject = {"size": offer.size_bytes} if offer.size_bytes else {}
    return shown | ({"digest": offer.digest} if offer.digest else {})


def _details(offer: ModelOffer) -> JsonObject:
    family = offer.architecture
    return {"family": family, "families": [family]} if family else {}


def _time(unix_s: float) -> str:
    told = datetime.fromtimestamp(min(max(unix_s, 0), _LAST_UNIX_S), UTC)
    return told.isoformat().replace("+00:00", "Z")
