"""DECIDER: failures in the shape that Anthropic's clients read."""

from __future__ import annotations

import msgspec

from roost.dialects.json_text import clean, escape_line_ends
from roost.errors import Failure

_encode = msgspec.json.Encoder().encode
_OVERLOADED = 529
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    _OVERLOADED: "overloaded_error",
}


def status_of(failure: Failure) -> int:
    """Translate the status: what is 503 elsewhere is 529 in this API."""
    return _OVERLOADED if failure.status == 503 else failure.status


def error_type(status: int) -> str:
    """Give Anthropic's name for the kind of failure a status of theirs stands for."""
    return _TYPES.get(status) or ("api_error" if status >= 500 else "invalid_request_error")


def error_json(failure: Failure, request_id: str) -> bytes:
    """Encode `{"type": "error", …}`, as a body and as the data of an `error` event."""
    error = {"type": error_type(status_of(failure)), "message": clean(failure.message)}
    return escape_line_ends(_encode({"type": "error", "error": error, "request_id": request_id}))


def error_body(failure: Failure, request_id: str) -> tuple[int, bytes]:
    """Give the HTTP status and the JSON body of a failure."""
    return status_of(failure), error_json(failure, request_id)
