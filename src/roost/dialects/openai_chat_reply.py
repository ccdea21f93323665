"""MACHINE: the events of one stream become the reply of /v1/chat/completions, streamed or whole."""

from __future__ import annotations

from collections.abc import Sequence

from roost.core.events import FinishReason, TokenChoice
from roost.dialects.json_text import encode_text
from roost.dialects.openai_body import ReplyBody
from roost.dialects.openai_envelope import Envelope
from roost.dialects.openai_logprobs import chat_logprobs
from roost.dialects.openai_options import ReplyOptions
from roost.dialects.openai_stream import Form, ReplyStream

_ROLE = b'[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]'
_DELTA = b'[{"index":0,"delta":{"content":'
_PLAIN_END = b'},"finish_reason":null}]}\n\n'
_WHOLE = (
    b'[{"index":0,"message":{"role":"assistant","content":%b,"refusal":null},'
    b'"logprobs":%b,"finish_reason":"%b"}]'
)


def chat_stream(reply_id: str, created_s: int, model: str, options: ReplyOptions) -> ReplyStream:
    """Make the encoder for a chat reply that is streamed; the role comes first."""
    envelope = Envelope(reply_id, "chat.completion.chunk", created_s, model)
    return ReplyStream(envelope, _FORM, options)


def chat_body(reply_id: str, created_s: int, model: str, options: ReplyOptions) -> ReplyBody:
    """Make the collector for a chat reply that is sent whole."""

    def choices(text: str, tokens: Sequence[TokenChoice], reason: FinishReason) -> bytes:
        logprobs = chat_logprobs(tokens) if options.logprobs else b"null"
        parts = (encode_text(text), logprobs, reason.encode())
        return _WHOLE % parts

    return ReplyBody(Envelope(reply_id, "chat.completion", created_s, model), choices)


def _last_choice(reason: FinishReason) -> bytes:
    return b'[{"index":0,"delta":{},"finish_reason":"%b"}]' % reason.encode()


def _closing(tokens: Sequence[TokenChoice]) -> bytes:
    return b'},"logprobs":' + chat_logprobs(tokens) + _PLAIN_END[1:]


_FORM = Form(_ROLE, _DELTA, _PLAIN_END, _closing, _last_choice)
