"""SHELL: asks a server once, on a connection of its own, and takes the whole answer.

That a kept connection still works says little about a server whose listener is gone, and on one to
a server that has come back the next call would be answered by silence.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import msgspec

from roost.gateway.front.defects import report

if TYPE_CHECKING:
    from roost.gateway.front.rendering import Headers
    from roost.gateway.upstream.client import ConnectionPool


class Whole(msgspec.Struct, frozen=True):
    """An answer; its `body` is b"" where it `is_too_long`."""

    status: int
    body: bytes = b""
    retry_after: str = ""
    is_too_long: bool = False


async def ask_whole(
    pool: ConnectionPool, request: bytes, limit_s: float, body_max: int
) -> Whole | None:
    """Ask, and take a body of up to `body_max` bytes; None where no answer comes within `limit_s`.

    It never raises: who asks does so again and again, and nothing else brings a server back.
    """
    taker = _Taker(body_max)
    try:
        async with asyncio.timeout(limit_s):
            connection = await pool.open()
            try:
                connection.ask(request, taker, once=True)
                return await taker.answer
            finally:
                connection.abort()
    except OSError:
        return None
    except Exception as error:  # noqa: BLE001 - a defect is no server's end
        report(error)
        return None


class _Taker:
    def __init__(self, body_max: int) -> None:
        self.answer: asyncio.Future[Whole | None] = asyncio.get_running_loop().create_future()
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
            self._tell(Whole(self._status, b"", self._retry_after, is_too_long=True))
        elif last:
            self._tell(Whole(self._status, b"".join(self._body), self._retry_after))

    def on_lost(self, *, any_byte: bool, reused: bool) -> None:
        self._tell(None)

    def _tell(self, answer: Whole | None) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)
