"""DECIDER: failures in the shape that Ollama's clients read: one line of text, and the status."""

from __future__ import annotations

import msgspec

from roost.dialects.json_text import clean, escape_line_ends
from roost.errors import Failure

_encode = msgspec.json.Encoder().encode


def error_json(failure: Failure) -> bytes:
    """Encode `{"error": "…"}`; the field at fault is named in the text, as far as there is one."""
    return escape_line_ends(_encode({"error": clean(failure.message)}))


def error_body(failure: Failure) -> tuple[int, bytes]:
    """Give the HTTP status and the JSON body of a failure."""
    return failure.status, error_json(failure)
