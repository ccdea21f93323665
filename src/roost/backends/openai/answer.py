"""MACHINE: what a server of the OpenAI dialect streams becomes the events of the contract.

Such a server tells no ids, and counts only at its end. Until then each piece of text counts as one
token, which is what nearly all servers send; what the server's own count has beyond that comes with
the last piece.
"""

from __future__ import annotations

import msgspec

from roost.backends.deltas import Deltas
from roost.core.events import Delta, Failed, Finished, FinishReason, Started, StreamEvent, Usage
from roost.core.request import GenerateRequest
from roost.errors import Failure

DONE = b"[DONE]"


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    index: int = 0
    delta: _Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class _Counts(msgspec.Struct):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Chunk(msgspec.Struct):
    choices: tuple[_Choice, ...] = ()
    usage: _Counts | None = None
    error: object = None


_decoder = msgspec.json.Decoder(_Chunk)


class Answer:
    """One answer. `over` after its terminal event; `done` once the server has ended it itself."""

    def __init__(self, slot: int, limit: int, request: GenerateRequest) -> None:
        self.over = False
        self.done = False
        self._slot = slot
        self._limit = limit
        self._started = False
        self._reason: FinishReason | None = None
        self._counts = _Counts()
        self._deltas = Deltas(request.stop)

    def on_data(self, data: bytes) -> list[StreamEvent]:
        """Take the data of one server-sent event."""
        if data == DONE:
            self.done = True
            return self._on_done()
        try:
            chunk = _decoder.decode(data)
        except msgspec.DecodeError:
            return self.on_failure(_failure("it broke the protocol"))
        if chunk.error is not None:
            return self.on_failure(_failure("the server reported an error"))
        if chunk.usage is not None:
            self._counts = chunk.usage
        events = self._begun()
        for choice in chunk.choices:
            events += self._on_choice(choice)
        return events

    def on_end(self) -> list[StreamEvent]:
        """The connection has ended: well, if the server had said that the answer has."""
        return self._on_done() if self._reason else self.on_failure(_failure("it was cut off"))

    def on_failure(self, failure: Failure) -> list[StreamEvent]:
        """End the answer with a failure, unless it has ended already."""
        if self.over:
            return []
        self.over = True
        rest = self._deltas.finish()
        return [*([rest] if rest else []), Failed(failure, self._usage(self._deltas.tokens))]

    def _on_choice(self, choice: _Choice) -> list[StreamEvent]:
        if self.over or choice.index:
            return []
        text = choice.text or (choice.delta.content if choice.delta else None) or ""
        if choice.finish_reason is not None:
            self._reason = "length" if choice.finish_reason == "length" else "stop"
        if not text:
            return []
        delta = self._deltas.push(text, int(self._deltas.tokens < self._limit))
        events: list[StreamEvent] = [delta] if delta else []
        if self._deltas.stop_text is not None:
            events += self._finished("stop", 0)
        return events

    def _on_done(self) -> list[StreamEvent]:
        if self.over:
            return []
        told = min(self._counts.completion_tokens, self._limit)
        return [*self._begun(), *self._finished(self._reason or "stop", told - self._deltas.tokens)]

    def _begun(self) -> list[StreamEvent]:
        if self._started:
            return []
        self._started = True
        return [Started(0, 0, self._slot)]

    def _finished(self, reason: FinishReason, uncounted: int) -> list[StreamEvent]:
        self.over = True
        events: list[StreamEvent] = []
        if rest := self._deltas.finish():
            events.append(rest)
        if uncounted > 0:
            events.append(Delta("", uncounted))
        usage = self._usage(self._deltas.tokens + max(0, uncounted))
        return [*events, Finished(reason, usage, self._deltas.stop_text)]

    def _usage(self, said: int) -> Usage:
        return Usage(self._counts.prompt_tokens, 0, said)


def _failure(what: str) -> Failure:
    return Failure("runtime_error", f"The server could not complete the answer: {what}.")
