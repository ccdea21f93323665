"""DECIDER: an error in mid-stream, in the words that the clients of each API understand."""

from __future__ import annotations

import msgspec

from roost.dialects.openai_errors import error_body
from roost.errors import Failure

OPENAI, ANTHROPIC, RESPONSES = "openai", "anthropic", "responses"


def error_event(dialect: str, failure: Failure) -> bytes:
    """Render the one event that ends a broken stream.

    Anthropic's clients drop events without an `event:` line; OpenAI's raise on a `data:` line with
    an `error` in it, and on nothing else.
    """
    if dialect == ANTHROPIC:
        error = {"type": "api_error", "message": failure.message}
        return _typed({"type": "error", "error": error})
    if dialect == RESPONSES:
        return _typed({"type": "error", "code": failure.reason, "message": failure.message})
    return b"data: %b\n\n" % error_body(failure)[1]


def _typed(body: object) -> bytes:
    return b"event: error\ndata: %b\n\n" % msgspec.json.encode(body)
