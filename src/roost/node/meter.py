"""MACHINE: what only the prompt's maker knows of an answer: how it is read, what its thoughts cost.

Only here every token is still beside its text; further on neighbours may have become one.
"""

from __future__ import annotations

import msgspec

from roost.backends.base import Prepared
from roost.core.events import TERMINAL, Delta, Started, StreamEvent
from roost.core.reading import Reading
from roost.core.request import ChatPrompt, GenerateRequest
from roost.text.answers import AnswerReader


class Meter:
    """Follows one stream from `Started` on, and adds what only the prompt's maker knows."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self._reader = AnswerReader(reading)
        self._tokens = 0

    def on_event(self, event: StreamEvent) -> StreamEvent:
        """Return the event with what is known about the reading of its answer."""
        if isinstance(event, Delta):
            self._on_text(event)
        elif isinstance(event, Started):
            return msgspec.structs.replace(event, reading=self._reading)
        elif isinstance(event, TERMINAL) and self._tokens:
            usage = msgspec.structs.replace(event.usage, reasoning_tokens=self._tokens)
            return msgspec.structs.replace(event, usage=usage)
        return event

    def _on_text(self, delta: Delta) -> None:
        """Count a delta to the thoughts it begins, goes on with or ends."""
        if self._reading.think is None:
            return
        thought = self._reader.thinks
        self._reader.push(delta.text)
        if thought or self._reader.thinks:
            self._tokens += delta.tokens


def left_out(asked: GenerateRequest, made: Prepared) -> int:
    """Count the messages that a prepared request lacks."""
    before, after = asked.prompt, made.request.prompt
    if not isinstance(before, ChatPrompt) or not isinstance(after, ChatPrompt):
        return 0
    return len(before.messages) - len(after.messages)
