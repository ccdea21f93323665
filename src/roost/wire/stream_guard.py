"""MACHINE: what a node may still say about one stream, as the gateway end of a link sees it.

    opened ──Phase──▶ opened
       │ ╲──Refused──▶ refused ──Released──▶ (gone)
       │  events: Started? PrefillProgress* (Delta* | Vectors*) terminal
       ▼
    started ──▶ decoding or embedding ──▶ ended ──Released──▶ (gone)

After a Cancel, Released may come in any stage. Everything else is a broken node, not bad luck: one
connection keeps order, so no race can make an event arrive after Released.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from roost.core.events import (
    Delta,
    Failed,
    Finished,
    PrefillProgress,
    Started,
    StreamEvent,
    Vectors,
)
from roost.wire.messages import Events, Phase, Refused, Released

Stage = Literal["opened", "started", "decoding", "embedding", "ended", "refused"]
AboutStream: TypeAlias = Phase | Events | Refused | Released

STAGES: dict[tuple[Stage, type], Stage] = {
    ("opened", Phase): "opened",
    ("opened", Refused): "refused",
    ("opened", Started): "started",
    ("opened", PrefillProgress): "started",
    ("opened", Delta): "decoding",
    ("opened", Finished): "ended",
    ("opened", Failed): "ended",
    ("started", PrefillProgress): "started",
    ("started", Delta): "decoding",
    ("started", Finished): "ended",
    ("started", Failed): "ended",
    ("decoding", Delta): "decoding",
    ("decoding", Finished): "ended",
    ("decoding", Failed): "ended",
    ("opened", Vectors): "embedding",
    ("started", Vectors): "embedding",
    ("embedding", Vectors): "embedding",
    ("embedding", Finished): "ended",
    ("embedding", Failed): "ended",
}
"""What may follow in each stage; a missing pair is illegal. Released has its own rule."""


class StreamGuard:
    """Follows one stream from Open to Released and counts its credit."""

    def __init__(self, credit: int) -> None:
        self.stage: Stage = "opened"
        self.cancelled = False
        self._credit = credit
        self._next_seq = 0

    def on_credit(self, messages: int) -> None:
        """The gateway granted room for `messages` more Events."""
        self._credit += messages

    def on_message(self, message: AboutStream) -> str | None:
        """Take a message about this stream; a complaint means it is illegal and changed nothing."""
        if isinstance(message, Events):
            return self._on_events(message)
        if isinstance(message, Released):
            finished = self.cancelled or self.stage in ("ended", "refused")
            return None if finished else "released a stream without ending it"
        stage = STAGES.get((self.stage, type(message)))
        if stage is None:
            return f"sent {type(message).__name__} for a stream that is {self.stage}"
        self.stage = stage
        return None

    def _on_events(self, message: Events) -> str | None:
        if not message.events:
            return "sent an Events message without events"
        if self._credit < 1:
            return "sent Events without credit"
        if message.seq != self._next_seq:
            return f"sent events from {message.seq} where {self._next_seq} comes next"
        stage = self._stage_after(message.events)
        if stage is None:
            return f"sent events that cannot follow on a stream that is {self.stage}"
        self.stage = stage
        self._credit -= 1
        self._next_seq += len(message.events)
        return None

    def _stage_after(self, events: tuple[StreamEvent, ...]) -> Stage | None:
        stage: Stage | None = self.stage
        for event in events:
            stage = STAGES.get((stage, type(event))) if stage else None
        return stage
