"""VALUE: what the pool of a stateless gateway decides, and what it shows of itself."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from roost.core.ids import LeaseId
from roost.errors import Failure

Health = Literal["unknown", "healthy", "unhealthy"]


class Lease(msgspec.Struct, frozen=True):
    """A place on a server, from the moment of choice."""

    id: LeaseId
    server: str


class Granted(msgspec.Struct, frozen=True):
    """The request of this ticket goes to the leased server."""

    ticket: int
    lease: Lease


class Queued(msgspec.Struct, frozen=True):
    """The request waits for a place; a later event grants or refuses it."""

    ticket: int


class Refused(msgspec.Struct, frozen=True):
    """The request of this ticket is refused."""

    ticket: int
    failure: Failure


class HealthChanged(msgspec.Struct, frozen=True):
    """A server has entered or left the pool."""

    server: str
    healthy: bool


class StallChanged(msgspec.Struct, frozen=True):
    """All answers of a server stand still, or one of them has moved or ended."""

    server: str
    stalled: bool


class Forgotten(msgspec.Struct, frozen=True):
    """A server that was taken off the list has nothing left to do."""

    server: str


PoolEffect: TypeAlias = Granted | Queued | Refused | HealthChanged | StallChanged | Forgotten


class ServerView(msgspec.Struct, frozen=True):
    """One server as reports and metrics show it; `models` is None while its list is unknown.

    `drained` is an operator's wish, or that the server is off the list and still finishing.
    """

    server: str
    health: Health
    in_flight: int
    served: int
    drained: bool = False
    stalled: bool = False
    models: tuple[str, ...] | None = None


class PoolView(msgspec.Struct, frozen=True):
    """The whole pool; `rejected` for want of room, `unavailable` for want of a healthy server."""

    servers: tuple[ServerView, ...]
    queued: int
    rejected: int
    unavailable: int
