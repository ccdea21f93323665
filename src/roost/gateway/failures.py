"""DECIDER: in which API's words a failure of the gateway itself is told, by the address asked."""

from __future__ import annotations

from collections.abc import Callable

from roost.dialects.anthropic_errors import error_body as anthropic_error
from roost.dialects.ollama_errors import error_body as ollama_error
from roost.dialects.openai_errors import error_body as openai_error
from roost.errors import Failure
from roost.gateway.front.rendering import Errors
from roost.gateway.front.router import normalise, percent_decoded

MESSAGES = "/v1/messages"


def speaks_anthropic(path: str) -> bool:
    """Whether only Anthropic's clients ask for this path, or for one under it."""
    plain = normalise(percent_decoded(path)) + "/"
    return any(f"{base}{plain}".startswith(f"{MESSAGES}/") for base in ("", "/v1"))


def speaks_ollama(path: str) -> bool:
    """Whether only Ollama's clients ask for this path."""
    return normalise(percent_decoded(path)).startswith("/api/")


def errors_under(inside: Callable[[str], str | None]) -> Errors:
    """Render failures by path; `inside` takes the gateway's base off, None outside of it."""

    def errors(failure: Failure, path: bytes, request_id: str) -> tuple[int, bytes]:
        known = inside(path.decode("latin-1"))
        if known is not None and speaks_anthropic(known):
            return anthropic_error(failure, request_id)
        if known is not None and speaks_ollama(known):
            return ollama_error(failure)
        return openai_error(failure)

    return errors
