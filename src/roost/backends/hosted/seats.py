"""SHELL: one run of a hosted library: its next step, what it has cost, and how it ends."""

from __future__ import annotations

import logging
import time

from roost.backends.hosted.engine import Running
from roost.backends.hosted.frames import Began, Filled, Over, Reason, Run, Said, Work, pack


class Seat:
    """One run; `ended` once its end is written, after which it is asked for nothing more."""

    def __init__(self, job: Run, steps: Running) -> None:
        self.ended = False
        self._job = job
        self._steps = steps
        self._filled = self._prefill_tokens = self._said = 0
        self._prefill_s = self._decode_s = 0.0

    def step(self) -> bytes:
        """Take a step and write what came of it, its end included where that was the last one."""
        began_s = time.monotonic()
        try:
            step = next(self._steps)
        except StopIteration as end:
            return self._end(end.value)
        except MemoryError:
            return self._end("failed", "it has no memory left")
        except Exception as error:
            # Its words may hold a prompt. They go to the runtime's own log, which stays here.
            logging.getLogger(__name__).exception("a run failed")
            return self._end("failed", f"the library raised {type(error).__name__}")
        self._count(step, time.monotonic() - began_s)
        said = pack(step)
        full = isinstance(step, Said) and self._said >= self._job.limit
        return said + self._end("length") if full else said

    def leave(self) -> bytes:
        """Cancel it and write its end."""
        return self._end("cancelled")

    def _count(self, step: Began | Filled | Said, took_s: float) -> None:
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

    def _end(self, reason: Reason, message: str = "") -> bytes:
        self._steps.close()
        self.ended = True
        work = Work(self._prefill_tokens, self._prefill_s, self._said, self._decode_s)
        return pack(Over(self._job.run, reason, message, work))
