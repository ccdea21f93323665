"""SHELL: one timer of the event loop for whatever a machine says its next tick is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable


class Alarm:
    """Calls `ring` when it is time for a tick, or earlier, which costs one harmless tick.

    A deadline that moves back with every event would cost a timer per event, so only an earlier
    one replaces a timer that is set.
    """

    __slots__ = ("_loop", "_ring", "_timer", "_when_s")

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None
        # Remembered here: what uvloop gives for a time that has come already knows none.
        self._when_s = 0.0

    def set(self, when_s: float | None) -> None:
        """Ring by this time of the loop's clock; None asks for nothing, and takes nothing back."""
        timer = self._timer
        if when_s is None or (timer is not None and self._when_s <= when_s):
            return
        if timer is not None:
            timer.cancel()
        self._timer, self._when_s = self._loop.call_at(when_s, self._fire), when_s

    def end(self) -> None:
        """Never ring again, and let go of whoever would hear it."""
        # They hold each other: without this a turn would stay until cycles are collected.
        self._ring = _nobody
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._ring()


def _nobody() -> None:
    """Nobody hears it any more."""
