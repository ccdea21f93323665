"""MACHINE: how far loads have come; news of one is passed on every so often and not oftener."""

from __future__ import annotations

import math

from roost.core.ids import RuntimeId


class Progress:
    """What runtimes say of their loads, from 0 to 1; at least `least_s` between two steps."""

    def __init__(self, least_s: float) -> None:
        self._least_s = least_s
        self._told: dict[RuntimeId, tuple[float, float]] = {}

    def of(self, runtime: RuntimeId) -> float | None:
        """How far a load has come; None for one that has not said, or is over."""
        told = self._told.get(runtime)
        return None if told is None else told[1]

    def take(self, runtime: RuntimeId, progress: float, now: float) -> bool:
        """A load says how far it is; False for what is no news, or comes too soon."""
        told_at, _ = self._told.get(runtime, (-math.inf, 0.0))
        if not math.isfinite(progress) or now - told_at < self._least_s:
            return False
        self._told[runtime] = (now, min(1.0, max(0.0, progress)))
        return True

    def over(self, runtime: RuntimeId) -> None:
        """The load has ended, however it did."""
        self._told.pop(runtime, None)
