"""MACHINE: clients of one turn each, well or badly behaved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from roost.core.events import Delta, StreamEvent
from roost.core.ids import RequestId
from roost.fleet.streams.relay_effects import Mark
from roost.sim.gateway.front import Front
from roost.sim.world import World

_SOCKET_S = 0.0005


class Manners(msgspec.Struct, frozen=True):
    """How a client behaves in one turn: None means that it does not do this at all.

    `chars_per_s` is how fast it reads, `stuck_after` after how many writes it stops reading,
    `vanish_s` and `vanish_after` when it hangs up: after a time, or after so many writes;
    `cancel_s` when it asks for its request to be stopped and waits for the answer to that;
    `replays` asks for somebody to go on after a death.
    """

    streamed: bool = True
    chars_per_s: float | None = None
    stuck_after: int | None = None
    vanish_s: float | None = None
    vanish_after: int | None = None
    cancel_s: float | None = None
    timeout_s: float | None = None
    replays: bool = False


class Client:
    """One turn's connection."""

    def __init__(self, world: World, front: Front, request: RequestId, manners: Manners) -> None:
        self._world = world
        self._front = front
        self._request = request
        self._manners = manners
        self._takes = 0
        self._gone = False
        self.on_ended: Callable[[], None] = nothing
        if manners.vanish_s is not None:
            world.at(manners.vanish_s, self._vanish)
        if manners.cancel_s is not None:
            world.at(manners.cancel_s, self._cancel)

    def take(self, events: Sequence[StreamEvent | Mark], written: Callable[[], None]) -> None:
        """Receive these, at this client's own speed."""
        self._receive(sum(len(e.text) for e in events if isinstance(e, Delta)), written)

    def comment(self, written: Callable[[], None]) -> None:
        """Receive a sign of life."""
        self._receive(1, written)

    def ended(self) -> None:
        """The gateway is done with this turn."""
        self._gone = True
        self.on_ended()

    def _receive(self, chars: int, written: Callable[[], None]) -> None:
        manners = self._manners
        self._takes += 1
        if manners.vanish_after is not None and self._takes > manners.vanish_after:
            self._vanish()
        if self._gone or (manners.stuck_after is not None and self._takes > manners.stuck_after):
            return
        slowly_s = chars / manners.chars_per_s if manners.chars_per_s is not None else 0.0
        self._world.at(_SOCKET_S + slowly_s, written)

    def _vanish(self) -> None:
        if not self._gone:
            self._gone = True
            self._world.at(_SOCKET_S, self._hang_up)

    def _cancel(self) -> None:
        if not self._gone:
            self._front.process.do(lambda: self._front.cancel(self._request))

    def _hang_up(self) -> None:
        self._front.process.do(lambda: self._front.hang_up(self._request))


def nothing() -> None:
    """What a client does at the end unless somebody asks for more."""
