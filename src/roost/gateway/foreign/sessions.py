"""MACHINE: sessions that this gateway has on one worker of system 1, by what was said in them.

A session is found again by a hash of tenant, model and every message: it serves a turn whose past
is exactly what it holds, and no other. So an edited history, another tenant or an answer that
reached its client only in part begins a new one, and nobody continues what was never said.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class ForeignSession:
    """One session: its name at the worker, what it held when it was idle last, and since when."""

    name: str
    holds: bytes = b""
    used_s: float = 0.0


class ForeignSessions:
    """Those that wait for their next turn; at most `most`, the least recently used go first."""

    def __init__(self, most: int, idle_s: float) -> None:
        self._most = most
        self._idle_s = idle_s
        self._idle: OrderedDict[str, ForeignSession] = OrderedDict()
        self._by_past: dict[bytes, list[ForeignSession]] = {}

    def __len__(self) -> int:
        return len(self._idle)

    def take(self, past: bytes) -> ForeignSession | None:
        """Have the session that holds exactly this, if there is one; it is nobody else's then."""
        found = self._by_past.get(past)
        if not found:
            return None
        session = found[-1]
        self._remove(session)
        return session

    def put(self, session: ForeignSession, holds: bytes, now: float) -> list[str]:
        """Keep a session for its next turn; names of those that had to go for it come back."""
        session.holds, session.used_s = holds, now
        self._idle[session.name] = session
        self._by_past.setdefault(holds, []).append(session)
        return [self._drop() for _ in range(max(0, len(self._idle) - self._most))]

    def sweep(self, now: float) -> list[str]:
        """Let go of those that nobody has used for too long, and name them."""
        gone = []
        while (due := self.next_s()) is not None and due <= now:
            gone.append(self._drop())
        return gone

    def clear(self) -> list[str]:
        """Let go of all, and name them."""
        return [self._drop() for _ in range(len(self._idle))]

    def next_s(self) -> float | None:
        """When `sweep` has something to do."""
        oldest = next(iter(self._idle.values()), None)
        return None if oldest is None else oldest.used_s + self._idle_s

    def _drop(self) -> str:
        oldest = next(iter(self._idle.values()))
        self._remove(oldest)
        return oldest.name

    def _remove(self, session: ForeignSession) -> None:
        del self._idle[session.name]
        alike = self._by_past[session.holds]
        alike.remove(session)
        if not alike:
            del self._by_past[session.holds]
