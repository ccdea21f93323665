"""MACHINE: what hangs although its process lives: loads that get no further, silent runtimes."""

from __future__ import annotations

from roost.node import refusals
from roost.node.workshop import Workshop


class Stalls:
    """Finds what hangs, and has the workshop replace it; `count` of them so far."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self.count = 0

    def look(self, now: float) -> None:
        """End every load that gets nowhere, and every runtime that owes something and is silent."""
        workshop, progress = self._workshop, self._workshop.progress
        for runtime in progress.hung(now):
            self.count += 1
            workshop.call_off(runtime, refusals.load_hung(progress.patience_s), now)
        for floor in workshop.floors:
            stalls_at = floor.stalls_at()
            if stalls_at is not None and now >= stalls_at:
                self.count += 1
                workshop.replace(floor, refusals.hung(floor.patience_s()), now)

    def next_tick(self) -> float | None:
        """When the next load counts as hung; runtimes are looked at with the workshop's ticks."""
        return self._workshop.progress.next_tick()

    def on_slept(self, slept_s: float, now: float) -> None:
        """The node did not run for so long: what was said meanwhile is still unread."""
        self._workshop.floors.on_slept(slept_s, now)
        self._workshop.progress.on_slept(slept_s, now)
