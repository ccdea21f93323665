"""MACHINE: who is seated where on one runtime, and what has to be moved before.

A stream that has been prepared gets a slot in three steps, of which most need only the last:

    1. what the slot holds is put aside, unless the prompt goes on with it or it is not worth it;
    2. what the prompt goes on with is brought back from where it was put aside;
    3. the stream runs.

Until then the stream is `seating`, its slot `moving`, and others are seated beside it. Whatever
goes wrong with a file costs the cache and never the request: the stream runs all the same. A stream
that quits meanwhile leaves a slot that is free when the move has been answered.
"""

from __future__ import annotations

from collections import deque

from roost.backends.base import SavedState
from roost.core.ids import RuntimeId, SessionId
from roost.node.effects import Effect, Park, Run
from roost.node.sessions import Parked, Sessions
from roost.node.slots import Content, Slots, pack
from roost.node.stream import Stream
from roost.node.worth import Worth


class _Move:
    """A slot on its way to a stream; `stream` is None once that has quit."""

    def __init__(self, stream: Stream, content: Content, restore: Parked | None) -> None:
        self.stream: Stream | None = stream
        self.content = content
        self.restore = restore
        self.session: SessionId | None = None
        self.since_s = 0.0


class Seating:
    """The line for the slots of one runtime; `sessions` are those of the whole node."""

    def __init__(self, runtime: RuntimeId, slots: int, sessions: Sessions) -> None:
        self.slots = Slots(slots)
        self.worth = Worth()
        self._runtime = runtime
        self._sessions = sessions
        self._queue: deque[Stream] = deque()
        self._moves: dict[int, _Move] = {}

    def __contains__(self, stream: Stream) -> bool:
        """Whether this stream waits here, in the line or for its slot's content to be moved."""
        return stream in self._queue or any(m.stream is stream for m in self._moves.values())

    def enqueue(self, stream: Stream) -> None:
        """This stream needs a slot."""
        self._queue.append(stream)

    def quit(self, stream: Stream) -> None:
        """This stream needs no slot any more."""
        if stream in self._queue:
            self._queue.remove(stream)
        for move in self._moves.values():
            if move.stream is stream:
                move.stream = None

    def step(self, now: float) -> list[Effect]:
        """Do something for the first in line; nothing when nobody waits or no slot is free."""
        if not self._queue:
            return []
        stream = self._queue[0]
        assert stream.prepared is not None
        wanted = pack(stream.prepared.tokens)
        content = self.slots.pick(wanted, stream.tenant)
        if content is None:
            return []
        self._queue.popleft()
        restore = None
        if self._sessions.can_park(self._runtime):
            restore = self._better(stream, wanted, content)
            if restore is not None:
                content = self.slots.coldest() or content
        return self._begin(_Move(stream, content, restore), now)

    def on_parked(self, session: SessionId, saved: SavedState | None, now: float) -> list[Effect]:
        """A slot's content was written, or could not be."""
        effects = self._sessions.on_parked(session, saved, now)
        move = self._of(session)
        if move is None:
            return effects
        self._sessions.moving_s += now - move.since_s
        if saved is not None:
            self.worth.on_move(saved.size_bytes, now - move.since_s)
        if move.stream is None:
            # Nobody takes the slot, so what is in it stays there, and only there.
            effects += self._sessions.discard(session)
        return [*effects, *self._restore(move, now)]

    def on_restored(self, session: SessionId, *, ok: bool, now: float) -> list[Effect]:
        """A slot was filled, or holds nothing now."""
        effects = self._sessions.on_restored(session, ok=ok)
        move = self._of(session)
        if move is None or move.restore is None:
            return effects
        slot = move.content.slot
        self._sessions.moving_s += now - move.since_s
        if ok:
            self.worth.on_move(move.restore.saved.size_bytes, now - move.since_s)
        if ok and (move.stream is not None or not move.restore.is_unwanted):
            self.slots.fill(slot, move.restore.content)
        else:
            self.slots.clear(slot)
        return [*effects, *self._finish(move)]

    def _begin(self, move: _Move, now: float) -> list[Effect]:
        if move.restore is not None:
            self._sessions.take(move.restore)
        self.slots.reserve(move.content.slot)
        self._moves[move.content.slot] = move
        if not self._should_park(move):
            return self._restore(move, now)
        effects = self._sessions.park(self._runtime, move.content, now)
        for effect in effects:
            if isinstance(effect, Park):
                move.session, move.since_s = effect.session, now
                return effects
        return [*effects, *self._restore(move, now)]

    def _restore(self, move: _Move, now: float) -> list[Effect]:
        """What was to be put aside is: now bring back, or run."""
        move.session = None
        if move.restore is None:
            return self._finish(move)
        if move.stream is None:
            effects = self._sessions.put_back(move.restore)
            return [*effects, *self._finish(move)]
        move.session, move.since_s = move.restore.session, now
        return self._sessions.restore(move.restore, move.content.slot)

    def _finish(self, move: _Move) -> list[Effect]:
        slot, stream = move.content.slot, move.stream
        del self._moves[slot]
        if stream is None:
            self.slots.release(slot)
            return []
        assert stream.prepared is not None
        use = self.slots.seat(slot, pack(stream.prepared.tokens), stream.tenant)
        stream.seat(use)
        return [Run(stream.key, stream.request_id, self._runtime, stream.prepared, use)]

    def _better(self, stream: Stream, wanted: bytes, content: Content) -> Parked | None:
        """A session that spares enough more than the slot does, and is quicker than computing."""
        found = self._sessions.find(self._runtime, stream.tenant, wanted)
        if found is None:
            return None
        session, shared = found
        spared = shared - content.shared
        # What it displaces is written first, and is about as large.
        moved_bytes = 2 * session.saved.size_bytes
        least = self._sessions.settings.tokens_min
        good = spared >= least and self.worth.is_worth(spared, moved_bytes)
        return session if good else None

    def _should_park(self, move: _Move) -> bool:
        """Whether somebody may want what is about to be lost, and it is enough to be worth it."""
        content, least = move.content, self._sessions.settings.tokens_min
        if not self._sessions.can_park(self._runtime) or content.tenant is None:
            return False
        shared = content.shared if move.restore is None else 0
        if shared == content.known_tokens:
            return False
        return content.known_tokens >= least and content.held - shared >= least

    def _of(self, session: SessionId) -> _Move | None:
        return next((move for move in self._moves.values() if move.session == session), None)
