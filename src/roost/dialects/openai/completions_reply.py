"""MACHINE: the events of one stream become the reply of /v1/completions, streamed or whole."""

from __future__ import annotations

from collections.abc import Mapping

from roost.core.events import (
    Delta,
    Failed,
    Finished,
    FinishReason,
    Started,
    StreamEvent,
    TokenChoice,
)
from roost.dialects.json_text import encode_text
from roost.dialects.openai.choice import Choice
from roost.dialects.openai.envelope import Ends, Fact, envelope_of
from roost.dialects.openai.logprobs import CompletionLogprobs
from roost.errors import Failure, RoostError
from roost.text import sse

# Streamed or whole, this API gives both forms the same name.
KIND = "text_completion"
_PLAIN_END = b',"logprobs":null,"finish_reason":null}]}\n\n'


class CompletionStream:
    """Encodes one choice of a streamed reply; whatever it is asked for after its end is nothing."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._envelope = envelope_of(choice, KIND)
        self._logprobs = CompletionLogprobs()
        self._open = b'[{"index":%d,"text":' % choice.index
        self._echo = choice.echo

    @property
    def ended(self) -> bool:
        """Whether the terminal event has been encoded."""
        return self._envelope.ended

    @property
    def broken(self) -> bool:
        """Whether its end was a failure of an answer that was complete: text is always of use."""
        return False

    def head(self) -> bytes:
        """Give the prompt where it was asked for, the first time that this is asked for."""
        echo, self._echo = self._echo, ""
        if not echo or self.ended:
            return b""
        return self._envelope.event_open + self._open + encode_text(echo) + _PLAIN_END

    def event(self, event: StreamEvent) -> bytes:
        """Encode any event; those without meaning to the client give no bytes."""
        if isinstance(event, Delta):
            return self._delta(event)
        if isinstance(event, Started):
            self._envelope.answered_by(event.digest)
        elif isinstance(event, Finished):
            return self.finish(event)
        return self.error(event.failure) if isinstance(event, Failed) else b""

    def finish(self, finished: Finished) -> bytes:
        """Give the chunk with the reason, the usage chunk if asked for, and `[DONE]`."""
        last = b"[" + _choice(self._choice.index, b'""', b"null", finished.reason) + b"]"
        if not self._choice.alone:
            return self.head() + self._envelope.last_choice(last)
        usage = finished.usage if self._choice.options.include_usage else None
        return self.head() + self._envelope.last_events(last, usage)

    def error(self, failure: Failure) -> bytes:
        """Give one error event; no reason and no `[DONE]` follow."""
        return self._envelope.error_event(failure)

    def comment(self, text: str) -> bytes:
        """Give a comment that keeps a waiting connection alive."""
        return b"" if self.ended else sse.encode_comment(text)

    @property
    def fails_cleanly(self) -> bool:
        """Whether a failure is a proper end: some clients take every clean one for success."""
        return False

    def skipped(self, count: int) -> None:
        """Say nothing of it: this API has no way to tell, so nothing is dropped for its readers."""

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put `facts` under `roost` on the last chunk."""
        self._envelope.add_roost(facts)

    def _delta(self, delta: Delta) -> bytes:
        with_logprobs = bool(delta.logprobs) and self._choice.options.logprobs
        if self.ended or not (delta.text or with_logprobs):
            return b""
        closing = _PLAIN_END
        if with_logprobs:
            encoded = self._logprobs.encode(delta.logprobs)
            closing = b',"logprobs":' + encoded + b',"finish_reason":null}]}\n\n'
        chunk = self._envelope.event_open + self._open + encode_text(delta.text) + closing
        return self.head() + chunk if self._echo else chunk


class CompletionBody:
    """Collects one choice of a reply that is sent whole."""

    def __init__(self, choice: Choice) -> None:
        self._choice = choice
        self._envelope = envelope_of(choice, KIND)
        self._texts: list[str] = [choice.echo]
        self._tokens: list[TokenChoice] = []

    def event(self, event: StreamEvent) -> bytes:
        """Take an event; return the JSON body once the answer is complete, nothing before.

        Of a choice that is not alone that is the choice itself. Raises the failure that ended the
        stream: a reply sent whole still has a status to tell it.
        """
        if isinstance(event, Started):
            self._envelope.answered_by(event.digest)
        elif isinstance(event, Delta):
            self._texts.append(event.text)
            self._tokens += event.logprobs
        elif isinstance(event, Failed):
            raise RoostError(event.failure)
        return self._ended(event) if isinstance(event, Finished) else b""

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put `facts` under `roost` in the body."""
        self._envelope.add_roost(facts)

    def _ended(self, finished: Finished) -> bytes:
        logprobs = b"null"
        if self._choice.options.logprobs:
            logprobs = CompletionLogprobs().encode(self._tokens)
        text = encode_text("".join(self._texts))
        choice = _choice(self._choice.index, text, logprobs, finished.reason)
        return self._envelope.body([choice], finished.usage) if self._choice.alone else choice


def completion_ends(choice: Choice) -> Ends:
    """Tell how a completion of several choices ends."""
    return Ends(choice, KIND)


def _choice(index: int, text: bytes, logprobs: bytes, reason: FinishReason) -> bytes:
    parts = (index, text, logprobs, reason.encode())
    return b'{"index":%d,"text":%b,"logprobs":%b,"finish_reason":"%b"}' % parts
