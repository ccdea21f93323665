"""DECIDER: what an answer is to be held to, as `response_format` says it."""

from __future__ import annotations

import msgspec

from roost.core.request import Constraint, JsonAny, JsonSchema
from roost.dialects import fields
from roost.dialects.json_body import JsonObject
from roost.errors import fail

_encode = msgspec.json.Encoder().encode


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
