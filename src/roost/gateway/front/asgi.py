"""VALUE: the part of ASGI that is spoken here, with types.

One record per direction instead of one per message: a handler reads what its message has.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias, TypedDict

from roost.core.ids import RequestId
from roost.gateway.front.access import Principal

Headers: TypeAlias = list[tuple[bytes, bytes]]


class Scope(TypedDict, total=False):
    """A request head. `type` is `http` or `websocket`; only http has a method and a `request_id`.

    `path` is percent-decoded, `raw_path` is as sent. `principal` is set by the guard.
    """

    type: str
    asgi: dict[str, str]
    http_version: str
    scheme: str
    method: str
    path: str
    raw_path: bytes
    query_string: bytes
    root_path: str
    headers: Headers
    client: tuple[str, int] | None
    server: tuple[str, int | None] | None
    state: dict[str, object]
    subprotocols: list[str]
    request_id: RequestId
    principal: Principal


class Received(TypedDict, total=False):
    """What a client sent: a piece of body, a WebSocket message, or its leaving."""

    type: str
    body: bytes
    more_body: bool
    bytes: bytes | None
    text: str | None
    code: int


class Sent(TypedDict, total=False):
    """What goes to a client."""

    type: str
    status: int
    headers: Headers
    body: bytes
    more_body: bool
    bytes: bytes | None
    text: str | None
    code: int
    reason: str


Receive: TypeAlias = Callable[[], Awaitable[Received]]
Send: TypeAlias = Callable[[Sent], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]
