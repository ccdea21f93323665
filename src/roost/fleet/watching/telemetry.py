"""MACHINE: what has been asked lately and what became of it, bounded, without a word of anybody's.

Rows of requests that run and of those that ended last; totals that count on when rows are full.
Tokens are the runtime's own counts. Cancelled is what a client, or somebody for it, stopped; an
answer that broke off is an error.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

import msgspec

from roost.core.events import Usage
from roost.core.ids import ModelId, NodeId, RequestId, TenantId

RowState = Literal[
    "waiting", "prefill", "streaming", "done", "length", "tool_calls", "error", "cancelled"
]
MODEL_CHARS_MAX = 256
_CANCELLED = frozenset({"client_disconnect", "write_timeout", "cancelled"})
_COMPLETED = frozenset({"complete", "buffer_overflow"})
_BY_REASON: dict[str, RowState] = {"length": "length", "tool_calls": "tool_calls"}


class TelemetrySettings(msgspec.Struct, frozen=True):
    """How many requests are shown: of those that run, and of those that ended."""

    active: int = 128
    recent: int = 64


class Totals(msgspec.Struct, frozen=True):
    """Counts since the start; `active` is now, tokens and seconds are of requests that ended."""

    started: int = 0
    completed: int = 0
    errors: int = 0
    cancelled: int = 0
    active: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    duration_seconds: float = 0.0


class RowView(msgspec.Struct, frozen=True):
    """One request; figures that are not known, or not yet, are None.

    `started_ms` is wall time. The rate of a prefill counts only tokens that were computed.
    `phase_seconds` is since when it is in its state. `doing` says the same of one that runs in
    words: its place in the queue, how far a load or its prompt has come. `cache_miss` says why
    its past was computed again, "" where it was not.
    """

    id: RequestId
    model: str
    state: RowState
    started_ms: int
    elapsed_seconds: float
    node: NodeId | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    first_output_seconds: float | None = None
    prefill_tokens_per_second: float | None = None
    decode_tokens_per_second: float | None = None
    tenant: TenantId = TenantId("")
    phase_seconds: float = 0.0
    doing: str = ""
    cache_miss: str = ""


class Ended(msgspec.Struct, frozen=True):
    """How a request ended: the relay's outcome, what was spent, when its first and last text came.

    Times are monotonic, None where there was no text.
    """

    outcome: str
    usage: Usage
    first_text_s: float | None = None
    last_text_s: float | None = None


@dataclass(slots=True)
class _Row:
    id: RequestId
    tenant: TenantId
    model: str
    arrived_s: float
    started_ms: int
    shown: bool
    since_s: float
    state: RowState = "waiting"
    node: NodeId | None = None
    held_s: float | None = None
    text_s: float | None = None
    reason: str = ""
    missed: str = ""
    ended_s: float | None = None
    ending: Ended | None = None


@dataclass(slots=True)
class _Counts:
    started: int = 0
    completed: int = 0
    errors: int = 0
    cancelled: int = 0
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0


class Telemetry:
    """Fed by whoever serves requests; every request that arrives ends once."""

    def __init__(self, settings: TelemetrySettings) -> None:
        self._settings = settings
        self._running: dict[RequestId, _Row] = {}
        self._shown = 0
        self._recent: deque[_Row] = deque(maxlen=settings.recent)
        self._counts = _Counts()

    def on_arrived(
        self, request: RequestId, tenant: TenantId, model: ModelId, now: float, unix_ms: int
    ) -> None:
        """A request is being looked after; one that comes when all rows are full is counted."""
        self._counts.started += 1
        shown = self._shown < self._settings.active
        self._shown += shown
        name = str(model)[:MODEL_CHARS_MAX]
        self._running[request] = _Row(request, tenant, name, now, unix_ms, shown, now)

    def on_started(self, request: RequestId, node: NodeId, now: float, missed: str = "") -> None:
        """It holds a slot; after a loss of its runtime it may do so again.

        `missed` says why its past was not there, "" where it was.
        """
        row = self._running[request]
        row.node, row.held_s, row.missed = node, now, missed
        if row.state == "waiting":
            row.state, row.since_s = "prefill", now

    def on_first_text(self, request: RequestId, now: float) -> None:
        """Its answer has begun, or goes on after a loss."""
        row = self._running[request]
        if row.text_s is None:
            row.text_s, row.state, row.since_s = now, "streaming", now

    def on_finished(self, request: RequestId, reason: str) -> None:
        """The model is done, for this reason; its client has still to hear the end."""
        self._running[request].reason = reason

    def on_ended(self, request: RequestId, ending: Ended, now: float) -> None:
        """It is over, however it ended."""
        row, counts = self._running.pop(request), self._counts
        counts.seconds += now - row.arrived_s
        was, spent = counts.usage, ending.usage
        counts.usage = Usage(
            was.prompt_tokens + spent.prompt_tokens,
            was.cached_tokens + spent.cached_tokens,
            was.completion_tokens + spent.completion_tokens,
        )
        if ending.outcome in _COMPLETED:
            counts.completed += 1
        elif ending.outcome in _CANCELLED:
            counts.cancelled += 1
        else:
            counts.errors += 1
        if row.shown:
            self._shown -= 1
            row.state, row.ended_s, row.ending = _state(ending, row.reason), now, ending
            row.since_s = now
            self._recent.append(row)

    def totals(self) -> Totals:
        """Everything since the start."""
        counts = self._counts
        return Totals(
            counts.started,
            counts.completed,
            counts.errors,
            counts.cancelled,
            len(self._running),
            counts.usage.prompt_tokens,
            counts.usage.completion_tokens,
            counts.usage.cached_tokens,
            counts.seconds,
        )

    def rows(
        self,
        tenant: TenantId | None,
        now: float,
        spent: Mapping[RequestId, Usage],
        doing: Mapping[RequestId, str] = MappingProxyType({}),
    ) -> tuple[RowView, ...]:
        """What runs, oldest first, then what ended, newest first; `tenant` None has everybody's.

        `spent` has what those that run have spent so far, as far as anybody knows, and `doing` what
        they are at.
        """
        rows = [*(row for row in self._running.values() if row.shown), *reversed(self._recent)]
        mine = [row for row in rows if tenant in (None, row.tenant)]
        return tuple(_view(row, now, spent.get(row.id), doing.get(row.id, "")) for row in mine)


def _state(ending: Ended, reason: str) -> RowState:
    if ending.outcome in _CANCELLED:
        return "cancelled"
    return _BY_REASON.get(reason, "done") if ending.outcome in _COMPLETED else "error"


def _view(row: _Row, now: float, spent: Usage | None, doing: str) -> RowView:
    ending, end_s = row.ending, now if row.ended_s is None else row.ended_s
    usage = None
    if row.held_s is not None:
        # What has not held a slot has spent nothing that anybody counted.
        usage = ending.usage if ending is not None else spent
    first_s = row.text_s if ending is None else ending.first_text_s
    return RowView(
        row.id,
        row.model,
        row.state,
        row.started_ms,
        round(end_s - row.arrived_s, 3),
        row.node,
        usage.prompt_tokens if usage else None,
        usage.cached_tokens if usage else None,
        usage.completion_tokens if usage else None,
        round(first_s - row.arrived_s, 3) if first_s is not None else None,
        *_rates(row),
        row.tenant,
        round(now - row.since_s, 3),
        doing if ending is None else "",
        row.missed,
    )


def _rates(row: _Row) -> tuple[float | None, float | None]:
    """Prefill and decode in tokens a second, of a request that ended."""
    ending = row.ending
    if ending is None or ending.first_text_s is None or row.held_s is None:
        return None, None
    usage, last_s = ending.usage, ending.last_text_s or ending.first_text_s
    computed = usage.prompt_tokens - usage.cached_tokens
    return (
        _rate(computed, ending.first_text_s - row.held_s),
        # The first token came with the first text: it took no time of decoding.
        _rate(usage.completion_tokens - 1, last_s - ending.first_text_s),
    )


def _rate(tokens: int, seconds: float) -> float | None:
    return round(tokens / seconds, 3) if tokens > 0 and seconds > 0 else None
