"""SHELL: HTTP/1.1 to a server that computes, one request on one connection.

A connection has one request at a time, which is what makes cancellation simple: closing it is the
only message that such a server understands as "stop". One whose answer has ended by itself may be
kept for the next request, where the server does so too.

Bytes are taken apart where they arrive. A task that waits for a body may leave a tap there, which
then hears of each piece without the task: of a stream, that is every token.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeAlias

import msgspec

from roost.backends.http1.connection import Kept, Socket
from roost.backends.http1.framing import NO_HTTP, TOO_LONG, Framing, framing_of

HEAD_MAX_BYTES = 64 * 1024
BODY_MAX_BYTES = 64 * 1024 * 1024
CONNECT_TIMEOUT_S = 10.0
CUT_OFF = "its answer was cut off"
CLOSE = "Connection: close\r\n"

Tap: TypeAlias = Callable[[bytes], bool]
"""Told of a piece of a body; says whether it is to be told of the next."""


class Lost(Exception):  # noqa: N818 - what happened, in one word
    """The connection broke, or what came over it was no HTTP."""


class Place(msgspec.Struct, frozen=True):
    """Where a server listens and the key it asks for, "" for none.

    `socket` is a path; "" means `port` of `host`. `base` comes before every path.
    """

    socket: str
    port: int
    key: str
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    base: str = ""

    def head(self, *, kept: bool) -> str:
        """The headers that every request to it has; `kept` says whether for one request alone."""
        name = "localhost" if self.socket else f"{self.host}:{self.port}"
        key = f"Authorization: Bearer {self.key}\r\n" if self.key else ""
        return f"Host: {name}\r\n{'' if kept else CLOSE}{key}"


class Exchange:
    """One request and its answer. `leave`, `close` or `drop` in the end, whatever happens.

    With `kept` its connection may be one of those, and become one. That is for questions, which may
    be asked again: the server can have closed a kept connection in the meantime.
    """

    def __init__(self, place: Place, kept: Kept | None = None) -> None:
        self._place = place
        self._kept = kept
        self._request = b""
        self._is_reused = self._is_over = False
        self._framing: Framing | None = None
        self._socket: Socket | None = None
        self._headers: dict[str, str] | None = None

    async def send(self, method: str, path: str, body: bytes = b"") -> None:
        """Connect and send; raises `Lost`."""
        head = (
            f"{method} {self._place.base}{path} HTTP/1.1\r\n"
            f"{self._place.head(kept=self._kept is not None)}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._request = head.encode() + body
        self._socket = self._kept.take() if self._kept is not None else None
        self._is_reused = self._socket is not None
        if self._socket is not None:
            await self._socket.write(self._request)
        else:
            await self._send_anew()

    async def _send_anew(self) -> None:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                self._socket = await self._connect()
            await self._socket.write(self._request)
        except (OSError, TimeoutError) as error:
            raise Lost("it cannot be connected to") from error

    async def _connect(self) -> Socket:
        loop, place = asyncio.get_running_loop(), self._place
        if place.socket:
            return (await loop.create_unix_connection(Socket, place.socket))[1]
        host = place.host.strip("[]")
        return (await loop.create_connection(Socket, host, place.port, ssl=place.tls))[1]

    async def status(self) -> int:
        """Read the head of the answer and return its status; raises `Lost`."""
        try:
            head = await self._head()
        except Lost:
            if not self._is_reused or self._connected().held:
                raise
            # Most likely the server has closed it in the meantime, before it has read this.
            self._is_reused = False
            await self._send_anew()
            head = await self._head()
        try:
            first, *lines = head.decode("latin-1").split("\r\n")
            pairs = (line.partition(":") for line in lines)
            self._headers = {name.lower(): value.strip() for name, _, value in pairs}
            return int(first.split(" ")[1])
        except (ValueError, IndexError) as error:
            raise Lost(NO_HTTP) from error

    async def pieces(self, tap: Tap | None = None) -> AsyncGenerator[bytes, None]:
        """Read the body as it comes; raises `Lost` where it ends too early.

        While this waits, `tap` is given each piece in the moment it comes, and no task wakes up. A
        piece that it says False to it has taken as well; an empty one is yielded then, and the
        pieces after it, until this waits again.
        """
        socket = self._connected()
        try:
            framing = self._framing = framing_of(self._headers or {})
            tapped = _Tapped(framing, socket.held, tap)
            while True:
                piece = framing.take(socket.held)
                if piece or tapped.refused:
                    tapped.refused = False
                    yield piece
                elif framing.over or (socket.ended and framing.ends_with_it):
                    return
                elif socket.ended:
                    raise Lost(CUT_OFF)
                else:
                    await socket.more(tapped if tap is not None else None)
        except ValueError as error:
            raise Lost(str(error)) from error

    async def body(self) -> bytes:
        """Read the whole body, at most `BODY_MAX_BYTES`; raises `Lost`."""
        found = bytearray()
        async with aclosing(self.pieces()) as pieces:
            async for piece in pieces:
                found += piece
                if len(found) > BODY_MAX_BYTES:
                    raise Lost(TOO_LONG)
        return bytes(found)

    async def close(self) -> None:
        """Drop the connection; what has been sent is seen by the server before this returns.

        A request that the server has not begun to answer may not even be in its queue yet, and then
        its slot looks free before it is taken: so first wait for the answer to begin. The caller
        bounds the time.
        """
        if self._socket is None:
            return
        try:
            if self._headers is None:
                await self._head()
        except Lost:
            pass
        finally:
            self.drop()

    def leave(self) -> None:
        """Let go of the connection; it is kept where it may be and all of the answer was read."""
        is_read = self._framing is not None and self._framing.over
        if self._kept is None or not is_read or "keep-alive" not in (self._headers or {}):
            self.drop()
        else:
            self._is_over = True
            self._kept.give(self._connected())

    def drop(self) -> None:
        """Drop the connection at once, with whatever is still unsent, unless it was left before."""
        if self._socket is not None and not self._is_over:
            self._is_over = True
            self._socket.abort()

    async def _head(self) -> bytes:
        socket = self._connected()
        while (end := socket.held.find(b"\r\n\r\n")) < 0:
            if socket.ended or len(socket.held) > HEAD_MAX_BYTES:
                raise Lost(CUT_OFF)
            await socket.more()
        if end > HEAD_MAX_BYTES:
            raise Lost(TOO_LONG)
        head = bytes(socket.held[:end])
        del socket.held[: end + 4]
        return head

    def _connected(self) -> Socket:
        assert self._socket is not None, "a request is sent before its answer is read"
        return self._socket


class _Tapped:
    """Gives a tap the pieces of a body; `refused` once it has said False to one."""

    def __init__(self, framing: Framing, held: bytearray, tap: Tap | None) -> None:
        self._framing = framing
        self._held = held
        self._tap = tap
        self.refused = False

    def __call__(self) -> bool:
        piece = self._framing.take(self._held)
        if piece and self._tap is not None and not self._tap(piece):
            self.refused = True
            return False
        return not self._framing.over


async def call(
    place: Place,
    method: str,
    path: str,
    body: bytes = b"",
    *,
    timeout_s: float,
    kept: Kept | None = None,
) -> tuple[int, bytes]:
    """Make a request and read the whole answer; raises `Lost`, also after `timeout_s`.

    With `kept` it is a question, see `Exchange`.
    """
    exchange = Exchange(place, kept)
    try:
        async with asyncio.timeout(timeout_s):
            await exchange.send(method, path, body)
            status, found = await exchange.status(), await exchange.body()
        exchange.leave()
        return status, found
    except TimeoutError as error:
        raise Lost("it did not answer in time") from error
    finally:
        exchange.drop()
