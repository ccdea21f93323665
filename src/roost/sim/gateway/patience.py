"""MACHINE: who waits for a place to be free again, as a turn does for that of the one before it.

A turn that ends gives its place back a moment later; whoever went on at once would find the slot of
its own conversation taken, and compute everything anew in another one.
"""

from __future__ import annotations

from functools import partial

from roost.core.ids import RequestId
from roost.fleet.coordinator import Coordinator
from roost.sim.world import Action, Process

WAIT_S = 1.0
"""How long anybody waits for a place at most, as `InferSettings.release_wait_s`."""


class Patience:
    """Those who wait for places of one gateway."""

    def __init__(self, process: Process, coordinator: Coordinator) -> None:
        self._process = process
        self._coordinator = coordinator
        self._waiting: dict[tuple[RequestId, int], Action] = {}

    def wait(self, request: RequestId, attempt: int, done: Action) -> None:
        """Let `done` happen once when this place is free, now if it is, or after `WAIT_S`."""
        place = request, attempt
        if not self._coordinator.holds(*place):
            done()
            return
        self._waiting[place] = done
        self._process.after(WAIT_S, partial(self._freed, place))

    def look(self) -> None:
        """Something has happened: places may be free."""
        for place in [one for one in self._waiting if not self._coordinator.holds(*one)]:
            self._freed(place)

    def _freed(self, place: tuple[RequestId, int]) -> None:
        done = self._waiting.pop(place, None)
        if done is not None:
            done()
