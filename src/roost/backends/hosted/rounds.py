"""SHELL: the runs of a hosted library take turns, a step each, in one thread.

Libraries that compute one sequence at a time serve several slots in this way: a prompt is computed
in batches, and between two of them everybody else gets a token. Nothing is cancelled in the middle
of a step, so what the library keeps is always whole.
"""

from __future__ import annotations

import logging
import queue
import time
from collections.abc import Callable

from roost.backends.hosted.engine import Engine, Running
from roost.backends.hosted.frames import (
    Began,
    Cancel,
    Filled,
    Flow,
    Over,
    Reason,
    Run,
    Said,
    Work,
    pack,
)

INBOX_MAX = 1024
"""Orders that wait for the step to end; behind them waits the socket."""


class _Seat:
    """One run: where it is, and what it has cost."""

    def __init__(self, job: Run, steps: Running) -> None:
        self.job = job
        self.steps = steps
        self.paused = False
        self._filled = self._prefill_tokens = self._said = 0
        self._prefill_s = self._decode_s = 0.0

    @property
    def full(self) -> bool:
        """Whether it has said all that it may."""
        return self._said >= self.job.limit

    def count(self, step: Began | Filled | Said, took_s: float) -> None:
        """Book a step."""
        if isinstance(step, Said):
            self._said += 1
            self._decode_s += took_s
            return
        self._prefill_s += took_s
        if isinstance(step, Filled):
            self._prefill_tokens += step.done - self._filled
            self._filled = step.done
        else:
            self._filled = step.cached

    def over(self, reason: Reason, message: str = "") -> Over:
        """Write its end."""
        work = Work(self._prefill_tokens, self._prefill_s, self._said, self._decode_s)
        return Over(self.job.run, reason, message, work)


class Rounds:
    """Takes orders from any thread, and works on them in the one that calls `forever`."""

    def __init__(self, engine: Engine, send: Callable[[bytes], None]) -> None:
        self._engine = engine
        self._send = send
        self._inbox: queue.Queue[Run | Cancel | Flow] = queue.Queue(INBOX_MAX)
        self._seats: dict[int, _Seat] = {}

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
        for seat in [seat for seat in self._seats.values() if not seat.paused]:
            out += self._stepped(seat)
        if out:
            self._send(bytes(out))

    def _ordered(self) -> bytearray:
        out = bytearray()
        idle = all(seat.paused for seat in self._seats.values())
        while idle or not self._inbox.empty():
            out += self._take(self._inbox.get())
            idle = False
        return out

    def _take(self, order: Run | Cancel | Flow) -> bytes:
        if isinstance(order, Run):
            self._seats[order.run] = _Seat(order, self._engine.run(order))
            return b""
        seat = self._seats.get(order.run)
        if seat is None:
            return b""
        if isinstance(order, Flow):
            seat.paused = order.paused
            return b""
        return self._end(seat, "cancelled")

    def _stepped(self, seat: _Seat) -> bytes:
        began_s = time.monotonic()
        try:
            step = next(seat.steps)
        except StopIteration as end:
            return self._end(seat, end.value)
        except MemoryError:
            return self._end(seat, "failed", "it has no memory left")
        except Exception as error:
            # Its words may hold a prompt. They go to the runtime's own log, which stays here.
            logging.getLogger(__name__).exception("a run failed")
            return self._end(seat, "failed", f"the library raised {type(error).__name__}")
        seat.count(step, time.monotonic() - began_s)
        said = pack(step)
        return said + self._end(seat, "length") if seat.full and isinstance(step, Said) else said

    def _end(self, seat: _Seat, reason: Reason, message: str = "") -> bytes:
        seat.steps.close()
        del self._seats[seat.job.run]
        return pack(seat.over(reason, message))
