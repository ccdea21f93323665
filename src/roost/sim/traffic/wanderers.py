"""MACHINE: clients that lose their connections and come back, and what a gateway does for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from roost.core.events import Delta, StreamEvent
from roost.core.ids import RequestId
from roost.fleet.streams.relay_effects import Mark
from roost.fleet.streams.stream_log import StreamLog
from roost.sim.gateway.front import Front
from roost.sim.request_facts import Trace
from roost.sim.scenario import Traffic
from roost.sim.world import Action, Alarm, World

if TYPE_CHECKING:
    from random import Random

Logs: TypeAlias = Callable[[float, int], StreamLog]
"""Makes a log of a window in seconds and a size in bytes."""

_SOCKET_S = 0.0005
GAP = (-1, "")
"""Noted by a client that was told that it has missed something."""


class Journey(msgspec.Struct, frozen=True):
    """When a connection breaks each time, and for how long its client is away then; seconds."""

    stretches: tuple[tuple[float, float], ...]


def journey(traffic: Traffic, dice: Random) -> Journey | None:
    """Draw whether a client wanders; nothing is drawn where nobody does."""
    if not traffic.wander or dice.random() >= traffic.wander:
        return None
    stretches = [
        (dice.uniform(*traffic.wander_s), dice.uniform(*traffic.away_s))
        for _ in range(dice.randint(1, 6))
    ]
    return Journey(tuple(stretches))


class Reel:
    """Between a relay and the connection of the moment, as `gateway.replay.reel` in production."""

    def __init__(self, world: World, front: Front, request: RequestId, log: StreamLog) -> None:
        self.log = log
        self.over = False
        self.on_ended: Action = _nothing
        self._world = world
        self._front = front
        self._request = request
        self._client: Wanderer | None = None
        self._line = 0
        self._ready = True
        self._written: Action | None = None
        self._alarm = Alarm(front.process, self._tick)

    # --- from the relay

    def take(self, events: Sequence[StreamEvent | Mark], written: Action) -> None:
        """The stream goes on."""
        for event in events:
            if isinstance(event, Mark):
                continue
            text = event.text if isinstance(event, Delta) else ""
            self.log.on_block(f"{self.log.next} {text}".encode())
        self._written = written
        self._feed()

    def comment(self, written: Action) -> None:
        """A sign of life."""
        self._written = written
        self._feed()

    def ended(self) -> None:
        """The relay is done with this stream."""
        self.log.on_end(self._world.now)
        self._written = None
        self._feed()
        self._alarm.set(self.log.until_s)
        self.on_ended()

    # --- from connections

    def attach(self, client: Wanderer, line: int, wanted: int) -> bool:
        """A client reads on this line of its own, from this event on."""
        if not self.log.on_attach(wanted):
            return False
        self._client, self._line, self._ready = client, line, True
        self._feed()
        return True

    def lose(self, line: int) -> None:
        """A line is seen to be broken; it may have been replaced already."""
        if line != self._line or self._client is None:
            return
        self._client = None
        self.log.on_detach(self._world.now)
        self._feed()
        self._alarm.set(self.log.until_s)

    def _feed(self) -> None:
        client = self._client
        if client is not None and self._ready and (block := self.log.take()) is not None:
            self._ready = False
            client.receive(self._line, block)
        if client is None or not self.log.behind:
            if client is not None and self.log.ended and self._ready:
                client.finished()
            self._tell_written()

    def _tell_written(self) -> None:
        written, self._written = self._written, None
        if written is not None and (self._client is None or self._ready):
            self._world.at(_SOCKET_S, written)
        else:
            self._written = written

    def taken(self, line: int) -> None:
        """The client has got what was on its way."""
        if line == self._line:
            self._ready = True
            self._feed()

    def _tick(self) -> None:
        until_s = self.log.until_s
        if until_s is None or self.over:
            return
        if self._world.now < until_s:
            self._alarm.set(until_s)
            return
        self.over = True
        if not self.log.ended:
            self._front.hang_up(self._request)


class Wanderer:
    """One client: its connections break at moments of their own, and it comes back for the rest."""

    def __init__(self, world: World, front: Front, trace: Trace, reel: Reel) -> None:
        self._world = world
        self._front = front
        self._trace = trace
        self._reel = reel
        self._line = 0
        self._wanted = 0
        trace.received = []

    def travel(self, journey: Journey) -> None:
        """Set out; after the last stretch the connection holds."""
        self._attach()
        self._go(list(journey.stretches))

    def _go(self, stretches: list[tuple[float, float]]) -> None:
        if not stretches:
            return
        (until_s, away_s), rest = stretches[0], stretches[1:]
        self._world.at(until_s, lambda: self._lose(away_s, rest))

    def receive(self, line: int, block: bytes) -> None:
        """A block is on its way; if the line breaks before it arrives it is lost."""
        self._world.at(_SOCKET_S, lambda: self._arrived(line, block))

    def finished(self) -> None:
        """The gateway ends the reply: everything has been sent."""
        self._trace.read_whole = True

    def _arrived(self, line: int, block: bytes) -> None:
        if line != self._line or self._trace.received is None:
            return
        number, _, text = block.decode().partition(" ")
        self._trace.received.append((int(number), text))
        self._wanted = int(number) + 1
        self._front.process.do(lambda: self._reel.taken(line))

    def _lose(self, away_s: float, rest: list[tuple[float, float]]) -> None:
        line = self._line
        self._line += 1
        # Half of the losses are seen late: by then the client may be back on another line.
        late_s = away_s / 2 if len(rest) % 2 else 2 * away_s
        self._world.at(_SOCKET_S + late_s, lambda: self._seen(line))
        self._world.at(away_s, lambda: self._back(rest))

    def _seen(self, line: int) -> None:
        self._front.process.do(lambda: self._reel.lose(line))

    def _back(self, rest: list[tuple[float, float]]) -> None:
        if self._reel.over:
            return
        self._front.process.do(self._attach)
        self._go(rest)

    def _attach(self) -> None:
        if self._reel.over or self._reel.attach(self, self._line, self._wanted):
            return
        assert self._trace.received is not None, "made at the beginning"
        self._trace.received.append(GAP)
        self._wanted = self._reel.log.first
        attached = self._reel.attach(self, self._line, self._wanted)
        assert attached, "the first event there is can be had"


def _nothing() -> None:
    """What the end of a stream brings about unless somebody asks for more."""
