"""MACHINE: the events of one stream are collected into a reply that is sent whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from roost.core.events import Delta, Failed, Finished, FinishReason, StreamEvent, TokenChoice
from roost.dialects.openai_envelope import Envelope, Fact
from roost.errors import RoostError, fail

Choices: TypeAlias = Callable[[str, Sequence[TokenChoice], FinishReason], bytes]
"""Encodes the list of choices of one API from the text, its tokens and the reason of its end."""


class ReplyBody:
    """Collects one reply; `chat_body` and `completion_body` make it for their APIs."""

    def __init__(self, envelope: Envelope, choices: Choices) -> None:
        self._envelope = envelope
        self._encode_choices = choices
        self._texts: list[str] = []
        self._tokens: list[TokenChoice] = []

    def event(self, event: StreamEvent) -> bytes:
        """Take an event; return the JSON body once the answer is complete, nothing before.

        Raises the failure that ended the stream: a reply sent whole still has a status to tell it.
        """
        if isinstance(event, Delta):
            self._texts.append(event.text)
            self._tokens += event.logprobs
        elif isinstance(event, Failed):
            raise RoostError(event.failure)
        return self._body(event) if isinstance(event, Finished) else b""

    def roost_extra(self, facts: Mapping[str, Fact]) -> None:
        """Put `facts` under `roost` in the body."""
        self._envelope.add_roost(facts)

    def _body(self, finished: Finished) -> bytes:
        choices = self._encode_choices("".join(self._texts), self._tokens, finished.reason)
        return self._envelope.body(choices, finished.usage)


def collect(body: ReplyBody, events: Iterable[StreamEvent]) -> bytes:
    """Give the JSON body for a whole stream.

    Raises its failure, or `upstream_error` where it has no end.
    """
    for event in events:
        if found := body.event(event):
            return found
    raise fail("upstream_error", "The answer ended without a terminal event.")
