"""MACHINE: one ready runtime as the agent sees it: its slots, its streams, its sign of life."""

from __future__ import annotations

from collections import deque

from roost.backends.base import SlotUse
from roost.core.ids import ModelId, RuntimeId
from roost.node.effects import StreamKey
from roost.node.slots import Slots
from roost.node.stream import Stream


class Floor:
    """Seats prepared streams in order of their coming, and notices when nothing moves.

    `streams` are those that hold anything of this runtime, from `preparing` to the acknowledgement
    that they have left; the agent's limit on streams in flight bounds them.
    """

    def __init__(self, runtime: RuntimeId, model: ModelId, slots: int, now: float) -> None:
        self.runtime = runtime
        self.model = model
        self.slots = Slots(slots)
        self.streams: dict[StreamKey, Stream] = {}
        self.is_retiring = False
        self._queue: deque[Stream] = deque()
        self._moved_at = now

    def enqueue(self, stream: Stream) -> None:
        """This stream is prepared and needs a slot."""
        self._queue.append(stream)

    def next_seated(self, now: float) -> Stream | None:
        """Give a slot to the first in line; None when nobody waits or no slot is free."""
        if not self._queue:
            return None
        stream = self._queue[0]
        assert stream.prepared is not None
        use = self.slots.take(stream.prepared.tokens, stream.tenant)
        if use is None:
            return None
        self._queue.popleft()
        stream.seat(use)
        self._moved_at = now
        return stream

    def on_event(self, stream: Stream, now: float) -> None:
        """A stream produced something: the runtime lives, and the slot's content grew."""
        assert stream.use is not None, "only who holds a slot produces anything"
        self._moved_at = now
        self.slots.note(stream.use.slot, stream.held)

    def on_stop(self, stream: Stream) -> None:
        """A stream quits: out of the line, or its slot is not free before it has left."""
        if stream in self._queue:
            self._queue.remove(stream)
            del self.streams[stream.key]
        elif stream.use is not None and stream.phase == "running":
            self.slots.stop(stream.use.slot)

    def on_closed(self, stream: Stream, *, is_stuck: bool) -> None:
        """A stream has left. A stuck slot is never used again; its runtime is about to go."""
        del self.streams[stream.key]
        use: SlotUse | None = stream.use
        if use is not None and not is_stuck:
            kept = stream.kept
            self.slots.free(use.slot, kept, stream.held if kept else 0)

    def stalls_at(self, stall_s: float) -> float | None:
        """When this runtime counts as hung; None while it owes nobody anything.

        A paused stream may hold everybody up behind it: nothing is concluded then.
        """
        working = [stream for stream in self.streams.values() if stream.is_working]
        if not working or any(stream.outbox.paused for stream in working):
            return None
        return self._moved_at + stall_s
