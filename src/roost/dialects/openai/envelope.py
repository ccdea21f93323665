"""MACHINE: what all chunks of one reply share, and how a reply may end.

Every chunk carries the same id, time and model. A reply ends once: with its last chunk and
`[DONE]`, or with one error event and no `[DONE]`, because clients take a stream that stops cleanly
for a complete answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from roost.core.events import Usage
from roost.dialects.json_text import encode_text, escape_line_ends
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.errors import error_json
from roost.errors import Failure
from roost.text import sse

Fact: TypeAlias = str | int | float | bool | None

_encode = msgspec.json.Encoder().encode
_CHOICES = b'"choices":'
FINGERPRINT_CHARS = 12
_DONE = b"data: [DONE]\n\n"


class Envelope:
    """The outer object of a reply.

    `kind` is its `object` field, `created_s` seconds since 1970, `model` the name to answer with.
    """

    def __init__(self, reply_id: str, kind: str, created_s: int, model: str) -> None:
        parts = (encode_text(reply_id), encode_text(kind), created_s, encode_text(model))
        self._start = b'{"id":%b,"object":%b,"created":%d,"model":%b,' % parts
        self._open = self._start + _CHOICES
        self._roost = b""
        self.ended = False

    def add_roost(self, facts: Mapping[str, Fact]) -> None:
        """Let the last object carry `facts` under `roost`: those unknown when headers were sent."""
        self._roost = b',"roost":' + escape_line_ends(_encode(dict(facts)))

    def answered_by(self, digest: str) -> None:
        """Say on all that follows who answers; the same digest stands for the same behaviour."""
        if digest:
            name = encode_text(f"fp_{digest[:FINGERPRINT_CHARS]}")
            self._open = self._start + b'"system_fingerprint":' + name + b"," + _CHOICES

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

    def last_choice(self, choices: bytes) -> bytes:
        """Frame the final chunk of one choice among several."""
        if self.ended:
            return b""
        self.ended = True
        return self.event(choices + self._roost)

    def ending(self, usage: Usage | None) -> bytes:
        """Frame the end behind several choices: usage where it was asked for, and `[DONE]`."""
        if self.ended:
            return b""
        self.ended = True
        return _DONE if usage is None else self.event(b'[],"usage":' + usage_json(usage)) + _DONE

    def error_event(self, failure: Failure) -> bytes:
        """Frame the failure as the end of the stream."""
        if self.ended:
            return b""
        self.ended = True
        return sse.encode_data(error_json(failure))

    def body(self, choices: Sequence[bytes], usage: Usage) -> bytes:
        """Encode a whole reply that is not streamed, of these choices."""
        listed = b"[" + b",".join(choices) + b"]"
        return self._open + listed + b',"usage":' + usage_json(usage) + self._roost + b"}"


class Ends:
    """How a reply of several choices ends; `choice` is any of them, `kind` the reply's `object`."""

    def __init__(self, choice: Choice, kind: str) -> None:
        self._envelope = envelope_of(choice, kind)
        self._options = choice.options

    def stream(self, usage: Usage) -> bytes:
        """Give usage where it was asked for, and `[DONE]`."""
        return self._envelope.ending(usage if self._options.include_usage else None)

    def body(self, choices: Sequence[bytes], usage: Usage) -> bytes:
        """Give the body of a whole reply."""
        return self._envelope.body(choices, usage)

    def error(self, failure: Failure) -> bytes:
        """Give one error event; no `[DONE]` follows."""
        return self._envelope.error_event(failure)


def envelope_of(choice: Choice, kind: str) -> Envelope:
    """Make what is around a choice."""
    return Envelope(choice.reply_id, kind, choice.created_s, choice.model)


def usage_json(usage: Usage) -> bytes:
    """Encode token counts; cached tokens are part of the prompt's, thoughts of the answer's."""
    counts: dict[str, object] = {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
    }
    if usage.reasoning_tokens:
        counts["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return _encode(counts)
