"""VALUE: what may be said and heard on a link in each state, and what an end may ask for."""

from __future__ import annotations

from typing import Generic, Literal, TypeAlias, TypeVar

import msgspec

from roost.errors import Failure
from roost.wire.messages import (
    Cancel,
    CancelPull,
    Credit,
    Events,
    FromGateway,
    FromNode,
    Goodbye,
    Hello,
    Open,
    Order,
    Phase,
    Ping,
    Pong,
    Pull,
    Refused,
    Released,
    StateOrder,
    StatesTold,
    Status,
    Vacate,
    Want,
    Welcome,
)

EndState = Literal["greeting", "up", "closed"]
_Table: TypeAlias = dict[tuple[EndState, type], EndState]

NODE_HEARS: _Table = {
    ("greeting", Welcome): "up",
    ("greeting", Goodbye): "closed",
    ("up", Open): "up",
    ("up", Credit): "up",
    ("up", Cancel): "up",
    ("up", Want): "up",
    ("up", Vacate): "up",
    ("up", Pull): "up",
    ("up", CancelPull): "up",
    ("up", Order): "up",
    ("up", StateOrder): "up",
    ("up", Ping): "up",
    ("up", Pong): "up",
    ("up", Goodbye): "closed",
}
NODE_SAYS: _Table = {
    ("greeting", Hello): "greeting",
    ("greeting", Goodbye): "closed",
    ("up", Status): "up",
    ("up", Phase): "up",
    ("up", Events): "up",
    ("up", Refused): "up",
    ("up", Released): "up",
    ("up", StatesTold): "up",
    ("up", Goodbye): "closed",
}
GATEWAY_HEARS: _Table = {
    ("greeting", Hello): "up",
    ("greeting", Goodbye): "closed",
    ("up", Status): "up",
    ("up", Phase): "up",
    ("up", Events): "up",
    ("up", Refused): "up",
    ("up", Released): "up",
    ("up", StatesTold): "up",
    ("up", Ping): "up",
    ("up", Pong): "up",
    ("up", Goodbye): "closed",
}
GATEWAY_SAYS: _Table = {
    ("greeting", Goodbye): "closed",
    ("up", Open): "up",
    ("up", Credit): "up",
    ("up", Cancel): "up",
    ("up", Want): "up",
    ("up", Vacate): "up",
    ("up", Pull): "up",
    ("up", CancelPull): "up",
    ("up", Order): "up",
    ("up", StateOrder): "up",
    ("up", Goodbye): "closed",
}
"""Hello of the node, Welcome, pings and pongs are said by the machines themselves."""


class Side(msgspec.Struct, frozen=True):
    """What tells one end from the other: whom it speaks with, and its two tables."""

    peer: str
    hears: _Table
    says: _Table


NODE_SIDE = Side("gateway", NODE_HEARS, NODE_SAYS)
GATEWAY_SIDE = Side("node", GATEWAY_HEARS, GATEWAY_SAYS)

_Message_co = TypeVar("_Message_co", covariant=True)


class Deliver(msgspec.Struct, Generic[_Message_co], frozen=True):
    """Give this message to the room behind the link; it was legal."""

    message: _Message_co


class Send(msgspec.Struct, Generic[_Message_co], frozen=True):
    """Put this message on the connection."""

    message: _Message_co


class Close(msgspec.Struct, frozen=True):
    """Close the connection, after what was sent before; `again` says whether to dial anew."""

    failure: Failure
    again: bool = True


NodeOutput: TypeAlias = Deliver[FromGateway] | Send[FromNode] | Close
GatewayOutput: TypeAlias = Deliver[FromNode] | Send[FromGateway] | Close
