"""SHELL: the runs of a hosted library that has a scheduler of its own: a thread waits for each.

The library decides whose token is next and computes several at once, where it can. A run is left at
its next word: native code that computes cannot be told to stop, and a slot is free when it has.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from roost.backends.hosted.engine import ParallelEngine
from roost.backends.hosted.frames import Cancel, Flow, Run
from roost.backends.hosted.seats import Seat


class Parallel:
    """Takes orders from one thread; `spawn` begins others, no more than there are slots."""

    def __init__(
        self,
        engine: ParallelEngine,
        send: Callable[[bytes], None],
        spawn: Callable[[Callable[[], None]], None],
    ) -> None:
        self._engine = engine
        self._send = send
        self._spawn = spawn
        self._lanes: dict[int, _Lane] = {}

    def put(self, order: Run | Cancel | Flow) -> None:
        """Begin a run, or tell one something; what is said of one that has ended is no mistake."""
        if isinstance(order, Run):
            self._lanes = {run: lane for run, lane in self._lanes.items() if not lane.ended}
            lane = self._lanes[order.run] = _Lane(Seat(order, self._engine.stream(order)))
            self._spawn(lambda: lane.work(self._send))
        elif order.run in self._lanes:
            self._lanes[order.run].tell(order)


class _Lane:
    """One run between two threads: who reads orders tells it, and its own one works."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._changed = threading.Condition()
        self._paused = self._left = False

    @property
    def ended(self) -> bool:
        """Whether its end is written."""
        return self._seat.ended

    def tell(self, order: Cancel | Flow) -> None:
        """Have it leave, pause or go on, at its next word."""
        with self._changed:
            if isinstance(order, Flow):
                self._paused = order.paused
            else:
                self._left = True
            self._changed.notify()

    def work(self, send: Callable[[bytes], None]) -> None:
        """Say everything that the library says, until it ends or is left."""
        while not self._seat.ended:
            with self._changed:
                # The library goes on meanwhile, up to the run's limit: what it says waits there.
                while self._paused and not self._left:
                    self._changed.wait()
                left = self._left
            send(self._seat.leave() if left else self._seat.step())
