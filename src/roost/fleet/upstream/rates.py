"""MACHINE: how often something happens, from the happenings themselves."""

from __future__ import annotations

import math


class Rate:
    """Exponentially decayed events per second; needs two events before it says anything."""

    def __init__(self, window_s: float) -> None:
        self._window_s = window_s
        self._weight = 0.0
        self._since_s: float | None = None
        self._last_s = 0.0

    def note(self, now: float) -> None:
        """It happened once."""
        if self._since_s is None:
            self._since_s = now
        else:
            self._weight = self._decayed(now) + 1.0
        self._last_s = now

    def per_s(self, now: float) -> float | None:
        """Events per second by now; None before the second event."""
        if self._since_s is None or not self._weight:
            return None
        # The window is not full yet shortly after the start: divide by what was really observed.
        seen = self._window_s * -math.expm1(-(now - self._since_s) / self._window_s)
        return self._decayed(now) / seen if seen > 0 else None

    def _decayed(self, now: float) -> float:
        return self._weight * math.exp(-(now - self._last_s) / self._window_s)
