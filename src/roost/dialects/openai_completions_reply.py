"""MACHINE: the events of one stream become the reply of /v1/completions, streamed or whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from roost.core.events import Delta, Failed, Finished, FinishReason, StreamEvent, TokenChoice
from roost.dialects.json_text import encode_text
from roost.dialects.openai_body import ReplyBody
from roost.dialects.openai_envelope import Envelope, Fact
from roost.dialects.openai_logprobs import CompletionLogprobs
from roost.dialects.openai_options import ReplyOptions
from roost.errors import Failure
from roost.text import sse

# Streamed or whole, this API gives both forms the same name.
_KIND = "text_completion"
_OPEN = b'[{"index":0,"text":'
_PLAIN_END = b',"logprobs":null,"finish_reason":null}]}\n\n'


class CompletionStream:
    """Encodes one streamed reply; whatever it is asked for after the end, it returns nothing."""

    def __init__(self, reply_id: str, created_s: int, model: str, options: ReplyOptions) -> None:
        self._envelope = Envelope(reply_id, _KIND, created_s, model)
        self._options = options
        self._text_open = self._envelope.event_open + _OPEN
        self._logprobs = CompletionLogprobs()

    @property
    def ended(self) -> bool:
        """Whether the terminal event has been encoded."""
        return self._envelope.ended

    def head(self) -> bytes:
        """Give nothing: this API has no chunk in front of the text."""
        return b""

    def event(self, event: StreamEvent) -> bytes:
        """Encode any event; those without meaning to the client give no bytes."""
        if isinstance(event, Delta):
            return self._delta(event)
        if isinstance(event, Finished):
            return self.finish(event)
        return self.error(event.failure) if isinstance(event, Failed) else b""

    def finish(self, finished: Finished) -> bytes:
        """Give the chunk with the reason, the usage chunk if asked for, and `[DONE]`."""
        usage = finished.usage if self._options.include_usage else None
        return self._envelope.last_events(_choice(b'""', b"null", finished.reason), usage)

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
        chunk = self._text_open + encode_text(delta.text)
        if not with_logprobs:
            return chunk + _PLAIN_END
        logprobs = self._logprobs.encode(delta.logprobs)
        return chunk + b',"logprobs":' + logprobs + b',"finish_reason":null}]}\n\n'


def completion_body(reply_id: str, created_s: int, model: str, options: ReplyOptions) -> ReplyBody:
    """Make the collector for a completion that is sent whole."""

    def choices(text: str, tokens: Sequence[TokenChoice], reason: FinishReason) -> bytes:
        logprobs = CompletionLogprobs().encode(tokens) if options.logprobs else b"null"
        return _choice(encode_text(text), logprobs, reason)

    return ReplyBody(Envelope(reply_id, _KIND, created_s, model), choices)


def _choice(text: bytes, logprobs: bytes, reason: FinishReason) -> bytes:
    parts = (text, logprobs, reason.encode())
    return b'[{"index":0,"text":%b,"logprobs":%b,"finish_reason":"%b"}]' % parts
