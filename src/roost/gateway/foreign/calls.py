"""SHELL: HTTP to one worker of system 1: a connection for each call, and a time limit on each.

Connections are not kept: a worker that died and came back would answer the next call on an old one
with silence, and a new connection costs nothing next to a prefill.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from roost.gateway.upstream.client import ClientLimits, ConnectionPool
from roost.gateway.upstream.headers import request_prefix

if TYPE_CHECKING:
    from roost.gateway.front.rendering import Headers
    from roost.gateway.upstream.targets import Target

SESSIONS = "/worker/sessions"


class Reply(msgspec.Struct, frozen=True):
    """A whole answer."""

    status: int
    body: bytes
    retry_after: str = ""


class WorkerCalls:
    """Asks one worker; made anew when its address or key changes."""

    def __init__(self, target: Target, key: str, limits: ClientLimits) -> None:
        target = msgspec.structs.replace(target, key=key or None)
        self._base = target.base.encode()
        self._prefix = request_prefix(target)
        self._pool = ConnectionPool(target, limits)

    async def ask(
        self, method: str, path: str, body: bytes | None, limit_s: float, body_max: int
    ) -> Reply | None:
        """Ask and read the whole answer; None where none comes in time, or it is too long."""
        taker = _Whole(body_max)
        try:
            async with asyncio.timeout(limit_s):
                connection = await self._pool.open()
                try:
                    connection.ask(self.request(method, path, body), taker, once=True)
                    return await taker.answer
                finally:
                    connection.abort()
        except OSError:
            return None

    def request(self, method: str, path: str, body: bytes | None) -> bytes:
        """Render a request."""
        head = b"%b %b%b HTTP/1.1\r\n%b" % (
            *(method.encode(), self._base, path.encode(), self._prefix),
        )
        if body is None:
            return head + b"\r\n"
        length = b"content-length: %d\r\n" % len(body)
        return head + b"content-type: application/json\r\n" + length + b"\r\n" + body

    def close(self) -> None:
        """End every call."""
        self._pool.close()


class _Whole:
    """Takes an answer and keeps all of it, up to so many bytes."""

    def __init__(self, body_max: int) -> None:
        self.answer: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
        self._room = body_max
        self._body: list[bytes] = []
        self._status = 0
        self._retry_after = ""

    def on_answer(self, status: int, headers: Headers) -> None:
        self._status = status
        self._retry_after = dict(headers).get(b"retry-after", b"").decode("latin-1")

    def on_piece(self, data: bytes, *, last: bool, framed: bool) -> None:
        self._room -= len(data)
        self._body.append(data)
        if self._room < 0:
            self._tell(None)
        elif last:
            self._tell(Reply(self._status, b"".join(self._body), self._retry_after))

    def on_lost(self, *, any_byte: bool, reused: bool) -> None:
        self._tell(None)

    def _tell(self, reply: Reply | None) -> None:
        if not self.answer.done():
            self.answer.set_result(reply)
