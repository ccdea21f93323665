"""MACHINE: who is seated where on one runtime, and what has to be moved before.

A stream that has been prepared gets a slot in three steps, of which most need only the last:

    1. what the slot holds is put aside, unless the prompt goes on with it or it is not worth it;
    2. what the prompt goes on with is brought back from where it was put aside;
    3. the stream runs.

Until then the stream is `seating`, its slot `moving`, and others are seated beside it. Whatever
goes wrong with a file costs the cache and never the request: the stream runs all the same. A stream
that quits meanwhile leaves a slot that is free when the move has been answered.

What several streams begin with is computed once (`node.states.sharing`). Who computes it first
steps back as soon as its prompt is in the slot, says nothing, and runs again once the slot has been
copied; the others' slots are filled from the copy. Where slots cannot be copied, the others wait
for that very slot. What an idle slot holds, or a conversation that was put aside, is not computed
again either: the slot is copied first (`node.floor.writes`), the file is there already.
"""

from __future__ import annotations

from roost.backends.base import SavedState
from roost.core.ids import RuntimeId, SessionId
from roost.node.effects import Effect, Park, Run, StreamKey
from roost.node.floor.writes import Writes
from roost.node.slots import TOKEN_BYTES, Content, Slots, common_tokens, pack
from roost.node.states import sources
from roost.node.states.sessions import Sessions
from roost.node.states.sharing import Lead, Sharing
from roost.node.states.sources import Source
from roost.node.states.worth import Worth
from roost.node.stream import Stream


class _Move:
    """A slot on its way to a stream; `stream` is None once that has quit, `owner` who it was.

    `copies` says that the owner had it before and gets it back, once it has been copied. `hoped` is
    how much of its prompt it need not compute.
    """

    def __init__(self, owner: Stream, content: Content, source: Source | None = None) -> None:
        self.owner = owner
        self.stream: Stream | None = owner
        self.content = content
        self.source = source
        self.copies = False
        self.hoped = content.shared
        self.session: SessionId | None = None
        self.since_s = 0.0


