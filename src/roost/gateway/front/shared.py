"""SHELL: what all connections of one front have in common, and the seam for routes by callback."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, TypeAlias

import msgspec

from roost.dialects.openai.errors import error_body as openai_error
from roost.errors import Failure
from roost.gateway.front.asgi import App
from roost.gateway.front.bodies import Bodies
from roost.gateway.front.defects import failure_of
from roost.gateway.front.exchange import Exchange
from roost.gateway.front.limits import FrontLimits
from roost.gateway.front.refusals import DRAINING
from roost.gateway.front.rendering import Errors, failure_headers, head_bytes, id_lines
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

    def use(self, limits: FrontLimits) -> None:
        """Go by these limits from now on; a connection that stands keeps its deadlines."""
        self.limits = limits
        self.bodies.max_bytes = limits.bodies_max_bytes

    def who_answers(self, exchange: Exchange, otherwise: Handler) -> tuple[Handler, bool]:
        """Say who answers, `otherwise` where no route does, and whether without the body."""
        answer = self._match(exchange)
        match answer:
            case None:
                return otherwise, True
            case Failure():
                return partial(Exchange.fail, failure=answer), True
            case Early(handler):
                return handler, True
            case _:
                return answer, False

    def _match(self, exchange: Exchange) -> Match:
        if self.draining:
            exchange.keep_alive = False
            return DRAINING
        try:
            return self.direct.match(exchange) if self.direct is not None else None
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            return failure_of(error, exchange.request_id)

    def last_reply(self, failure: Failure, path: bytes) -> bytes:
        """Render a failure that no exchange is for: the connection ends with it."""
        request_id = self.ids()
        status, body = self.errors(failure, path, request_id)
        length = (b"content-length", b"%d" % len(body))
        lines = [*failure_headers(failure), length, (b"connection", b"close")]
        return head_bytes(status, lines, id_lines(request_id) + self.common) + body
