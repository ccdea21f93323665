"""SHELL: the runs of a hosted library take turns, a step each, in one thread.

Libraries that compute one sequence at a time serve several slots in this way: a prompt is computed
in batches, and between two of them everybody else gets a token. Nothing is cancelled in the middle
of a step, so what the library keeps is always whole.
"""

from __future__ import annotations

import queue
from collections.abc import Callable

from roost.backends.hosted.engine import Engine
from roost.backends.hosted.frames import Cancel, Flow, Run
from roost.backends.hosted.seats import Seat

INBOX_MAX = 1024
"""Orders that wait for the step to end; behind them waits the socket."""


class Rounds:
    """Takes orders from any thread, and works on them in the one that calls `forever`."""

    def __init__(self, engine: Engine, send: Callable[[bytes], None]) -> None:
        self._engine = engine
        self._send = send
        self._inbox: queue.Queue[Run | Cancel | Flow] = queue.Queue(INBOX_MAX)
        self._seats: dict[int, Seat] = {}
        self._paused: set[int] = set()

    def put(self, order: Run | Cancel | Flow) -> None:
        """Leave an order; waits while too many are waiting."""
        self._inbox.put(order)

    def forever(self) -> None:
        """Work; never returns."""
        while True:
            self.turn()

    def turn(self) -> None:
        """Take what has been ordered, then give every run a step; waits where there is none."""
        out = self._ordered()
        for number, seat in [*self._seats.items()]:
            if number in self._paused:
                continue
            out += seat.step()
            if seat.ended:
                del self._seats[number]
        if out:
            self._send(bytes(out))

    def _ordered(self) -> bytearray:
        out = bytearray()
        idle = self._seats.keys() <= self._paused
        while idle or not self._inbox.empty():
            out += self._take(self._inbox.get())
            idle = False
        return out

    def _take(self, order: Run | Cancel | Flow) -> bytes:
        if isinstance(order, Run):
            self._paused.discard(order.run)
            self._seats[order.run] = Seat(order, self._engine.run(order))
            return b""
        seat = self._seats.get(order.run)
        if seat is None:
            return b""
        if isinstance(order, Flow):
            (self._paused.add if order.paused else self._paused.discard)(order.run)
            return b""
        self._paused.discard(order.run)
        del self._seats[order.run]
        return seat.leave()
