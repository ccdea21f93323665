"""VALUE: what a simulated gateway holds: lines to nodes and turns of clients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from roost.core.events import StreamEvent
from roost.core.ids import NodeId, RequestId, StreamId
from roost.core.pin import Pin
from roost.core.request import GenerateRequest, Terms
from roost.errors import Failure
from roost.fleet.effects import Dispatch, Effect
from roost.fleet.effects import Want as Wish
from roost.fleet.streams.relay import Relay
from roost.fleet.streams.relay_effects import Mark
from roost.sim.network import Connection
from roost.sim.world import Alarm
from roost.wire.link import GatewayEnd
from roost.wire.messages import Want


class Reader(Protocol):
    """A client's end of its connection."""

    def take(self, events: Sequence[StreamEvent | Mark], written: Callable[[], None]) -> None:
        """Receive these; `written` is called when the socket has room again."""
        ...

    def comment(self, written: Callable[[], None]) -> None:
        """Receive a sign of life."""
        ...

    def ended(self) -> None:
        """The connection is over."""
        ...


@dataclass(slots=True)
class Turn:
    """One live request in the gateway; `reached` is what its client's socket took of `offered`."""

    request: GenerateRequest
    terms: Terms
    relay: Relay
    reader: Reader
    alarm: Alarm
    dispatch: Dispatch | None = None
    answer: list[str] = field(default_factory=list)
    withdrawn: bool = False
    spoke: bool = False
    offered: str = ""
    reached: str = ""
    spent: int = 0

    @property
    def attempt(self) -> int:
        """Number of the current attempt, 0 before the first."""
        return self.dispatch.attempt if self.dispatch is not None else 0

    @property
    def pin(self) -> Pin | None:
        """Where its KV is; None where it did not run."""
        if self.dispatch is None or not self.spent:
            return None
        return Pin(self.dispatch.node, self.request.model, self.spent)


class Line:
    """One connection as the gateway holds it."""

    def __init__(self, connection: Connection, end: GatewayEnd, alarm: Alarm) -> None:
        self.connection = connection
        self.end = end
        self.alarm = alarm
        self.node: NodeId | None = None
        self.over = False
        self.streams: dict[StreamId, tuple[RequestId, int]] = {}
        self.numbers: dict[tuple[RequestId, int], StreamId] = {}
        self.opened = 0


def line_of(effect: Effect) -> str:
    """One line of the log for an effect."""
    fields = " ".join(
        str(value)
        for name in effect.__struct_fields__
        if not isinstance(value := getattr(effect, name), Failure)
    )
    return f"> {type(effect).__name__} {fields}"


def wish_of(effect: Wish) -> Want:
    """What is said to the node."""
    return Want(effect.model)
