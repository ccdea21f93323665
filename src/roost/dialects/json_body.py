"""DECIDER: the body of a request becomes a JSON object, or a 400 that says where it is broken."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from roost.errors import fail

JsonObject: TypeAlias = dict[str, object]


def parse_object(body: bytes) -> JsonObject:
    """Parse `body`, whatever its content type claims; of duplicate keys the last one counts.

    Raises `bad_request` for anything but one JSON object in UTF-8: broken or deeply nested JSON,
    NaN and Infinity, which are not JSON, and numbers that no double can hold.
    """
    try:
        value: object = msgspec.json.decode(body)
    except RecursionError:
        raise fail("bad_request", "The body is nested too deeply.") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        # msgspec names the place and the kind of the mistake, and quotes nothing of the body.
        raise fail("bad_request", f"The body is not valid JSON: {error}.") from None
    if not isinstance(value, dict):
        raise fail("bad_request", f"The body must be a JSON object, got {described(value)}.")
    return value


def described(value: object) -> str:
    """Name a JSON value for a message without quoting more than a short number of it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (int, float)):
        return f"{value}" if abs(value) < 1e15 else "a very large number"
    if isinstance(value, str):
        return "a string" if value else "an empty string"
    return "an array" if isinstance(value, list) else "an object"
