"""DECIDER: failures in the shape that OpenAI's clients read, and texts that they look for."""

from __future__ import annotations

import msgspec

from roost.dialects.json_text import clean, escape_line_ends
from roost.errors import Failure

_encode = msgspec.json.Encoder().encode
_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_NAME_CHARS_MAX = 100


def error_type(status: int) -> str:
    """Give OpenAI's name for the kind of failure an HTTP status stands for."""
    return _TYPES.get(status) or ("server_error" if status >= 500 else "invalid_request_error")


def error_json(failure: Failure) -> bytes:
    """Encode `{"error": {…}}`; the code is the reason in our catalogue."""
    error = {
        "message": clean(failure.message),
        "type": error_type(failure.status),
        "param": failure.param,
        "code": failure.reason,
    }
    return escape_line_ends(_encode({"error": error}))


def error_body(failure: Failure) -> tuple[int, bytes]:
    """Give the HTTP status and the JSON body of a failure."""
    return failure.status, error_json(failure)


def model_not_found(name: str) -> Failure:
    """Say that no node has a model of this name; clients look for "does not exist"."""
    return Failure(
        "model_not_found", f"The model '{name[:_NAME_CHARS_MAX]}' does not exist.", "model"
    )
