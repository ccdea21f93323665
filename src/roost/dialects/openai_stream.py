"""MACHINE: the events of one stream become a reply of the OpenAI API that is streamed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from roost.core.events import Delta, Failed, Finished, FinishReason, StreamEvent, TokenChoice
from roost.dialects.json_text import encode_text
from roost.dialects.openai_envelope import Envelope, Fact
from roost.dialects.openai_options import ReplyOptions
from roost.errors import Failure
from roost.text import sse


class Form(msgspec.Struct, frozen=True):
    """How one API writes the choices of its chunks.

    `head` is those of a chunk in front of the text, empty where there is none. A chunk of text is
    `opening`, the text, and `closing`, or what `with_logprobs` makes of the tokens behind it.
    `last` is the choices with the reason of the end.
    """

    head: bytes
    opening: bytes
    closing: bytes
    with_logprobs: Callable[[Sequence[TokenChoice]], bytes]
    last: Callable[[FinishReason], bytes]


class ReplyStream:
    """Encodes one streamed reply; whatever it is asked for after the end, it returns nothing.

    A chunk in front of the text comes first and once: by `head()`, or with the first text.
    `chat_stream` and `completion_stream` make it for their APIs.
    """

    def __init__(self, envelope: Envelope, form: Form, options: ReplyOptions) -> None:
        self._envelope = envelope
        self._form = form
        self._options = options
        self._opening = envelope.event_open + form.opening
        self._headed = not form.head

    @property
    def ended(self) -> bool:
        """Whether the terminal event has been encoded."""
        return self._envelope.ended

    @property
    def broken(self) -> bool:
        """Whether its end was a failure of an answer that was complete."""
        return False

    def head(self) -> bytes:
        """Give the chunk in front of the text, the first time it is asked for."""
        if self._headed or self.ended:
            return b""
        self._headed = True
        return self._envelope.event(self._form.head)

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
        return self.head() + self._envelope.last_events(self._form.last(finished.reason), usage)

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
        form = self._form
        closing = form.with_logprobs(delta.logprobs) if with_logprobs else form.closing
        chunk = self._opening + encode_text(delta.text) + closing
        return chunk if self._headed else self.head() + chunk
