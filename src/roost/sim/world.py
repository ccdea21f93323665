"""MACHINE: simulated time: a heap of events, processes that can stop and die, a log with a hash.

Nothing happens between events, so an hour of quiet costs nothing. Everything random comes from
named sources that are seeded once: the same seed gives the same events in the same order, and the
hash of the log proves it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from heapq import heappop, heappush
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from random import Random

Action: TypeAlias = Callable[[], None]

AT_ONCE = 100_000
"""More events than this at one instant are a loop."""
LINES_AT_ONCE = 256
"""How many lines of the log go into its hash together."""
GRAIN_S = 1e-6
"""How much later than asked a timer fires: clocks never stand still, and rounding must not loop."""


class World:
    """The clock, what is still to happen, and the log; `dice(name)` makes a source of chance."""

    def __init__(self, dice: Callable[[str], Random], *, keep_lines: bool = False) -> None:
        self.now = 0.0
        self.dice = dice
        self.events = 0
        self.lines: list[str] = []
        self._keep_lines = keep_lines
        self._hash = sha256()
        self._unhashed: list[str] = []
        self._heap: list[tuple[float, int, Action]] = []
        self._count = 0

    @property
    def digest(self) -> str:
        """Hash of the log so far, 16 hexadecimal digits."""
        self._flush()
        return self._hash.hexdigest()[:16]

    def at(self, delay_s: float, action: Action) -> None:
        """Let this happen `delay_s` from now; equal times happen in the order they were asked."""
        assert delay_s >= 0, "the past is over"
        self._count += 1
        heappush(self._heap, (self.now + delay_s, self._count, action))

    def log(self, text: str) -> None:
        """Write a line with the time."""
        line = f"{self.now:.6f} {text}\n"
        self._unhashed.append(line)
        if len(self._unhashed) >= LINES_AT_ONCE:
            self._flush()
        if self._keep_lines:
            self.lines.append(line)

    def _flush(self) -> None:
        self._hash.update("".join(self._unhashed).encode())
        self._unhashed.clear()

    def run(self, until_s: float) -> None:
        """Let time pass up to `until_s`."""
        at_once = 0
        while self._heap and self._heap[0][0] <= until_s:
            when_s, _, action = heappop(self._heap)
            at_once = at_once + 1 if when_s == self.now else 0
            assert at_once < AT_ONCE, "something goes round in circles without time passing"
            self.now = when_s
            self.events += 1
            action()
        self.now = max(self.now, until_s)


class Process:
    """Something that runs, can be stopped and continued like by a signal, and can be killed.

    While it is stopped the world goes on: whatever would have happened in it piles up and happens
    when it continues, in order.
    """

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.alive = True
        self._stopped = False
        self._backlog: list[Action] = []

    @property
    def stopped(self) -> bool:
        """Whether it is stopped."""
        return self._stopped

    def after(self, delay_s: float, action: Action) -> None:
        """Let this happen in the process, if it still lives then."""
        self.world.at(delay_s, partial(self.do, action))

    def do(self, action: Action) -> None:
        """Let this happen in the process now, or as soon as it continues."""
        if not self.alive:
            return
        if self._stopped:
            self._backlog.append(action)
        else:
            action()

    def stop(self) -> None:
        """Freeze it."""
        self._stopped = True

    def resume(self) -> None:
        """Let it continue with whatever has piled up."""
        self._stopped = False
        backlog, self._backlog = self._backlog, []
        for action in backlog:
            self.do(action)

    def kill(self) -> None:
        """End it: nothing happens in it any more."""
        self.alive = False
        self._backlog = []


class Alarm:
    """One timer for a machine that says when it wants its next tick."""

    def __init__(self, process: Process, tick: Action) -> None:
        self._process = process
        self._tick = tick
        self._due_s: float | None = None
        self._generation = 0

    def set(self, when_s: float | None) -> None:
        """Tick at `when_s` or earlier; a tick that comes early is harmless to a machine."""
        if when_s is None or (self._due_s is not None and self._due_s <= when_s):
            return
        now = self._process.world.now
        self._due_s = max(now, when_s)
        self._generation += 1
        generation = self._generation
        self._process.after(self._due_s - now + GRAIN_S, partial(self._fire, generation))

    def _fire(self, generation: int) -> None:
        if generation == self._generation:
            self._due_s = None
            self._tick()
