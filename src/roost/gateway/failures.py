"""DECIDER: in which API's words a failure of the gateway itself is told, by the address asked."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from roost.dialects.anthropic.errors import error_body as anthropic_error
from roost.dialects.ollama.errors import error_body as ollama_error
from roost.dialects.openai.errors import error_body as openai_error
from roost.errors import Failure
from roost.gateway.front.rendering import Errors
from roost.gateway.front.router import normalise, percent_decoded

MESSAGES = "/v1/messages"
_NAMES: dict[str, dict[str | None, str]] = {
    "/v1/completions": {"messages": "prompt"},
    "/v1/responses": {
        "messages": "input",
        "prompt": "input",
        "response_format": "text.format.schema",
        "max_tokens": "max_output_tokens",
        "from": "starting_after",
    },
}
"""Names of fields where an API has others than chats have, or than streams of requests."""


def speaks_anthropic(path: str) -> bool:
    """Whether only Anthropic's clients ask for this path, or for one under it."""
    return f"{_plain(path)}/".startswith(f"{MESSAGES}/")


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
        return openai_error(failure if known is None else _as_sent(failure, known))

    return errors


def _as_sent(failure: Failure, path: str) -> Failure:
    """Name the field at fault as its API does: nodes know it by the name that chats have for it."""
    for root, names in _NAMES.items():
        if failure.param in names and f"{_plain(path)}/".startswith(f"{root}/"):
            return msgspec.structs.replace(failure, param=names[failure.param])
    return failure


def _plain(path: str) -> str:
    plain = normalise(percent_decoded(path))
    return plain if plain.startswith("/v1/") else f"/v1{plain}"
