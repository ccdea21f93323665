"""MACHINE: what has happened in the fleet lately, bounded, for people who look on.

The same thing that happens again soon is one row that counts: a thousand refusals in a minute must
not push out the node that was lost just before them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec

Level = Literal["debug", "info", "warning", "error"]
Fact: TypeAlias = str | int | float | bool
ROWS = 200
AGAIN_MS = 60_000
LOOK_BACK = 16
FACT_CHARS_MAX = 200
PRIVATE = frozenset({"request", "by", "token", "tenant"})
"""Facts that say of somebody what he asked for: rows that have one are for operators."""
_PASSING = frozenset({"request", "session", "job", "held", "seconds"})
"""Facts that differ each time, though the same thing happens."""

SHOWN = frozenset(
    {
        *("node_joined", "node_state", "node_left", "node_clash", "node_refused", "join_admitted"),
        *("operated", "order_sent", "states_changed", "model_wanted", "request_retried"),
        *("request_cut", "request_replayed", "request_shed", "stream_slow_client"),
        *("stream_buffer_high", "runtime_loading", "runtime_ready", "runtime_failed"),
        *("runtime_gone", "runtime_odd", "fleet_odd", "memory_pressure", "transcript_lost"),
        *("transcripts_degraded", "conversation_moved", "compaction_failure"),
        *("heartbeat_refused", "worker_joined", "worker_left", "worker_unreachable"),
    }
)
"""Events that are of interest to somebody who looks at the fleet, by their names in the log."""


class Happening(msgspec.Struct, frozen=True):
    """One event: `times` times from `first_ms` to `at_ms`, in wall time.

    `id` grows with every happening and is another one when a row counts on. `facts` are those of
    the last time.
    """

    id: int
    at_ms: int
    first_ms: int
    times: int
    level: Level
    event: str
    facts: dict[str, Fact]


@dataclass(slots=True)
class _Row:
    key: tuple[object, ...]
    id: int
    at_ms: int
    first_ms: int
    times: int
    level: Level
    event: str
    facts: dict[str, Fact]


class Happenings:
    """The last `rows` rows."""

    def __init__(self, rows: int = ROWS) -> None:
        self._rows: deque[_Row] = deque(maxlen=rows)
        self._last = 0

    def note(self, event: str, level: Level, facts: Mapping[str, object], unix_ms: int) -> None:
        """Something has happened; facts that are no plain values are left out."""
        self._last += 1
        plain = {name: _short(fact) for name, fact in facts.items() if _is_plain(fact)}
        key = (event, *((name, fact) for name, fact in plain.items() if name not in _PASSING))
        row = self._again(key, unix_ms)
        if row is None:
            row = _Row(key, self._last, unix_ms, unix_ms, 0, level, event, plain)
        row.id, row.at_ms, row.facts = self._last, unix_ms, plain
        row.times += 1
        self._rows.append(row)

    def rows(self, *, everything: bool) -> tuple[Happening, ...]:
        """Newest first; without `everything` only what is of nobody in particular."""
        newest = reversed(self._rows)
        return tuple(_view(one) for one in newest if everything or not PRIVATE & one.facts.keys())

    def _again(self, key: tuple[object, ...], unix_ms: int) -> _Row | None:
        """Take out the row that says the same of a moment ago, if there is one."""
        for back in range(1, min(LOOK_BACK, len(self._rows)) + 1):
            row = self._rows[-back]
            if unix_ms - row.at_ms > AGAIN_MS:
                return None
            if row.key == key:
                del self._rows[-back]
                return row
        return None


def _view(row: _Row) -> Happening:
    return Happening(
        row.id, row.at_ms, row.first_ms, row.times, row.level, row.event, dict(row.facts)
    )


def _is_plain(fact: object) -> bool:
    return isinstance(fact, (str, int, float))


def _short(fact: object) -> Fact:
    if isinstance(fact, str):
        return fact[:FACT_CHARS_MAX]
    assert isinstance(fact, (int, float)), "only plain facts are kept"
    return fact
