"""MACHINE: one stream's way out: events in, messages out as far as credit goes.

While there is credit every event leaves at once, alone. Without credit events wait and shrink:
neighbouring deltas become one, of several prefill reports in a row only the newest is kept. So a
slow reader gets fewer, larger messages with the same text; nothing is dropped or reordered. What
may wait is bounded: over `events_max` the backend's stream is paused, at half of that it goes on.
"""

from __future__ import annotations

from collections import deque

import msgspec

from roost.core.events import Delta, PrefillProgress, StreamEvent, merge_deltas
from roost.core.ids import StreamId
from roost.wire.messages import Events


class Outflow(msgspec.Struct, frozen=True):
    """What to do now: messages to send, in order, and whether reading pauses or goes on.

    `pause` is True or False when that changed, None otherwise.
    """

    messages: tuple[Events, ...] = ()
    pause: bool | None = None


class Outbox:
    """Holds what a stream could not send yet."""

    def __init__(self, stream: StreamId, credit: int, events_max: int) -> None:
        assert events_max > 0
        self._stream = stream
        self._credit = credit
        self._events_max = events_max
        self._waiting: deque[StreamEvent] = deque()
        # Weight of `_waiting`: events put in, not events left after merging, so that a merged
        # delta counts with everything that is inside it.
        self._weight = 0
        self._next_seq = 0
        self.paused = False

    @property
    def is_empty(self) -> bool:
        """Whether everything put in has been sent."""
        return not self._waiting

    @property
    def sent(self) -> int:
        """Events sent so far, merged ones counted once."""
        return self._next_seq

    def on_event(self, event: StreamEvent) -> Outflow:
        """The backend produced this."""
        if self._credit > 0 and not self._waiting:
            self._credit -= 1
            return Outflow((self._message((event,)),))
        self._hold(event)
        return Outflow((), self._pause_change())

    def on_credit(self, messages: int) -> Outflow:
        """The gateway has room for this many more messages."""
        assert messages > 0
        self._credit += messages
        if not self._waiting:
            return Outflow()
        self._credit -= 1
        held = tuple(self._waiting)
        self._waiting.clear()
        self._weight = 0
        return Outflow((self._message(held),), self._pause_change())

    def drop(self) -> None:
        """Nobody wants what waits any more: the stream was cancelled or its link is gone."""
        self._waiting.clear()
        self._weight = 0
        self.paused = False

    def _message(self, events: tuple[StreamEvent, ...]) -> Events:
        message = Events(self._stream, self._next_seq, events)
        self._next_seq += len(events)
        return message

    def _hold(self, event: StreamEvent) -> None:
        last = self._waiting[-1] if self._waiting else None
        match last, event:
            case Delta(), Delta():
                self._waiting[-1] = merge_deltas(last, event)
                self._weight += 1
            case PrefillProgress(), PrefillProgress():
                self._waiting[-1] = event
            case _:
                self._waiting.append(event)
                self._weight += 1

    def _pause_change(self) -> bool | None:
        if not self.paused and self._weight >= self._events_max:
            self.paused = True
            return True
        if self.paused and self._weight <= self._events_max // 2:
            self.paused = False
            return False
        return None
