"""DECIDER: the JSON body of a request to one of roost's own addresses."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from roost.errors import fail

T = TypeVar("T")


def read_json(body: bytes, kind: type[T], example: str) -> T:
    """Read a body; raises `bad_request` with an example of what is meant, and what is wrong."""
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        why = f" ({error})" if isinstance(error, msgspec.ValidationError) else ""
        raise fail("bad_request", f"The body is JSON like {example}{why}.") from None
