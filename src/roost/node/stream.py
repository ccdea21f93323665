"""MACHINE: one request on this node, from Open to Released.

    loading ─▶ preparing ─▶ seating ─▶ running ─▶ flushing ─▶ gone
      │ ▲          │            │          │          │
      │ │          │            ╰◀─ yielding ◀─╯      │
      │ │          ╰──▶ leaving ◀──────────╯          │
      │ ╰── returning, seating: the runtime goes away │
      ╰───────────────╴quit╶────────────────────────▶ gone

`loading` waits for the runtime, `preparing` for the shell to render and tokenise, `seating` for a
slot; `running` holds a slot; `yielding` lets others have a copy of its prompt's KV before it says
anything, and runs again; `leaving` was told to stop and has not been acknowledged; `returning`
was too, and then waits for the next runtime, since nothing of it had started on this one;
`flushing` holds nothing but events that its gateway has not granted credit for. Steps that come too
late for the phase a stream is in are missing from the table and change nothing.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from roost.backends.base import Prepared, SlotUse
from roost.core.events import (
    TERMINAL,
    Delta,
    Failed,
    Finished,
    PrefillProgress,
    Started,
    StreamEvent,
    Usage,
    Vectors,
)
from roost.core.ids import ModelId, RuntimeId, TenantId
from roost.errors import Failure
from roost.node.effects import StreamKey
from roost.node.meter import Meter, left_out
from roost.node.outbox import Outbox, Outflow
from roost.wire.messages import Open, Refused, Released

Phase: TypeAlias = Literal[
    "loading",
    "preparing",
    "returning",
    "seating",
    "running",
    "yielding",
    "leaving",
    "flushing",
    "gone",
]
Step: TypeAlias = Literal[
    "loaded",
    "prepared",
    "unprepared",
    "counted",
    "orphaned",
    "recalled",
    "seated",
    "yielded",
    "quit",
    "closed",
    "flushed",
]
Stage: TypeAlias = Literal["waiting", "prefill", "decode", "done"]

MOVES: dict[tuple[Phase, Step], Phase] = {
    ("loading", "loaded"): "preparing",
    ("loading", "quit"): "gone",
    ("preparing", "prepared"): "seating",
    ("preparing", "unprepared"): "gone",
    ("preparing", "counted"): "flushing",
    ("preparing", "orphaned"): "loading",
    ("preparing", "recalled"): "returning",
    ("preparing", "quit"): "leaving",
    ("returning", "closed"): "loading",
    ("returning", "quit"): "leaving",
    ("seating", "seated"): "running",
    ("seating", "recalled"): "loading",
    ("seating", "quit"): "gone",
    ("running", "closed"): "flushing",
    ("running", "quit"): "leaving",
    ("running", "yielded"): "yielding",
    ("yielding", "closed"): "seating",
    ("yielding", "quit"): "leaving",
    ("leaving", "closed"): "flushing",
    ("leaving", "quit"): "leaving",
    ("flushing", "flushed"): "gone",
    ("flushing", "quit"): "gone",
}
"""Legal steps; a missing pair is a step that came too late."""


class Stream:
    """One request: where it stands, what it holds, what has been said about it."""

    def __init__(self, key: StreamKey, message: Open, events_max: int, now: float) -> None:
        self.key = key
        self.request = message.request
        self.request_id = message.request_id
        self.tenant: TenantId = message.tenant
        self.fence = message.fence
        self.prompt_max = message.prompt_max
        self.deadline_at = None if message.deadline_s is None else now + message.deadline_s
        self.outbox = Outbox(message.stream, message.credit, events_max)
        self.phase: Phase = "loading"
        self.stage: Stage = "waiting"
        self.runtime: RuntimeId | None = None
        self.prepared: Prepared | None = None
        self.use: SlotUse | None = None
        # Ended: its outcome is settled (a terminal event, a refusal, a cancel), whatever it still
        # holds. Nothing that the backend says afterwards is passed on.
        self.ended = False
        self.failed = False
        # Put back once already: a request that two runtimes do not survive is not given a third.
        self.was_recalled = False
        # It runs a second time on a slot that holds its prompt already; see `step_back`.
        self.is_again = False
        self._cancelled_at: float | None = None
        self._prefilled = 0
        self._generated = 0
        # Tokens generated while it yielded, of which nobody is told.
        self._unsaid = 0
        self._started: Started | None = None
        self._meter: Meter | None = None

    @property
    def model(self) -> ModelId:
        """The model it asks for."""
        return self.request.model

    @property
    def is_in_flight(self) -> bool:
        """Whether it holds or waits for a slot."""
        return self.phase not in ("flushing", "gone")

    @property
    def is_working(self) -> bool:
        """Whether its runtime owes it events."""
        return self.phase == "running" and not self.ended

    @property
    def has_begun(self) -> bool:
        """Whether a runtime has begun to work on it, even if it waits for its slot again."""
        return self._started is not None

    def is_overdue(self, now: float) -> bool:
        """Whether its deadline has passed before its outcome was settled."""
        return self.deadline_at is not None and now >= self.deadline_at and not self.ended

    @property
    def has_spoken(self) -> bool:
        """Whether any event has been passed on, or waits to be."""
        return self.outbox.sent > 0 or not self.outbox.is_empty

    @property
    def generated(self) -> int:
        """Tokens generated so far."""
        return self._generated

    @property
    def computed(self) -> int:
        """Tokens of the prompt that were not in its slot when it began; 0 until that is known."""
        started = self._started
        return started.prompt_tokens - started.cached_tokens if started else 0

    @property
    def held(self) -> int:
        """Tokens of KV its slot holds, as far as reports tell."""
        return self._prefilled + self._generated + self._unsaid

    @property
    def kept(self) -> tuple[int, ...]:
        """The tokens its slot is known to hold after it has left; none after a failure."""
        if self.prepared is None or self.failed:
            return ()
        return self.prepared.tokens[: self._prefilled]

    def move(self, step: Step) -> bool:
        """Take a step; False if it came too late and changed nothing."""
        phase = MOVES.get((self.phase, step))
        if phase is None:
            return False
        self.phase = phase
        return True

    def forget_runtime(self) -> None:
        """It waits for a runtime again, as if it had never had one."""
        assert self.phase == "loading"
        self.was_recalled = True
        self.runtime = self.prepared = None

    def seat(self, use: SlotUse) -> None:
        """It has been given this slot and runs."""
        moved = self.move("seated")
        assert moved, f"seated while {self.phase}"
        self.use = use
        self.stage = "prefill"
        self.is_again = self._started is not None

    def step_back(self) -> None:
        """Its prompt is computed, and others wait for a copy of that: it is told to leave."""
        moved = self.move("yielded")
        assert moved, f"yielded while {self.phase}"
        assert self.prepared is not None
        self._prefilled = len(self.prepared.tokens)

    def close(self) -> None:
        """The backend's block has been left, and it does not go back there."""
        if self.phase == "yielding":
            self.move("quit")
        self.move("closed")

    def on_event(self, event: StreamEvent) -> Outflow:
        """The backend produced this; what to send. Nothing once the outcome is settled."""
        if self.phase == "yielding" and isinstance(event, Delta):
            self._unsaid += event.tokens
        if not self.is_working:
            return Outflow()
        event = self._metered(event)
        if self.is_again:
            return self._on_event_again(event)
        self._follow(event)
        return self.outbox.on_event(event)

    def _metered(self, event: StreamEvent) -> StreamEvent:
        if isinstance(event, Started) and self.prepared is not None:
            reading, trimmed = self.prepared.reading, left_out(self.request, self.prepared)
            self._meter = Meter(reading) if reading is not None else None
            event = msgspec.structs.replace(event, trimmed=trimmed) if trimmed else event
        return event if self._meter is None else self._meter.on_event(event)

    def end(self, failure: Failure) -> Refused | Outflow:
        """Settle the outcome: a refusal while nothing has been said, a failed end afterwards."""
        if self.ended:
            return Outflow()
        self.ended = self.failed = True
        if not self.has_spoken:
            return Refused(self.key.stream, failure)
        return self.outbox.on_event(Failed(failure, self.usage()))

    def counted(self, ready: Prepared) -> Outflow:
        """Its prompt has so many tokens, or these: that is all it wants to know."""
        self.ended = True
        count = len(ready.tokens)
        told = Outflow()
        if self.request.return_tokens:
            told = self.outbox.on_event(Delta(ready.text, 0, ids=ready.tokens))
        last = self.outbox.on_event(Finished("stop", Usage(count, count)))
        pause = told.pause if last.pause is None else last.pause
        return Outflow(told.messages + last.messages, pause)

    def cancel(self, now: float) -> None:
        """Nobody wants the answer any more."""
        if self._cancelled_at is None and self.is_in_flight:
            self._cancelled_at = now
        self.ended = True
        self.outbox.drop()

    def released(self, now: float) -> Released:
        """The last word about this stream."""
        assert self.phase == "gone"
        cancelled_at = self._cancelled_at
        free_s = None if cancelled_at is None else now - cancelled_at
        return Released(self.key.stream, self.stage, free_s)

    def usage(self) -> Usage:
        """What has been spent so far, by the events seen."""
        if self._started is None:
            return Usage(completion_tokens=self._generated)
        prompt, cached = self._started.prompt_tokens, self._started.cached_tokens
        return Usage(prompt, cached, self._generated)

    def _on_event_again(self, event: StreamEvent) -> Outflow:
        """Of a second run its prompt is no news: it was this stream that computed it."""
        assert self._started is not None
        match event:
            case Started():
                self._unsaid = 0
                return Outflow()
            case PrefillProgress():
                return Outflow()
            case Finished(usage=usage) | Failed(usage=usage):
                cached = self._started.cached_tokens
                usage = msgspec.structs.replace(usage, cached_tokens=cached)
                event = msgspec.structs.replace(event, usage=usage)
        self._follow(event)
        return self.outbox.on_event(event)

    def _follow(self, event: StreamEvent) -> None:
        match event:
            case Started():
                self._started = event
                self._prefilled = event.cached_tokens
            case PrefillProgress():
                self._prefilled = event.done
            case Delta():
                self.stage = "decode"
                self._generated += event.tokens
                self._prefilled = len(self.prepared.tokens) if self.prepared else 0
            case Finished():
                self.stage = "done"
                self._prefilled = len(self.prepared.tokens) if self.prepared else 0
            case Failed():
                self.failed = True
            case Vectors():
                # They are made without KV: its slot is a place in the line and holds nothing.
                pass
        self.ended = isinstance(event, TERMINAL)