class Seating:
    """The line for the slots of one runtime; `sessions` are those of the whole node."""

    def __init__(self, runtime: RuntimeId, slots: int, sessions: Sessions) -> None:
        self.slots = Slots(slots)
        self.worth = Worth()
        self.sharing = Sharing(sessions)
        self._writes = Writes()
        self._runtime = runtime
        self._sessions = sessions
        # Each with its prompt as slots compare it: packing takes milliseconds.
        self._queue: dict[StreamKey, tuple[Stream, bytes]] = {}
        self._moves: dict[int, _Move] = {}

    @property
    def is_packing(self) -> bool:
        """Whether the content of a slot that nobody has is being written."""
        return self._writes.outlast

    def __contains__(self, stream: Stream) -> bool:
        """Whether this stream waits here, in the line or for its slot's content to be moved."""
        return stream.key in self._queue or any(m.stream is stream for m in self._moves.values())

    def enqueue(self, stream: Stream) -> None:
        """This stream needs a slot."""
        assert stream.prepared is not None, "who needs a slot has been prepared"
        self._queue[stream.key] = stream, pack(stream.prepared.tokens)

    def quit(self, stream: Stream) -> None:
        """This stream needs no slot any more."""
        if self._queue.pop(stream.key, None) is not None:
            self.sharing.quit(stream)
            self._writes.quit(stream)
        for move in self._moves.values():
            if move.stream is stream:
                move.stream = None

    def step(self, now: float) -> list[Effect]:
        """Do something for the first who can be helped; nothing where nobody can be.

        Who is held, or waits for a slot to be written, keeps its place in the line.
        """
        self.sharing.expire(now)
        for stream, wanted in [one for one in self._queue.values() if not self._waits(one[0])]:
            content = self.slots.pick(wanted, stream.tenant)
            if content is None:
                return []
            move = self._plan(stream, wanted, content)
            if self._hold(move, wanted, now) or self._waits_for(move, wanted):
                continue
            effects = self._copy(move, wanted, now)
            if stream in self._writes:
                return effects
            del self._queue[stream.key]
            self._writes.quit(stream)
            return [*effects, *self._begin(move, wanted, now)]
        return []

    def next_tick(self) -> float | None:
        """When somebody has been held for long enough."""
        return self.sharing.next_tick()

    def on_computed(self, stream: Stream) -> bool:
        """A prompt is in its slot, and nothing was said yet: whether to stop for a copy of that."""
        lead = self.sharing.lead_of(stream)
        if lead.is_computed:
            return False
        readers, tokens = len(lead.followers), len(lead.wanted) // TOKEN_BYTES
        if lead.copies and (readers or lead.is_wanted):
            moved_bytes = (1 + 2 * max(1, readers)) * self._sessions.need_bytes(
                self._runtime, tokens
            )
            if self.worth.is_worth(lead.spared or tokens, moved_bytes):
                return True
        lead.is_computed = True
        if lead.copies:
            self.sharing.let_go(stream, alone=True)
        return False

    def on_yielded(self, stream: Stream, now: float) -> list[Effect]:
        """A stream has stepped back, and its slot is free: copy that, and let it run again."""
        assert stream.use is not None
        move = _Move(stream, self.slots.content(stream.use.slot))
        move.copies, move.hoped = True, move.content.known_tokens
        self.slots.reserve(move.content.slot)
        self._moves[move.content.slot] = move
        return self._write(move, self._sessions.seed(self._runtime, move.content, now), now)

    def pack(self, now: float) -> list[Effect]:
        """Put aside what idle slots hold: their runtime is about to go."""
        effects: list[Effect] = []
        for content in self.slots.idle() if self._sessions.can_park(self._runtime) else ():
            if content.known_tokens >= self._sessions.settings.tokens_min:
                effects += self.pack_one(content, now)
        return effects

    def pack_one(self, content: Content, now: float) -> list[Effect]:
        """Put aside what a free slot holds, if there is room for it."""
        effects = self._sessions.park(self._runtime, content, now)
        for effect in effects:
            if isinstance(effect, Park):
                self.slots.reserve(content.slot)
                self._writes.begin(effect.session, content, now, "pack")
        return effects

    def packed(self, slot: int) -> SessionId | None:
        """What the content of this slot is being put aside as."""
        return self._writes.packed(slot)

    def on_closed(self, stream: Stream) -> None:
        """A stream has left its slot for good."""
        self.sharing.on_closed(stream)

    def on_parked(self, session: SessionId, saved: SavedState | None, now: float) -> list[Effect]:
        """A slot's content was written, or could not be."""
        if session in self._sessions.seeds:
            effects = self._sessions.on_seeded(session, saved)
        else:
            effects = self._sessions.on_parked(session, saved, now)
        write = self._writes.end(session)
        if write is None:
            return effects
        self._learn(saved, write.since_s, now)
        slot = write.content.slot
        if write.purpose == "pack":
            # One place: what is in a file is not in its slot as well, and what cannot be written is
            # not tried again.
            self.slots.clear(slot)
        if write.purpose != "move":
            self.slots.release(slot)
            return effects
        move = self._moves.get(slot)
        if move is None or move.session != session:
            return effects
        if move.stream is None and not move.copies:
            # Nobody takes the slot, so what is in it stays there, and only there.
            effects += self._sessions.discard(session)
        return [*effects, *self._restore(move, now, alone=saved is None)]

    def on_restored(self, slot: int, session: SessionId, *, ok: bool, now: float) -> list[Effect]:
        """A slot was filled, or holds nothing now."""
        move = self._moves.get(slot)
        if move is None or move.session != session or move.source is None:
            return []
        file = move.source.file
        effects = move.source.on_read(ok=ok)
        self._learn(file.saved if ok else None, move.since_s, now)
        if ok and (move.stream is not None or not file.is_unwanted):
            self.slots.fill(slot, file.content)
        else:
            self.slots.clear(slot)
            move.hoped = 0
        return [*effects, *self._finish(move)]

    def _plan(self, stream: Stream, wanted: bytes, content: Content) -> _Move:
        """The slot for a stream, and what it is to be filled from before."""
        if self._sessions.can_park(self._runtime):
            found = self._better(stream, wanted, content)
            if found is not None:
                source, shared = found
                move = _Move(stream, self.slots.coldest() or content, source)
                move.hoped = shared
                return move
        return _Move(stream, content)

    def _hold(self, move: _Move, wanted: bytes, now: float) -> bool:
        """Whether a stream waits for another one that computes what it would have to compute."""
        found = self.sharing.find(move.owner, wanted)
        if found is None:
            return False
        lead, shared = found
        spared, settings = shared - move.hoped, self._sessions.settings
        if spared < settings.shared_tokens_min:
            return False
        patience_s = settings.shared_wait_s
        alone_s = self.worth.compute_s(spared)
        if not lead.copies and alone_s is not None:
            # Until the slot is free answers are waited for as well. So no longer than all would
            # take beside each other, which is as long as all of them one after another.
            patience_s = alone_s * (len(lead.followers) + 2)
        return self.sharing.hold(move.owner, lead, spared, patience_s, now)

    def _waits(self, stream: Stream) -> bool:
        return stream in self.sharing or stream in self._writes

    def _waits_for(self, move: _Move, wanted: bytes) -> bool:
        """Whether a stream waits for a slot to be written that holds what it would compute."""
        if not self._writes.may_wait(move.owner):
            return False
        least = move.hoped + self._sessions.settings.shared_tokens_min
        session = self._writes.of(move.owner, wanted, least, copies=self.sharing.copies)
        if session is not None:
            self._writes.wait(move.owner, session)
        return session is not None

    def _copy(self, move: _Move, wanted: bytes, now: float) -> list[Effect]:
        """Have a stream wait for a copy of an idle slot, if that holds what it would compute."""
        stream = move.owner
        least = self._sessions.settings.shared_tokens_min
        if not self.sharing.copies or not self._writes.may_wait(stream):
            return []
        # Of a warm prompt there is not so much left to be spared, and most are warm.
        if len(wanted) // TOKEN_BYTES - move.hoped < least:
            return []
        known = self._best_idle(move, wanted)
        if known is None:
            return []
        effects = self._sessions.seed(self._runtime, known, now)
        for effect in effects:
            if isinstance(effect, Park):
                self.slots.reserve(known.slot)
                self._writes.begin(effect.session, known, now, "copy")
                self._writes.wait(stream, effect.session)
        return effects

    def _best_idle(self, move: _Move, wanted: bytes) -> Content | None:
        """The idle slot that spares a stream most and is worth a copy, of equal ones the smallest.

        What there is a seed of already is not written again, whatever that is worth.
        """
        tenant, sessions = move.owner.tenant, self._sessions
        alike = sessions.seeds.alike(self._runtime, tenant, wanted)
        sown = {seed.content.known for seed, _ in alike}
        best: Content | None = None
        best_rank = (0, 0)
        for one in self.slots.idle():
            shared = common_tokens(one.known, wanted)
            spared = shared - move.hoped
            moved_bytes = 3 * sessions.need_bytes(self._runtime, one.held)
            if (
                one.tenant == tenant
                and one.known not in sown
                and (spared, -one.held) > best_rank
                and spared >= sessions.settings.shared_tokens_min
                and sessions.can_seed(self._runtime, one.held)
                and self.worth.is_worth(spared, moved_bytes)
            ):
                best, best_rank = one, (spared, -one.held)
        return best

    def _learn(self, moved: SavedState | None, since_s: float, now: float) -> None:
        self._sessions.moving_s += now - since_s
        if moved is not None:
            self.worth.on_move(moved.size_bytes, now - since_s)

    def _begin(self, move: _Move, wanted: bytes, now: float) -> list[Effect]:
        if move.source is not None:
            move.source.take(now)
        missed = self.sharing.missed(move.owner, wanted) - move.hoped
        copies = self._sessions.can_seed(self._runtime, len(wanted) // TOKEN_BYTES)
        is_wanted = missed >= self._sessions.settings.shared_tokens_min
        self.sharing.lead(Lead(move.owner, wanted, copies, is_wanted))
        self.slots.reserve(move.content.slot)
        self._moves[move.content.slot] = move
        if not self._should_park(move):
            return self._restore(move, now)
        return self._write(move, self._sessions.park(self._runtime, move.content, now), now)

    def _write(self, move: _Move, effects: list[Effect], now: float) -> list[Effect]:
        """Let a slot be written, if that is among these effects; else go on without."""
        for effect in effects:
            if isinstance(effect, Park):
                move.session = effect.session
                self._writes.begin(effect.session, move.content, now)
                return effects
        return [*effects, *self._restore(move, now, alone=True)]

    def _restore(self, move: _Move, now: float, *, alone: bool = False) -> list[Effect]:
        """What was to be written is, or `alone` says that it is not: now bring back, or run."""
        move.session = None
        if move.copies:
            self.sharing.let_go(move.owner, alone=alone)
        source = move.source
        if source is None:
            return self._finish(move)
        if move.stream is None:
            return [*source.put_back(), *self._finish(move)]
        move.session, move.since_s = source.file.session, now
        return source.read(move.content.slot)

    def _finish(self, move: _Move) -> list[Effect]:
        slot, stream = move.content.slot, move.stream
        del self._moves[slot]
        if stream is None:
            self.slots.release(slot)
            self.sharing.on_closed(move.owner)
            return []
        assert stream.prepared is not None
        lead = self.sharing.lead_of(stream)
        use = self.slots.seat(slot, lead.wanted, stream.tenant)
        stream.seat(use)
        if move.copies:
            lead.is_computed = True
        self.sharing.runs(stream, move.hoped if use.reuse else 0)
        return [Run(stream.key, stream.request_id, self._runtime, stream.prepared, use)]

    def _better(self, stream: Stream, wanted: bytes, content: Content) -> tuple[Source, int] | None:
        """What spares enough more than the slot does, and is quicker than computing."""
        settings = self._sessions.settings
        most = len(wanted) // TOKEN_BYTES - content.shared
        if most < min(settings.tokens_min, settings.shared_tokens_min):
            return None
        for source, shared in sources.found(
            self._sessions, self._runtime, stream.tenant, wanted, copies=self.sharing.copies
        ):
            spared = shared - content.shared
            # What it displaces is written first, and is about as large.
            moved_bytes = 2 * source.file.saved.size_bytes
            if spared >= source.least and self.worth.is_worth(spared, moved_bytes):
                return source, shared
        return None

    def _should_park(self, move: _Move) -> bool:
        """Whether somebody may want what is about to be lost, and it is enough to be worth it."""
        content, least = move.content, self._sessions.settings.tokens_min
        if not self._sessions.can_park(self._runtime) or content.tenant is None:
            return False
        shared = content.shared if move.source is None else 0
        if shared == content.known_tokens:
            return False
        return content.known_tokens >= least and content.held - shared >= least
