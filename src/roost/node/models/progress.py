"""MACHINE: how far loads have come; passes news of them on, but not oftener than that is of use.

A load that gets no further for `patience_s` counts as hung, whether its process lives or not. What
counts is how far it was at most: a loader that only repeats itself gets nowhere.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from roost.core.ids import RuntimeId


@dataclass(slots=True)
class _Load:
    moved_s: float
    told_s: float = -math.inf
    told: float | None = None
    most: float = 0.0


class Progress:
    """What runtimes say of their loads, from 0 to 1; at least `least_s` between two steps."""

    def __init__(self, least_s: float, patience_s: float = math.inf) -> None:
        self.patience_s = patience_s
        self._least_s = least_s
        self._loads: dict[RuntimeId, _Load] = {}

    def begin(self, runtime: RuntimeId, now: float) -> None:
        """A load begins."""
        self._loads[runtime] = _Load(now)

    def of(self, runtime: RuntimeId) -> float | None:
        """How far a load has come; None for one that has not said, or is over."""
        load = self._loads.get(runtime)
        return None if load is None else load.told

    def take(self, runtime: RuntimeId, progress: float, now: float) -> bool:
        """A load says how far it is; False for what is no news, or comes too soon."""
        load = self._loads.get(runtime)
        if load is None or not math.isfinite(progress):
            return False
        progress = min(1.0, max(0.0, progress))
        if progress > load.most:
            load.most, load.moved_s = progress, now
        if now - load.told_s < self._least_s:
            return False
        load.told_s, load.told = now, progress
        return True

    def over(self, runtime: RuntimeId) -> None:
        """The load has ended, however it did."""
        self._loads.pop(runtime, None)

    def hung(self, now: float) -> list[RuntimeId]:
        """Loads that have got no further for too long, each told once; they count as over."""
        found = [r for r, load in self._loads.items() if now >= load.moved_s + self.patience_s]
        for runtime in found:
            self.over(runtime)
        return found

    def next_tick(self) -> float | None:
        """When the next load counts as hung if nothing is heard of it."""
        soonest = min((load.moved_s for load in self._loads.values()), default=math.inf)
        at = soonest + self.patience_s
        return None if math.isinf(at) else at

    def on_slept(self, slept_s: float, now: float) -> None:
        """The node did not run for so long: what was said meanwhile is still unread."""
        for load in self._loads.values():
            load.moved_s = min(now, load.moved_s + slept_s)
