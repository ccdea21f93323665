"""MACHINE: what hangs although its process lives: loads that get no further, silent runtimes.

A silence counts only while this node was awake. As long as anything may hang there is a report or
a tick at least every `report.max_s`, with a link or without: a longer pause means that this process
did not run.
"""

from __future__ import annotations

from roost.node import refusals
from roost.node.workshop import Workshop


class Stalls:
    """Finds what hangs, and has the workshop replace it; `count` of them so far."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self.count = 0
        self.lived_at: float | None = None

    def live(self, now: float) -> None:
        """Something is reported, or a tick: forgive runtimes what was this node's own silence."""
        pause_s = 0.0 if self.lived_at is None else now - self.lived_at
        self.lived_at = now
        settings = self._workshop.settings
        if pause_s > settings.report.max_s + settings.awake_s:
            # What was said meanwhile is still unread.
            self._workshop.floors.on_slept(pause_s, now)
            self._workshop.progress.on_slept(pause_s, now)

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
        """When the next load counts as hung, or this would be taken for asleep while one may.

        Runtimes are looked at with the workshop's ticks.
        """
        workshop = self._workshop
        hung_at = workshop.progress.next_tick()
        if hung_at is None and not any(floor.streams for floor in workshop.floors):
            return None
        awake_at = (self.lived_at or 0.0) + workshop.settings.report.max_s
        return awake_at if hung_at is None else min(awake_at, hung_at)
