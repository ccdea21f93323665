"""DECIDER: an error in mid-stream, in the words that the clients of each API understand."""

from __future__ import annotations

import msgspec

from roost.dialects.anthropic.errors import error_json as anthropic_error
from roost.dialects.openai.errors import error_json as openai_error
from roost.errors import Failure

OPENAI, ANTHROPIC, RESPONSES = "openai", "anthropic", "responses"


def error_event(dialect: str, failure: Failure, request_id: str) -> bytes:
    """Render the one event that ends a broken stream.

    Anthropic's clients drop events without an `event:` line; OpenAI's raise on a `data:` line with
    an `error` in it, and on nothing else.
    """
    if dialect == ANTHROPIC:
        return _typed(anthropic_error(failure, request_id))
    if dialect == RESPONSES:
        error = {"type": "error", "code": failure.reason, "message": failure.message}
        return _typed(msgspec.json.encode(error))
    return b"data: %b\n\n" % openai_error(failure)


def _typed(data: bytes) -> bytes:
    return b"event: error\ndata: %b\n\n" % data
