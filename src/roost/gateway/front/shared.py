"""SHELL: what all connections of one front have in common, and the seam for routes by callback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import msgspec

from roost.dialects.openai_errors import error_body as openai_error
from roost.errors import Failure
from roost.gateway.front.asgi import App
from roost.gateway.front.bodies import Bodies
from roost.gateway.front.exchange import Exchange
from roost.gateway.front.limits import FrontLimits
from roost.gateway.front.rendering import Errors
from roost.gateway.front.uvicorn_base import Config, ServerState
from roost.gateway.request_ids import RequestIds
from roost.gateway.tasks import Tasks


def openai_errors(failure: Failure, _path: bytes, _request_id: str) -> tuple[int, bytes]:
    """Render every failure as OpenAI does, whatever was asked for."""
    return openai_error(failure)


Handler: TypeAlias = Callable[[Exchange], None]
"""Who answers a request once its body is whole."""


class Early(msgspec.Struct, frozen=True):
    """Who answers without the body: the head alone has decided."""

    handler: Handler


Match: TypeAlias = Handler | Early | Failure | None
"""Who answers: once the body is whole, or at once, or with a failure at once; None for ASGI."""


class Direct(Protocol):
    """Routes that are served by callbacks, without a task and without ASGI messages."""

    def match(self, exchange: Exchange) -> Match:
        """Find who answers."""
        ...


class Client(Protocol):
    """One connection, as the front that has them all sees it."""

    transport: asyncio.Transport

    @property
    def busy(self) -> bool:
        """Whether a request is being received or answered."""
        ...

    @property
    def unsent(self) -> bool:
        """Whether a part of a reply waits for the client to take it."""
        ...

    def on_sweep(self, now: float) -> None:
        """Enforce deadlines."""
        ...

    def shutdown(self) -> None:
        """Close soon if nothing is going on, else after the reply."""
        ...


@dataclass
class Shared:
    """One front's settings, its live connections and tasks.

    `common` is header lines that every reply has, `changed` is set whenever a request or connection
    ends, `draining` makes every reply the last of its connection, `bodies` is the memory that all
    request bodies share.
    """

    app: App
    limits: FrontLimits
    config: Config
    direct: Direct | None = None
    errors: Errors = openai_errors
    ids: RequestIds = field(default_factory=RequestIds)
    tasks: Tasks = field(default_factory=Tasks)
    state: ServerState = field(default_factory=ServerState)
    connections: set[Client] = field(default_factory=set)
    common: bytes = b""
    draining: bool = False
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    bodies: Bodies = field(init=False)

    def __post_init__(self) -> None:
        self.bodies = Bodies(self.limits.bodies_max_bytes)
