"""MACHINE: every stream of the node and what has been said about it.

The one place that sends Refused and Released, so the one place that counts them: each Open is
released exactly once, and nothing about a stream is sent after that.
"""

from __future__ import annotations

from collections.abc import Iterator

from roost.core.ids import ModelId
from roost.errors import Failure
from roost.node.effects import Effect, Pause, Send, StreamKey
from roost.node.outbox import Outflow
from roost.node.stream import Stream
from roost.wire.messages import FromNode, Open, Refused, Released


class Outgoing:
    """Effects in the order in which they were asked for; messages only to links that are up."""

    def __init__(self) -> None:
        self.links: set[int] = set()
        self._effects: list[Effect] = []

    def add(self, effect: Effect) -> None:
        """Ask for this."""
        self._effects.append(effect)

    def say(self, link: int, message: FromNode) -> None:
        """Send this, unless nobody is there to hear it."""
        if link in self.links:
            self._effects.append(Send(link, message))

    def take(self) -> list[Effect]:
        """Everything asked for since the last time."""
        effects, self._effects = self._effects, []
        return effects


class Desk:
    """Admits streams, speaks for them and lets them go."""

    def __init__(self, outgoing: Outgoing, events_max: int) -> None:
        self._outgoing = outgoing
        self._events_max = events_max
        self._streams: dict[StreamKey, Stream] = {}
        self.opened = 0
        self.refused = 0
        self.released = 0

    def __iter__(self) -> Iterator[Stream]:
        """All streams there are now; the table may change while they are gone through."""
        return iter(list(self._streams.values()))

    def __len__(self) -> int:
        """How many streams there are."""
        return len(self._streams)

    def get(self, key: StreamKey) -> Stream | None:
        """The stream of this name, or None once it is released."""
        return self._streams.get(key)

    def owned(self, key: str) -> list[Stream]:
        """Streams that run under this fencing key."""
        return [s for s in self if s.fence is not None and s.fence.key == key]

    def in_flight(self, model: ModelId | None = None) -> int:
        """Streams that hold or wait for a slot, of one model or of all."""
        return sum(s.is_in_flight and model in (None, s.model) for s in self._streams.values())

    def next_deadline(self) -> float | None:
        """The earliest deadline that still matters."""
        open_ends = [
            stream.deadline_at
            for stream in self._streams.values()
            if stream.deadline_at is not None and not stream.ended
        ]
        return min(open_ends, default=None)

    def admit(self, key: StreamKey, message: Open, now: float) -> Stream:
        """Take a request in."""
        assert key not in self._streams, "the link refuses a stream number used twice"
        self.opened += 1
        stream = Stream(key, message, self._events_max, now)
        self._streams[key] = stream
        return stream

    def turn_away(self, key: StreamKey, failure: Failure) -> None:
        """Refuse a request without taking it in."""
        assert key not in self._streams, "the link refuses a stream number used twice"
        self.opened += 1
        self.refused += 1
        self.released += 1
        self._outgoing.say(key.link, Refused(key.stream, failure))
        self._outgoing.say(key.link, Released(key.stream, "waiting"))

    def say_end(self, stream: Stream, failure: Failure) -> None:
        """Settle a stream's outcome, if it is not settled: refused or failed."""
        said = stream.end(failure)
        if isinstance(said, Refused):
            self.refused += 1
            self._outgoing.say(stream.key.link, said)
        else:
            self.flow(stream, said)

    def flow(self, stream: Stream, outflow: Outflow) -> None:
        """Send what an outbox lets out, and pause or resume the backend's stream."""
        for message in outflow.messages:
            self._outgoing.say(stream.key.link, message)
        if outflow.pause is not None and stream.is_working:
            self._outgoing.add(Pause(stream.key, outflow.pause))

    def settle(self, stream: Stream, now: float) -> None:
        """Let a stream go that holds nothing and has nothing left to say."""
        if stream.phase == "flushing" and stream.outbox.is_empty:
            stream.move("flushed")
        if stream.phase != "gone":
            return
        del self._streams[stream.key]
        self.released += 1
        self._outgoing.say(stream.key.link, stream.released(now))
        assert self.opened == self.released + len(self._streams)
