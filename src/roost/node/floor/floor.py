"""MACHINE: one ready runtime as the agent sees it: its slots, its streams, its sign of life."""

from __future__ import annotations

from roost.backends.base import SlotUse
from roost.core.events import Delta, Failed, PrefillProgress, Started, StreamEvent
from roost.core.ids import ModelId, RuntimeId
from roost.errors import Fault
from roost.node.effects import Effect, Run, StreamKey
from roost.node.floor.pace import Pace, PaceSettings
from roost.node.floor.seating import Seating
from roost.node.floor.vitals import Vitals
from roost.node.stream import Stream


class Floor:
    """Runs prepared streams in order of their coming, and notices when nothing moves.

    `streams` are those that hold anything of this runtime, from `preparing` to the acknowledgement
    that they have left; the agent's limit on streams in flight bounds them.
    """

    def __init__(
        self, runtime: RuntimeId, model: ModelId, seating: Seating, pace: PaceSettings, now: float
    ) -> None:
        self.runtime = runtime
        self.model = model
        self.seating = seating
        self.slots = seating.slots
        self.streams: dict[StreamKey, Stream] = {}
        self.is_retiring = False
        # Whether what its idle slots hold is put aside before it goes.
        self.packs = False
        self.vitals = Vitals(now)
        self._pace = Pace(pace)
        self._moved_at = now
        # Whether the step that is under way has, or had, anything of a prompt in it.
        self._has_prefill = False
        self._began_at: dict[StreamKey, float] = {}

    def pace_by(self, settings: PaceSettings) -> None:
        """Have a silence count as a hang by these limits; what was learned stays."""
        self._pace.settings = settings

    def admit(self, stream: Stream, now: float) -> None:
        """This stream is being prepared, which the runtime's tokeniser has a part in."""
        if not self._owes():
            self._moved_at = now
        self.streams[stream.key] = stream

    def enqueue(self, stream: Stream, now: float) -> None:
        """This stream is prepared and needs a slot."""
        self._moved_at = now
        self.seating.enqueue(stream)

    def seat(self, effects: list[Effect], now: float) -> list[Effect]:
        """Add to these effects of the seating's what else it can do for those who wait."""
        while more := self.seating.step(now):
            effects = [*effects, *more]
        if any(isinstance(effect, Run) for effect in effects):
            self._has_prefill = True
            self._moved_at = now
        return effects

    def pack(self, now: float) -> list[Effect]:
        """Put aside what idle slots hold, if that is to outlive the runtime."""
        return self.seating.pack(now) if self.packs else []

    def must_yield(self, stream: Stream, event: StreamEvent, now: float) -> bool:
        """Whether a stream has to leave its slot with this event, so that others get a copy."""
        if stream.phase != "running" or stream.ended or stream.is_again:
            return False
        if not _is_computed(event) or not self.seating.on_computed(stream):
            return False
        began_at = self._began_at.pop(stream.key, None)
        if began_at is not None:
            self.seating.worth.on_prefill(stream.computed, now - began_at)
        assert stream.use is not None
        self.slots.stop(stream.use.slot)
        self._moved_at = now
        stream.step_back()
        return True

    def on_yielded(self, stream: Stream, now: float) -> list[Effect]:
        """It has left; copy its slot, then run it again."""
        assert stream.use is not None
        stream.move("closed")
        self.slots.free(stream.use.slot, stream.kept, stream.held)
        return self.seating.on_yielded(stream, now)

    def on_event(self, stream: Stream, event: StreamEvent, now: float) -> None:
        """A stream produced something: the runtime lives, and the slot's content grew."""
        assert stream.use is not None, "only who holds a slot produces anything"
        if isinstance(event, Started):
            self.seating.sharing.on_started(stream, event.cached_tokens)
            if not stream.is_again:
                self._began_at[stream.key] = now
        live, has_prefill, is_paused = self._look()
        self._count(stream, event, live, now)
        if not is_paused:
            self._learn(stream, event, now - self._moved_at)
        self._moved_at = now
        self._has_prefill = has_prefill
        self.slots.note(stream.use.slot, stream.held)

    def _look(self) -> tuple[int, bool, bool]:
        """Say how many decode, whether any is in prefill, and whether any that works is paused.

        Once for every token of every stream: so all in one go.
        """
        live, has_prefill, is_paused = 0, False, False
        for one in self.streams.values():
            if one.stage == "decode":
                live += 1
            elif one.stage == "prefill":
                has_prefill = True
            if one.outbox.paused and one.is_working:
                is_paused = True
        return live, has_prefill, is_paused

    def on_resume(self, now: float) -> None:
        """A stream that was paused is read again, or has gone: the silence begins only here."""
        self._moved_at = now

    def on_slept(self, slept_s: float, now: float) -> None:
        """The node itself did not run for so long, and could not have heard anything."""
        self._moved_at = min(now, self._moved_at + slept_s)

    def on_stop(self, stream: Stream, now: float) -> None:
        """A stream quits: out of the line, or its slot is not free before it has left."""
        if stream.outbox.paused:
            self.on_resume(now)
        if stream in self.seating:
            self.seating.quit(stream)
            del self.streams[stream.key]
        elif stream.use is not None and stream.phase == "running":
            self.slots.stop(stream.use.slot)

    def on_closed(self, stream: Stream, now: float, *, is_stuck: bool) -> None:
        """A stream has left. A stuck slot is never used again; its runtime is about to go."""
        del self.streams[stream.key]
        self._began_at.pop(stream.key, None)
        use: SlotUse | None = stream.use
        if use is None:
            # Its preparation has ended, and those that follow were waiting for it.
            self._moved_at = now
            return
        self.seating.on_closed(stream)
        if is_stuck:
            self.vitals.on_failure()
        else:
            kept = stream.kept
            self.slots.free(use.slot, kept, stream.held if kept else 0)

    def patience_s(self) -> float:
        """How long a silence counts as healthy now.

        Nothing is learned about preparations: what a template takes is no step of the runtime.
        """
        working = [stream for stream in self.streams.values() if stream.is_working]
        if not working:
            return self._pace.settings.stall_s
        return self._pace.patience_s(prefill=any(s.stage == "prefill" for s in working))

    def stalls_at(self) -> float | None:
        """When this runtime counts as hung; None while it owes nobody anything.

        A paused stream may hold everybody up behind it: nothing is concluded then.
        """
        owes = False
        for stream in self.streams.values():
            if stream.is_working:
                if stream.outbox.paused:
                    return None
                owes = True
            elif stream.phase == "preparing":
                owes = True
        return self._moved_at + self.patience_s() if owes else None

    def _owes(self) -> bool:
        return any(s.is_working or s.phase == "preparing" for s in self.streams.values())

    def _count(self, stream: Stream, event: StreamEvent, live: int, now: float) -> None:
        """Keep count of what the runtime did, also for streams of which nobody hears any more."""
        match event:
            case Delta():
                began_at = self._began_at.get(stream.key)
                first = stream.is_working and stream.generated == event.tokens
                if first and began_at is not None:
                    self.vitals.on_prefill(stream.computed, now - began_at, now)
                self.vitals.on_tokens(event.tokens, live, now)
            case Failed(failure=failure) if failure.kind.fault is not Fault.CALLER:
                self.vitals.on_failure()

    def _learn(self, stream: Stream, event: StreamEvent, step_s: float) -> None:
        began_at = self._began_at.get(stream.key)
        if isinstance(event, Delta) and stream.generated == event.tokens and began_at is not None:
            self.seating.worth.on_prefill(stream.computed, self._moved_at + step_s - began_at)
        match event:
            case PrefillProgress(done, total) if done < total:
                self._pace.on_prefill(step_s)
            case Delta() if stream.generated > event.tokens and not self._has_prefill:
                # Not the first of an answer: that one took the end of its prefill with it.
                self._pace.on_decode(step_s)


def _is_computed(event: StreamEvent) -> bool:
    """Whether a prompt is in its slot, and the answer has not ended yet."""
    return isinstance(event, Delta) or (
        isinstance(event, PrefillProgress) and event.done >= event.total
    )
