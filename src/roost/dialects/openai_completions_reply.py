"""MACHINE: the events of one stream become the reply of /v1/completions, streamed or whole."""

from __future__ import annotations

from collections.abc import Sequence

from roost.core.events import FinishReason, TokenChoice
from roost.dialects.json_text import encode_text
from roost.dialects.openai_body import ReplyBody
from roost.dialects.openai_envelope import Envelope
from roost.dialects.openai_logprobs import CompletionLogprobs
from roost.dialects.openai_options import ReplyOptions
from roost.dialects.openai_stream import Form, ReplyStream

# Streamed or whole, this API gives both forms the same name.
_KIND = "text_completion"
_OPEN = b'[{"index":0,"text":'
_PLAIN_END = b',"logprobs":null,"finish_reason":null}]}\n\n'


def completion_stream(
    reply_id: str, created_s: int, model: str, options: ReplyOptions
) -> ReplyStream:
    """Make the encoder for a completion that is streamed; nothing comes in front of the text."""
    logprobs = CompletionLogprobs()

    def closing(tokens: Sequence[TokenChoice]) -> bytes:
        return b',"logprobs":' + logprobs.encode(tokens) + b',"finish_reason":null}]}\n\n'

    form = Form(b"", _OPEN, _PLAIN_END, closing, _last_choice)
    return ReplyStream(Envelope(reply_id, _KIND, created_s, model), form, options)


def completion_body(reply_id: str, created_s: int, model: str, options: ReplyOptions) -> ReplyBody:
    """Make the collector for a completion that is sent whole."""

    def choices(text: str, tokens: Sequence[TokenChoice], reason: FinishReason) -> bytes:
        logprobs = CompletionLogprobs().encode(tokens) if options.logprobs else b"null"
        return _choice(encode_text(text), logprobs, reason)

    return ReplyBody(Envelope(reply_id, _KIND, created_s, model), choices)


def _choice(text: bytes, logprobs: bytes, reason: FinishReason) -> bytes:
    parts = (text, logprobs, reason.encode())
    return b'[{"index":0,"text":%b,"logprobs":%b,"finish_reason":"%b"}]' % parts


def _last_choice(reason: FinishReason) -> bytes:
    return _choice(b'""', b"null", reason)
