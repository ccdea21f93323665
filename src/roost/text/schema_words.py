"""DECIDER: what the words of a JSON Schema say: which there are, types, counts, bounds, joins.

What is no schema is told apart from what is one and no grammar can say.
"""

from __future__ import annotations

import math
from typing import TypeAlias

from roost.errors import RoostError, fail
from roost.text.schema_scalars import Bounds

COUNT_MAX = 1000
"""The largest `minLength`, `maxItems` and so on that a grammar is written for."""

Schema: TypeAlias = dict[str, object]
TYPES = ("string", "number", "integer", "boolean", "null", "object", "array")
NOT_SAID = (
    *("not", "if", "then", "else", "patternProperties", "propertyNames", "dependentRequired"),
    *("dependentSchemas", "dependencies", "contains", "unevaluatedItems", "$dynamicRef"),
    *("$recursiveRef", "multipleOf", "unevaluatedProperties", "additionalItems"),
)
_HINTS = {
    "object": ("properties", "required", "additionalProperties", "minProperties", "maxProperties"),
    "array": ("items", "prefixItems", "minItems", "maxItems"),
    "string": ("minLength", "maxLength", "pattern"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
}
SAYS = {
    *("type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "format", "uniqueItems"),
    *(name for names in _HINTS.values() for name in names),
    *NOT_SAID,
}


def wrong(what: str, path: str = "") -> RoostError:
    """Say what is wrong with a schema, and where."""
    at = f" (at {path})" if path else ""
    return fail("bad_request", f"The schema cannot be used: {what}{at}.", param="response_format")


def unsaid(what: str, path: str) -> RoostError:
    """Say what no grammar can say, and where."""
    message = f"No answer can be held to {what} of the schema (at {path or 'its top'})."
    return fail("unsupported", message, param="response_format")


def joined(one: Schema, other: Schema, path: str) -> Schema:
    """Make one schema of two that both hold; raises where they say different things."""
    out = dict(one)
    for name, value in other.items():
        mine = out.get(name, value)
        if name == "properties" and isinstance(mine, dict) and isinstance(value, dict):
            out[name] = joined(mine, value, path)
        elif name == "required" and isinstance(mine, list) and isinstance(value, list):
            out[name] = list(dict.fromkeys([*mine, *value]))
        elif mine != value and (name in SAYS or isinstance(value, dict)):
            raise unsaid(f"'allOf' with different '{name[:50]}'", path)
        else:
            out[name] = mine
    return out


def typed_option(part: object, schema: Schema, path: str) -> object:
    """Give an option the type that stands beside all options."""
    kinds = set(kinds_of(schema, path))
    if not isinstance(part, dict) or "$ref" in part:
        raise unsaid("'type' beside references or 'true'", path)
    if kinds < set(kinds_of(part, path)) or not kinds & set(kinds_of(part, path) or kinds):
        raise unsaid("'type' beside options of other types", path)
    return {"type": schema["type"]} | part


def kinds_of(schema: Schema, path: str) -> tuple[str, ...]:
    """Name the types that a schema has, or the one that its words are about; none for any."""
    sent = schema.get("type")
    if sent is None:
        return tuple(kind for kind, names in _HINTS.items() if schema.keys() & set(names))[:1]
    kinds = sent if isinstance(sent, list) else [sent]
    if not kinds or any(kind not in TYPES for kind in kinds):
        raise wrong(f"'type' is one or more of {', '.join(TYPES)}", path)
    return tuple(dict.fromkeys(kinds))


def is_of(value: object, kinds: tuple[str, ...]) -> bool:
    """Say whether a value has one of these types."""
    kind = {str: "string", bool: "boolean", type(None): "null", dict: "object", list: "array"}
    found = kind.get(type(value), "number")
    whole = found == "number" and isinstance(value, (int, float)) and _is_whole(value)
    return found in kinds or (whole and "integer" in kinds)


def _is_whole(value: float) -> bool:
    return math.isfinite(value) and value == int(value)


def counts(schema: Schema, what: str, path: str) -> tuple[int, int | None]:
    """Read the least and the most of something, None for any number."""
    least = _count(schema, f"min{what}", path) or 0
    most = _count(schema, f"max{what}", path)
    if most is not None and most < least:
        raise wrong(f"'max{what}' is below 'min{what}'", path)
    return least, most


def _count(schema: Schema, name: str, path: str) -> int | None:
    value = schema.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not _is_whole(value):
        raise wrong(f"'{name}' is a whole number", path)
    if value < 0:
        raise wrong(f"'{name}' is not below 0", path)
    if value > COUNT_MAX:
        raise unsaid(f"'{name}' above {COUNT_MAX}", path)
    return int(value)


def bounds(schema: Schema, path: str) -> Bounds:
    """Read between what a number has to be."""
    names = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
    return Bounds(*(_bound(schema, name, path) for name in names))


def _bound(schema: Schema, name: str, path: str) -> float | None:
    value = schema.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong(f"'{name}' is a number", path)
    if abs(value) >= 10**15:
        raise unsaid(f"'{name}' of more than 15 digits", path)
    return value
