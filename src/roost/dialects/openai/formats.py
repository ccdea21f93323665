"""DECIDER: what an answer is to be held to, as each API says it."""

from __future__ import annotations

import msgspec

from roost.core.request import Constraint, Grammar, JsonAny, JsonSchema, Offer
from roost.dialects import fields
from roost.dialects.json_body import JsonObject
from roost.errors import fail

_encode = msgspec.json.Encoder().encode


def read_constraint(body: JsonObject) -> Constraint | None:
    """Read `response_format`, or `grammar` as llama.cpp names it; None for neither.

    Raises `bad_request`, also for both at once.
    """
    found = read_format(body)
    text = fields.text(body, "grammar")
    if not text:
        return found
    if found is not None:
        message = "'grammar' and 'response_format' both hold the answer; send one of them."
        raise fail("bad_request", message, param="grammar")
    return Grammar(text)


def read_format(body: JsonObject) -> Constraint | None:
    """Read `response_format`; None for text. Raises `bad_request`.

    A schema is followed whether it is `strict` or not; what no engine can follow is refused where
    the engine is known. With `json_object` a `schema` beside it counts too, as in llama.cpp.
    """
    sent = fields.mapping(body, "response_format")
    kind = sent.get("type", "text")
    if kind == "text":
        return None
    if kind == "json_object":
        schema = fields.mapping(sent, "schema", "response_format.")
        return JsonSchema(_encode(schema).decode()) if schema else JsonAny()
    if kind != "json_schema":
        message = "'response_format' must have the type 'text', 'json_object' or 'json_schema'."
        raise fail("bad_request", message, param="response_format")
    where = "response_format.json_schema"
    named = fields.mapping(sent, "json_schema", "response_format.")
    schema = fields.mapping(named, "schema", f"{where}.")
    if not schema:
        message = f"'{where}.schema' must be an object that is not empty; or ask for 'json_object'."
        raise fail("bad_request", message, param=f"{where}.schema")
    return JsonSchema(_encode(schema).decode())


def read_flat_format(form: JsonObject, where: str, offer: Offer | None) -> Constraint | None:
    """Read a format whose schema stands beside its type, at `where`; None for text.

    Raises `bad_request`, and `unsupported` where tools are offered as well: an answer that is held
    to JSON as a whole cannot call one.
    """
    kind = form.get("type", "text")
    if kind == "text":
        return None
    if kind not in ("json_object", "json_schema"):
        message = f"'{where}' must have the type 'text', 'json_object' or 'json_schema'."
        raise fail("bad_request", message, param=where)
    if offer is not None and offer.mode != "none":
        message = f"'{where}' holds the whole answer to JSON, so it cannot call 'tools'."
        raise fail("unsupported", message, param=where)
    if kind == "json_object":
        return JsonAny()
    schema = fields.mapping(form, "schema", f"{where}.")
    if not schema:
        message = f"'{where}.schema' must be an object that is not empty."
        raise fail("bad_request", message, param=f"{where}.schema")
    return JsonSchema(_encode(schema).decode())
