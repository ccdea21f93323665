"""MACHINE: what a node would be to the gateway, made of a worker that speaks system 1.

    Open ──▶ prefill (continue, or create with the whole past as text) ──▶ decode ──▶ Finished
              │ 404: the session is gone ──▶ create anew, or `session_gone` where it is required
              │ no room, too long ──▶ Refused
              ╰ lost, hung, nonsense ──▶ Failed, and the session is removed

A session is kept where what it holds is known to the last token: after a complete answer. After a
cancel nobody knows how much more the worker has said than was read, so that session is removed,
which also is the word that the worker is free. A worker that cannot be reached while nothing else
of it is heard is gone as a whole: then its link ends, and the coordinator does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from roost.core.events import Failed, Finished, Started, Usage
from roost.core.ids import StreamId
from roost.core.snapshots import NodeStatus
from roost.core.worker import WorkerBeat
from roost.dialects.system1.worker import Mode
from roost.dialects.system1.worker_calls import Denied, Over, Prefilled, Said, Token, new_prompt
from roost.errors import Failure
from roost.fleet.choice.affinity import chain, extend
from roost.gateway.foreign.effects import (
    Began,
    Decode,
    Delete,
    Ended,
    ForeignEffect,
    HangUp,
    Heard,
    Lose,
    Lost,
    Note,
    Pieces,
    Prefill,
    Say,
)
from roost.gateway.foreign.report import Load, OfferSettings, report
from roost.gateway.foreign.sessions import ForeignSession, ForeignSessions
from roost.gateway.foreign.stream import ForeignStream, turns_of
from roost.wire.messages import Open, Phase, Refused, Released, Status

GONE = Failure("session_gone", "The worker does not have this conversation any more.")
LOST = Failure("node_lost", "The connection to the worker was lost.")
VANISHED = Failure("runtime_error", "The worker lost the session before it could answer.")
HUNG = Failure("runtime_error", "The worker took too long.")
FULL = Failure("node_busy", "The worker has no place for this now.", retry_after_s=1)
OTHER = Failure("unsupported", "A worker of system 1 takes turns of a chat, and nothing else.")
HOLE = Failure("upstream_error", "Part of the worker's answer is missing.")


class ForeignSettings(msgspec.Struct, frozen=True):
    """Limits of what is asked of one worker.

    A prefill may take `prefill_s`, silence in an answer `idle_s`, everything else `call_s`. At most
    `sessions_max` sessions are kept for their next turn, for `session_idle_s`; `held_max` pieces of
    text are held for a gateway that grants no credit.
    """

    offer: OfferSettings = OfferSettings()
    prefill_s: float = 60.0
    idle_s: float = 60.0
    call_s: float = 5.0
    sessions_max: int = 100
    session_idle_s: float = 300.0
    held_max: int = 64


class Translator:
    """One worker: its sessions, its streams, and what it reports as a node."""

    def __init__(self, settings: ForeignSettings, instance: str, ids: Callable[[], str]) -> None:
        self._settings = settings
        self._instance = instance
        self._ids = ids
        self._streams: dict[StreamId, ForeignStream] = {}
        self._sessions = ForeignSessions(settings.sessions_max, settings.session_idle_s)
        self._reports = 0
        self._beat: WorkerBeat | None = None
        self._rests = self._vacant = False
        self._status: NodeStatus | None = None

    # From heartbeats.

    def on_beat(self, beat: WorkerBeat, *, rests: bool = False) -> list[ForeignEffect]:
        """The worker says how it is; with `rests` it is to get no new work."""
        self._beat, self._rests = beat, rests
        return self._look()

    def on_vacate(self, *, vacant: bool) -> list[ForeignEffect]:
        """Nobody comes back to what the worker holds; or, not `vacant`, they do."""
        self._vacant = vacant
        return self._look()

    @property
    def _keeps(self) -> bool:
        """Whether sessions wait for their next turn: not on a worker that is being left."""
        return not self._vacant and (self._beat is None or not self._beat.health.draining)

    def _look(self) -> list[ForeignEffect]:
        """Report, and remove what nobody comes back to: then the worker may be stopped."""
        assert self._beat is not None, "a heartbeat comes before everything else"
        gone = [] if self._keeps else self._sessions.clear()
        load = Load(len(self._streams), len(self._sessions), self._rests, self._vacant)
        self._status = report(self._beat, self._settings.offer, self._instance, load)
        self._reports += 1
        return [*map(Delete, gone), Say(Status(self._reports, self._status))]

    # From the gateway.

    def on_open(self, opened: Open, now: float) -> list[ForeignEffect]:
        """Start a request."""
        messages = turns_of(opened)
        if not messages:
            return _refused(opened, OTHER)
        slot = self._free_slot()
        if slot is None:
            return _refused(opened, FULL)
        hashes = chain(opened.tenant, opened.request.model, messages)
        past = hashes[-2] if len(hashes) > 1 and messages[-1].role == "user" else b""
        session = self._sessions.take(past)
        if session is None and past and opened.require:
            return _refused(opened, GONE)
        mode: Mode = "create" if session is None else "continue"
        stream = ForeignStream(
            *(opened, messages, hashes[-1], session or ForeignSession(self._ids()), slot),
            *(mode, opened.credit),
        )
        self._streams[stream.id] = stream
        return [Say(Phase(stream.id, "preparing")), self._prefill(stream, now)]

    def on_credit(self, number: StreamId, messages: int, now: float) -> list[ForeignEffect]:
        """The gateway takes more."""
        stream = self._streams.get(number)
        if stream is None:
            return []
        stream.credit += messages
        return self._flush(stream, now)

    def on_cancel(self, number: StreamId, now: float) -> list[ForeignEffect]:
        """Nobody wants the rest."""
        stream = self._streams.get(number)
        if stream is None or stream.cancelled_s is not None:
            return []
        stream.cancelled_s = now
        stream.pending.clear()
        if stream.phase not in {"prefill", "decode"}:
            return self._flush(stream, now)
        stream.stage = "decode" if stream.phase == "decode" else "prefill"
        return self._leave(stream, now)

    # From the worker.

    def on_heard(self, number: StreamId, heard: Heard, now: float) -> list[ForeignEffect]:
        """Something has come of a stream's call; nothing for a stream that waits for none."""
        stream = self._streams.get(number)
        if stream is None or stream.phase not in {"prefill", "decode", "ending"}:
            return []
        match heard:
            case Prefilled():
                return self._prefilled(stream, heard, now)
            case Began():
                return self._begin(stream, now)
            case Pieces(said):
                return self._speak(stream, said, now)
        stream.calling = False
        if stream.phase == "ending":
            # It is complete: how its connection ends is all the same.
            return self._settle(stream, now)
        match heard:
            case Denied():
                return self._denied(stream, heard, now)
            case Ended():
                # Workers of system 1 say no last word: what is framed to its end is complete.
                full = stream.tokens >= self._max_tokens(stream)
                self._complete(stream, Over("length" if full else "stop"), now)
                return self._settle(stream, now)
            case Lost():
                return self._lose(stream, now)

    def _prefilled(self, stream: ForeignStream, done: Prefilled, now: float) -> list[ForeignEffect]:
        stream.prefilled = done
        if stream.mute:
            stream.calling = False
            begun = self._begin(stream, now)
            self._complete(stream, Over("length", 0), now)
            return [*begun, *self._settle(stream, now)]
        stream.phase, stream.due_s = "decode", now + self._settings.idle_s
        request, most = stream.opened.request, self._max_tokens(stream)
        name, wishes = stream.session.name, (request.sampling, request.stop)
        return [Decode(stream.id, name, most, *wishes)]

    def _begin(self, stream: ForeignStream, now: float) -> list[ForeignEffect]:
        if not stream.begun:
            assert stream.prefilled is not None, "an answer follows a prefill"
            stream.begun, done = True, stream.prefilled
            stream.add(Started(done.total_tokens, done.cached_tokens, stream.slot))
        return self._flush(stream, now)

    def _speak(
        self, stream: ForeignStream, said: Sequence[Said], now: float
    ) -> list[ForeignEffect]:
        for one in said:
            if stream.phase != "decode":
                break
            stream.due_s = now + self._settings.idle_s
            match one:
                case Token(text, seq) if seq == stream.tokens:
                    stream.hear(text)
                case Token(_, seq):
                    whose = stream.opened.request_id, stream.session.name
                    gap = Note(*whose, stream.tokens, seq)
                    return [gap, *self._fail(stream, HOLE, now)]
                case Over():
                    self._complete(stream, one, now)
                case Failure():
                    return self._fail(stream, one, now)
        return self._flush(stream, now)

    def _denied(self, stream: ForeignStream, denied: Denied, now: float) -> list[ForeignEffect]:
        if stream.phase == "decode":
            return self._fail(stream, VANISHED if denied.gone else denied.failure, now)
        if stream.mode == "continue":
            return self._not_continued(stream, denied, now)
        # A worker that has no room, or cannot take it, made no session; one that failed may have.
        failure = denied.failure
        made = failure.reason not in {"node_busy", "context_length_exceeded"}
        removed = [Delete(stream.session.name)] if made else []
        return [*removed, *self._refuse(stream, failure, now)]

    def _not_continued(
        self, stream: ForeignStream, denied: Denied, now: float
    ) -> list[ForeignEffect]:
        session = stream.session
        if denied.no_room:
            # Nothing has changed there: the next turn may find it as this one did.
            kept = self._keep(session, session.holds, now)
            return [*kept, *self._refuse(stream, denied.failure, now)]
        if not denied.gone:
            return [Delete(session.name), *self._refuse(stream, denied.failure, now)]
        if stream.opened.require:
            return self._refuse(stream, GONE, now)
        stream.mode, stream.session = "create", ForeignSession(self._ids())
        return [self._prefill(stream, now)]

    def _lose(self, stream: ForeignStream, now: float) -> list[ForeignEffect]:
        effects: list[ForeignEffect] = []
        alone = not any(other.calling for other in self._streams.values())
        if stream.opened.require and stream.mode == "continue" and stream.phase == "prefill":
            # Its KV lived as long as its process, and nobody is there.
            effects = self._refuse(stream, GONE, now)
        elif not alone:
            effects = self._fail(stream, LOST, now)
        if alone:
            self._streams.clear()
            effects.append(Lose(LOST))
        return effects

    def on_deleted(self, session: str, now: float) -> list[ForeignEffect]:
        """The worker has removed a session, or does not say so in time."""
        for stream in list(self._streams.values()):
            if stream.session.name == session and stream.phase == "leaving":
                stream.phase = "flushing"
                return self._flush(stream, now)
        return []

    # Time.

    def on_tick(self, now: float) -> list[ForeignEffect]:
        """Time has passed."""
        effects: list[ForeignEffect] = [Delete(name) for name in self._sessions.sweep(now)]
        for stream in list(self._streams.values()):
            if stream.phase == "flushing" or stream.paused or now < stream.due_s:
                continue
            if stream.phase == "ending":
                stream.calling = False
                effects += [HangUp(stream.id), *self._settle(stream, now)]
            elif stream.phase == "leaving":
                effects += self.on_deleted(stream.session.name, now)
            else:
                effects += self._fail(stream, HUNG, now)
        return effects

    def next_tick(self) -> float | None:
        """When `on_tick` has something to do."""
        waits = (one for one in self._streams.values() if one.phase != "flushing")
        due = [stream.due_s for stream in waits if not stream.paused]
        swept = self._sessions.next_s()
        return min((*due, *([] if swept is None else [swept])), default=None)

    # Steps.

    def _prefill(self, stream: ForeignStream, now: float) -> Prefill:
        stream.phase, stream.calling = "prefill", True
        stream.due_s = now + self._settings.prefill_s
        again = stream.mode == "continue"
        prompt = stream.messages[-1].content if again else new_prompt(stream.messages)
        return Prefill(
            *(stream.id, stream.session.name, stream.opened.request.model, stream.mode, prompt),
            self._max_tokens(stream),
        )

    def _max_tokens(self, stream: ForeignStream) -> int:
        return stream.opened.request.max_tokens or self._settings.offer.context_tokens

    def _complete(self, stream: ForeignStream, over: Over, now: float) -> None:
        """The answer is whole: from here on nothing that happens to the connection matters."""
        assert stream.prefilled is not None, "what has answered was prefilled"
        done = stream.prefilled
        said = stream.tokens if over.tokens is None else over.tokens
        stream.add(Finished(over.reason, Usage(done.total_tokens, done.cached_tokens, said)))
        stream.phase, stream.due_s = "ending", now + self._settings.call_s

    def _settle(self, stream: ForeignStream, now: float) -> list[ForeignEffect]:
        """Keep the session of a complete answer for the next turn."""
        holds = stream.so_far
        if not stream.mute:
            holds = extend(holds, "assistant", stream.answer)
        stream.phase = "flushing"
        return [*self._keep(stream.session, holds, now), *self._flush(stream, now)]

    def _keep(self, session: ForeignSession, holds: bytes, now: float) -> list[ForeignEffect]:
        """Have a session wait for its next turn; whoever has to go for that is removed."""
        lost = self._sessions.put(session, holds, now) if self._keeps else [session.name]
        return [Delete(name) for name in lost]

    def _refuse(self, stream: ForeignStream, failure: Failure, now: float) -> list[ForeignEffect]:
        """Nothing was started: no event of it has been sent."""
        stream.phase, stream.calling, stream.stage = "flushing", False, "waiting"
        return [Say(Refused(stream.id, failure)), *self._flush(stream, now)]

    def _fail(self, stream: ForeignStream, failure: Failure, now: float) -> list[ForeignEffect]:
        done = stream.prefilled
        spent = Usage() if done is None else Usage(done.total_tokens, done.cached_tokens)
        stream.add(Failed(failure, msgspec.structs.replace(spent, completion_tokens=stream.tokens)))
        return self._leave(stream, now)

    def _leave(self, stream: ForeignStream, now: float) -> list[ForeignEffect]:
        """Hang up, and have the session removed: then nothing of it runs there."""
        effects: list[ForeignEffect] = [HangUp(stream.id)] if stream.calling else []
        stream.phase, stream.calling, stream.paused = "leaving", False, False
        stream.due_s = now + self._settings.call_s
        return [*effects, Delete(stream.session.name), *self._flush(stream, now)]

    def _flush(self, stream: ForeignStream, now: float) -> list[ForeignEffect]:
        paused = stream.paused
        effects = stream.flush(self._settings.held_max)
        if paused and not stream.paused:
            # The silence until now was ours.
            stream.due_s = now + self._settings.idle_s
        if stream.phase == "flushing" and not stream.pending:
            del self._streams[stream.id]
            effects.append(Say(stream.released(now)))
        return effects

    def _free_slot(self) -> int | None:
        most = self._status.max_in_flight if self._status is not None else 0
        taken = {stream.slot for stream in self._streams.values()}
        return next((slot for slot in range(most) if slot not in taken), None)


def _refused(opened: Open, failure: Failure) -> list[ForeignEffect]:
    return [Say(Refused(opened.stream, failure)), Say(Released(opened.stream, "waiting"))]
