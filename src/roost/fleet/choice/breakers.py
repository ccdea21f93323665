"""MACHINE: circuit breakers: who keeps failing at a model gets no more of it for a while.

One breaker for each pair of node and model: closed; open after so many failures in a row, or too
large a share of the last ones; half-open after a while, with one request at a time until several
have gone well. Lack of room is not a failure and never comes here. A breaker counts nothing but
failures and successes: opening it takes no lease away and gives none back.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from roost.core.ids import ModelId, NodeId
from roost.fleet.settings import FleetSettings


@dataclass(slots=True)
class _Breaker:
    recent: deque[bool] = field(default_factory=deque)
    in_a_row: int = 0
    opened: int = 0
    until_s: float | None = None
    successes: int = 0


class Breakers:
    """All breakers that have something to remember."""

    def __init__(self, settings: FleetSettings) -> None:
        self._settings = settings
        self._breakers: dict[tuple[NodeId, ModelId], _Breaker] = {}
        self._waiting: set[tuple[NodeId, ModelId]] = set()

    def failed(self, node: NodeId, model: ModelId, now: float) -> bool:
        """The node failed a request for this model; True if that opened the breaker."""
        breaker = self._breakers.setdefault((node, model), _Breaker())
        self._note(breaker, ok=False)
        breaker.in_a_row += 1
        if breaker.until_s is not None:
            # While it is open nothing begins: what fails now began before, and one death that ends
            # many streams would lengthen the wait with each of them.
            if now >= breaker.until_s:
                self._open(breaker, (node, model), now)
            return False
        if breaker.in_a_row < self._settings.breaker_failures and not self._bad(breaker):
            return False
        self._open(breaker, (node, model), now)
        return True

    def succeeded(self, node: NodeId, model: ModelId, now: float) -> bool:
        """The node served a request for this model; True if that closed the breaker."""
        breaker = self._breakers.get((node, model))
        if breaker is None:
            return False
        self._note(breaker, ok=True)
        breaker.in_a_row = 0
        if breaker.until_s is None:
            if all(breaker.recent):
                self._forget((node, model))
            return False
        if now < breaker.until_s:
            # It began before the breaker opened: welcome, but no proof of anything since.
            return False
        breaker.successes += 1
        if breaker.successes < self._settings.breaker_successes:
            return False
        self._forget((node, model))
        return True

    def open(self, node: NodeId, model: ModelId, now: float, held: int) -> bool:
        """Whether the node may not have another request for this model; it holds `held` now."""
        breaker = self._breakers.get((node, model))
        if breaker is None or breaker.until_s is None:
            return False
        return now < breaker.until_s or held > 0

    def state(self, node: NodeId, model: ModelId, now: float) -> str:
        """`closed`, `open` or `half_open`."""
        breaker = self._breakers.get((node, model))
        if breaker is None or breaker.until_s is None:
            return "closed"
        return "open" if now < breaker.until_s else "half_open"

    def next_s(self, now: float) -> float | None:
        """When the next one may be tried again."""
        times = (self._breakers[key].until_s for key in self._waiting)
        return min((when for when in times if when is not None and when > now), default=None)

    def due(self, now: float) -> list[NodeId]:
        """Nodes of which one has become half-open since this was last asked, in a fixed order."""
        ready = sorted(key for key in self._waiting if (self._breakers[key].until_s or 0.0) <= now)
        self._waiting.difference_update(ready)
        return [node for node, _ in ready]

    def joined(self, node: NodeId) -> None:
        """The node begins anew."""
        for key in [key for key in self._breakers if key[0] == node]:
            self._forget(key)

    def _forget(self, key: tuple[NodeId, ModelId]) -> None:
        del self._breakers[key]
        self._waiting.discard(key)

    def _note(self, breaker: _Breaker, *, ok: bool) -> None:
        breaker.recent.append(ok)
        if len(breaker.recent) > self._settings.breaker_window:
            breaker.recent.popleft()

    def _bad(self, breaker: _Breaker) -> bool:
        """Whether too many of a full window have failed."""
        failures = breaker.recent.count(False)
        full = len(breaker.recent) == self._settings.breaker_window
        return full and failures >= self._settings.breaker_ratio * len(breaker.recent)

    def _open(self, breaker: _Breaker, key: tuple[NodeId, ModelId], now: float) -> None:
        wait_s = self._settings.breaker_open_s * 2 ** min(breaker.opened, 16)
        breaker.until_s = now + min(wait_s, self._settings.breaker_open_max_s)
        breaker.opened += 1
        breaker.successes = 0
        self._waiting.add(key)
