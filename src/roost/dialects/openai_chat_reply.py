"""MACHINE: the events of one stream become the reply of /v1/chat/completions, streamed or whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roost.core.events import Delta, Failed, Finished, FinishReason, StreamEvent, TokenChoice
from roost.dialects.json_text import encode_text
from roost.dialects.openai_body import ReplyBody
from roost.dialects.openai_envelope import Envelope, Fact
from roost.dialects.openai_logprobs import chat_logprobs
from roost.dialects.openai_options import ReplyOptions
from roost.errors import Failure
from roost.text import sse

_ROLE = b'[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]'
_DELTA = b'[{"index":0,"delta":{"content":'
_PLAIN_END = b'},"finish_reason":null}]}\n\n'
_WHOLE = (
    b'[{"index":0,"message":{"role":"assistant","content":%b,"refusal":null},'
    b'"logprobs":%b,"finish_reason":"%b"}]'
)


class ChatStream:
    """Encodes one streamed reply; whatever it is asked for after the end, it returns nothing.

    The role chunk comes first and once: by `head()`, or with the first text.
    """

    def __init__(self, reply_id: str, created_s: int, model: str, options: ReplyOptions) -> None:
        self._envelope = Envelope(reply_id, "chat.completion.chunk", created_s, model)
        self._options = options
        self._delta_open = self._envelope.event_open + _DELTA
        self._headed = False

    @property
    def ended(self) -> bool:
        """Whether the terminal event has been encoded."""
        return self._envelope.ended

    def head(self) -> bytes:
        """Give the role chunk, the first time it is asked for."""
        if self._headed or self.ended:
            return b""
        self._headed = True
        return self._envelope.event(_ROLE)

    def event(self, event: StreamEvent) -> bytes:
        """Encode any event; those without meaning to the client give no bytes."""
        if isinstance(event, Delta):
            return self._delta(event)
        if isinstance(event, Finished):
            return self.finish(event)
        return self.error(event.failure) if isinstance(event, Failed) else b""

    def finish(self, finished: Finished) -> bytes:
        """Give the chunk with the reason, the usage chunk if asked for, and `[DONE]`."""
        if self.ended:
            return b""
        usage = finished.usage if self._options.include_usage else None
        return self.head() + self._envelope.last_events(_last_choice(finished.reason), usage)

    def error(self, failure: Failure) -> bytes:
        """Give one error event; no reason and no `[DONE]` follow."""
        return self._envelope.error_event(failure)

    def comment(self, text: str) -> bytes:
        """Give a comment that keeps a waiting connection alive."""
        return b"" if self.ended else sse.encode_comment(text)

    def skipped(self, count: int) -> None:
        """Say nothing of it: this API has no way to tell, so nothing is dropped for its readers."""

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put `facts` under `roost` on the last chunk."""
        self._envelope.add_roost(facts)

    def _delta(self, delta: Delta) -> bytes:
        with_logprobs = bool(delta.logprobs) and self._options.logprobs
        if self.ended or not (delta.text or with_logprobs):
            return b""
        chunk = self._delta_open + encode_text(delta.text)
        if with_logprobs:
            chunk += b'},"logprobs":' + chat_logprobs(delta.logprobs) + _PLAIN_END[1:]
        else:
            chunk += _PLAIN_END
        return chunk if self._headed else self.head() + chunk


def chat_body(reply_id: str, created_s: int, model: str, options: ReplyOptions) -> ReplyBody:
    """Make the collector for a chat reply that is sent whole."""

    def choices(text: str, tokens: Sequence[TokenChoice], reason: FinishReason) -> bytes:
        logprobs = chat_logprobs(tokens) if options.logprobs else b"null"
        parts = (encode_text(text), logprobs, reason.encode())
        return _WHOLE % parts

    return ReplyBody(Envelope(reply_id, "chat.completion", created_s, model), choices)


def _last_choice(reason: FinishReason) -> bytes:
    return b'[{"index":0,"delta":{},"finish_reason":"%b"}]' % reason.encode()
