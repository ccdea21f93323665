"""SHELL: how long a serving verb lives: signals in, exit codes out.

TERM drains and ends with 0; a second TERM, or the end of the grace, ends abruptly with 143; INT
ends abruptly with 130; HUP reads the settings anew. Abruptly still means that children are ended
and reaped.
"""

from __future__ import annotations

import asyncio
import gc
import signal
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING

from roost.observe import logs

if TYPE_CHECKING:
    from roost.cli.reloading import Reloads

DRAINED = 0
INTERRUPTED = 130
TERMINATED = 143


class Lifetime:
    """Turns signals into one wait, and its length into an exit code; HUP is for `reloads`."""

    def __init__(self, drain_grace_s: float, reloads: Reloads) -> None:
        self._grace_s = drain_grace_s
        self.reloads = reloads
        self._asked = asyncio.Event()
        self._abrupt = asyncio.Event()
        self.code = DRAINED

    def listen(self) -> None:
        """Take over TERM, INT and HUP of this process; needs the loop of the main thread."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGHUP, self.reloads.on_hup)
        loop.add_signal_handler(signal.SIGTERM, self.on_term)
        loop.add_signal_handler(signal.SIGINT, self.on_interrupt)
        # Held back since the first line of `main`: children that are started later must not be.
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})

    def settled(self) -> None:
        """All is up: see `settle`, and a HUP that came meanwhile counts now."""
        settle()
        self.reloads.open()

    def on_term(self) -> None:
        """First time: drain. Second time: now."""
        self._say_stopping(self._grace_s)
        if self._asked.is_set():
            self.code = self.code or TERMINATED
            self._abrupt.set()
        self._asked.set()

    def on_interrupt(self) -> None:
        """Now."""
        self._say_stopping(0.0)
        self.code = self.code or INTERRUPTED
        self._asked.set()
        self._abrupt.set()

    def _say_stopping(self, grace_s: float) -> None:
        if not self._asked.is_set():
            logs.get().info("stopping", grace_s=grace_s)

    async def wait(self) -> None:
        """Wait until the end is asked for."""
        await self._asked.wait()

    async def wind_down(self, drain: Callable[[float], Coroutine[object, object, bool]]) -> None:
        """Run `drain(grace_s)`; it is cut short by a second signal, and False means it ran out."""
        if self._abrupt.is_set():
            await drain(0.0)
            return
        async with asyncio.TaskGroup() as group:
            draining = group.create_task(drain(self._grace_s))
            abrupt = group.create_task(self._abrupt.wait())
            await asyncio.wait((draining, abrupt), return_when=asyncio.FIRST_COMPLETED)
            abrupt.cancel()
            if not draining.done():
                draining.cancel()
                return
        if not draining.result():
            self.code = self.code or TERMINATED


def settle() -> None:
    """Leave what has been started out of every later search for garbage; once, when all is up.

    It lives as long as the process. Searching it too took 30 to 50 ms each time, in which every
    stream stood still and whoever was to be refused waited.
    """
    gc.collect()
    gc.freeze()
