"""MACHINE: how long a healthy step of one runtime takes, learned; so, when silence means a hang.

A runtime nobody knows yet gets `stall_s`. One that has shown `STEPS_MIN` steps of a kind gets four
times the slowest of the recent ones, and never less than `stall_floor_s`: so a slow machine is left
alone, and a quick one is found out early.

Prefill and decode are learned apart. A step of prefill takes as long as hundreds of decode steps,
which would push it out of any memory of "recent steps"; and only whole batches count as learned,
because the last batch of a short prompt says nothing about a whole one.
"""

from __future__ import annotations

import msgspec

STEPS_MIN = 8
TOLERANCE = 4.0
PREFILL_WINDOW = 64
DECODE_WINDOW = 256


class PaceSettings(msgspec.Struct, frozen=True):
    """`stall_s` of silence is a hang before anything is learned, `stall_floor_s` at least after.

    A load that gets no further for `load_stall_s` hangs.
    """

    stall_s: float = 30.0
    stall_floor_s: float = 5.0
    load_stall_s: float = 60.0


class _Recent:
    """The slowest of the last `window` to 2 × `window` steps, without keeping each of them."""

    def __init__(self, window: int) -> None:
        self._window = window
        self._before_s = self._slowest_s = 0.0
        self._in_window = 0
        self.steps = 0

    def add(self, step_s: float) -> None:
        self.steps += 1
        self._in_window += 1
        self._slowest_s = max(self._slowest_s, step_s)
        if self._in_window == self._window:
            self._before_s, self._slowest_s, self._in_window = self._slowest_s, 0.0, 0

    @property
    def slowest_s(self) -> float:
        return max(self._before_s, self._slowest_s)


class Pace:
    """What the steps of one runtime have taken."""

    def __init__(self, settings: PaceSettings) -> None:
        self.settings = settings
        self._prefill = _Recent(PREFILL_WINDOW)
        self._decode = _Recent(DECODE_WINDOW)

    def on_prefill(self, step_s: float) -> None:
        """A whole batch of a prompt was computed after this long."""
        self._prefill.add(step_s)

    def on_decode(self, step_s: float) -> None:
        """While nobody was in prefill, something was generated after this long."""
        self._decode.add(step_s)

    def patience_s(self, *, prefill: bool) -> float:
        """Seconds without an event after which the runtime hangs; `prefill` if any is under way."""
        settings = self.settings
        kind = self._prefill if prefill else self._decode
        if kind.steps < STEPS_MIN:
            return settings.stall_s
        return max(settings.stall_floor_s, TOLERANCE * kind.slowest_s)
