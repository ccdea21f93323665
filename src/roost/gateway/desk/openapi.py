"""DECIDER: the OpenAPI document: addresses and their types, as the standard writes them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

import msgspec

from roost import __version__
from roost.dialects.shapes.shared import Json
from roost.gateway.desk.addresses import ADDRESSES, ERRORS, EVENT_STREAM, TAGS, Address

VERSION = "3.1.0"
_REFERENCE = "#/components/schemas/{name}"
_PART = re.compile(r"\{(\w+)\}")
_OPEN = frozenset({"pages"})
_OPEN_PATHS = frozenset({"/health", "/ready", "/openapi.json"})


@cache
def document(base_path: str = "", addresses: tuple[Address, ...] = ADDRESSES) -> bytes:
    """Write the document of these addresses; `base_path` stands before each of them."""
    kinds = list(dict.fromkeys(kind for one in addresses for kind in _kinds(one)))
    schemas, components = msgspec.json.schema_components(
        kinds, schema_hook=_anything, ref_template=_REFERENCE
    )
    known = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Json] = {}
    for one in addresses:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one, known)
    told = {
        "openapi": VERSION,
        "info": {
            "title": "roost",
            "version": __version__,
            "description": "Large language models from machines you own. Fields that an API here "
            "does not know are read past, unless the setting `strict` says otherwise.",
        },
        "servers": [{"url": base_path or "/"}],
        "tags": [{"name": name, "description": words} for name, words in TAGS.items()],
        "security": [{"bearer": []}, {"key": []}, {}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
    }
    return msgspec.json.encode(told)


def _anything(kind: type) -> Json:
    """Describe what may be anything; there is no other type that has no schema of its own."""
    assert kind is object, "a type that cannot be described stands at no address"
    return {"description": "Any JSON."}


def _kinds(one: Address) -> Iterable[object]:
    told = (one.body, one.reply, *one.streams, one.later, ERRORS[one.tag])
    return (kind for kind in told if kind is not None)


def _operation(one: Address, known: dict[object, Json]) -> Json:
    told: Json = {
        "tags": [one.tag],
        "summary": one.summary,
        "operationId": _name(one),
        "responses": _responses(one, known),
    }
    parts = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PART.findall(one.path)
    ]
    parts += [{"name": name, "in": "query", "schema": {"type": "string"}} for name in one.query]
    if parts:
        told["parameters"] = parts
    if one.body is not None:
        content = {"application/json": {"schema": known[one.body]}}
        told["requestBody"] = {"required": True, "content": content}
    if one.tag in _OPEN or one.path in _OPEN_PATHS:
        told["security"] = []
    return told


def _responses(one: Address, known: dict[object, Json]) -> Json:
    content: Json = {}
    if one.reply is not None:
        content[one.media] = {"schema": known[one.reply]}
    events = [known[kind] for kind in one.streams]
    if events:
        event: Json = {"anyOf": events} if events[1:] else events[0]
        framed = _framed(event) if one.stream_media == EVENT_STREAM else event
        content[one.stream_media] = {"schema": framed}
    told: Json = {"200": {"description": "What was asked.", "content": content}} if content else {}
    if one.later is not None:
        body = {"application/json": {"schema": known[one.later]}}
        told["202"] = {"description": "It has begun.", "content": body}
    error = {"application/json": {"schema": known[ERRORS[one.tag]]}}
    told["default"] = {"description": "A failure, with what to do about it.", "content": error}
    return told


def _framed(event: Json) -> Json:
    """Describe one server-sent event: its data is JSON, but for a mark of the end."""
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": event}
    named = {"event": {"type": "string"}, "data": data}
    return {"type": "object", "properties": named, "required": ["data"]}


def _name(one: Address) -> str:
    """Name an operation by its method and the words of its path."""
    words = re.findall(r"\w+", one.path) or ["root"]
    return "_".join([one.method.lower(), *words])
