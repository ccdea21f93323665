"""MACHINE: what all chunks of one reply share, and how a reply may end.

Every chunk carries the same id, time and model. A reply ends once: with its last chunk and
`[DONE]`, or with one error event and no `[DONE]`, because clients take a stream that stops cleanly
for a complete answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from roost.core.events import Usage
from roost.dialects.json_text import encode_text, escape_line_ends
from roost.dialects.openai_errors import error_json
from roost.errors import Failure
from roost.text import sse

Fact: TypeAlias = str | int | float | bool | None

_encode = msgspec.json.Encoder().encode
_DONE = b"data: [DONE]\n\n"


class Envelope:
    """The outer object of a reply.

    `kind` is its `object` field, `created_s` seconds since 1970, `model` the name to answer with.
    """

    def __init__(self, reply_id: str, kind: str, created_s: int, model: str) -> None:
        self._open = b'{"id":%b,"object":%b,"created":%d,"model":%b,"choices":' % (
            encode_text(reply_id),
            encode_text(kind),
            created_s,
            encode_text(model),
        )
        self._roost = b""
        self.ended = False

    def add_roost(self, facts: Mapping[str, Fact]) -> None:
        """Let the last object carry `facts` under `roost`: those unknown when headers were sent."""
        self._roost = b',"roost":' + escape_line_ends(_encode(dict(facts)))

    def event(self, choices: bytes) -> bytes:
        """Frame one chunk with the JSON list `choices`."""
        return self.event_open + choices + b"}\n\n"

    @property
    def event_open(self) -> bytes:
        """The bytes of a chunk up to its list of choices; `}` and a blank line end it."""
        return b"data: " + self._open

    def last_events(self, choices: bytes, usage: Usage | None) -> bytes:
        """Frame the final chunk, a chunk of usage where one was asked for, and `[DONE]`."""
        if self.ended:
            return b""
        self.ended = True
        if usage is None:
            return self.event(choices + self._roost) + _DONE
        tail = b'[],"usage":' + usage_json(usage) + self._roost
        return self.event(choices) + self.event(tail) + _DONE

    def error_event(self, failure: Failure) -> bytes:
        """Frame the failure as the end of the stream."""
        if self.ended:
            return b""
        self.ended = True
        return sse.encode_data(error_json(failure))

    def body(self, choices: bytes, usage: Usage) -> bytes:
        """Encode a whole reply that is not streamed."""
        return self._open + choices + b',"usage":' + usage_json(usage) + self._roost + b"}"


def usage_json(usage: Usage) -> bytes:
    """Encode token counts; cached tokens are part of the prompt's."""
    counts = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
    return _encode(counts)
