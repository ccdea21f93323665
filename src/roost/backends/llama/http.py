"""SHELL: HTTP/1.1 to a server that computes, one request on one connection.

A connection of its own for every request is what makes cancellation simple: closing it is the only
message that such a server understands as "stop". To a child of ours connecting costs 50 µs.

Bytes are taken apart where they arrive. A task that waits for a body may leave a tap there, which
then hears of each piece without the task: of a stream, that is every token.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeAlias, cast

import msgspec

from roost.backends.llama.framing import NO_HTTP, TOO_LONG, Framing, framing_of

HEAD_MAX_BYTES = 64 * 1024
HELD_MAX_BYTES = 128 * 1024
"""What comes while nobody reads, beyond which the server has to wait."""

BODY_MAX_BYTES = 64 * 1024 * 1024
CONNECT_TIMEOUT_S = 10.0
CUT_OFF = "its answer was cut off"

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

    @property
    def head(self) -> str:
        """The headers that every request to it has."""
        name = "localhost" if self.socket else f"{self.host}:{self.port}"
        key = f"Authorization: Bearer {self.key}\r\n" if self.key else ""
        return f"Host: {name}\r\nConnection: close\r\n{key}"


class _Socket(asyncio.Protocol):
    """A connection: what has come and is not read, and the one who waits for more of it."""

    def __init__(self) -> None:
        self.held = bytearray()
        self.ended = False
        self.transport: asyncio.Transport | None = None
        self._defect: Exception | None = None
        self._tap: Callable[[], bool] | None = None
        self._reader: asyncio.Future[None] | None = None
        self._room = asyncio.Event()
        self._room.set()
        self._is_paused = False

    async def more(self, tap: Callable[[], bool] | None = None) -> None:
        """Return once there is more than before, or nothing more comes.

        With a `tap` only once that has said False to what came, or raised something.
        """
        if self._is_paused and self.transport is not None:
            self._is_paused = False
            self.transport.resume_reading()
        if not self.ended:
            self._reader, self._tap = asyncio.get_running_loop().create_future(), tap
            try:
                await self._reader
            finally:
                self._reader = self._tap = None
        if self._defect is not None:
            raise self._defect

    async def write(self, data: bytes) -> None:
        """Write, and wait until the server has taken most of it, or has gone."""
        assert self.transport is not None, "it is connected"
        self.transport.write(data)
        await self._room.wait()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It stands."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Let who waits have it; what nobody waits for is kept, up to a limit."""
        self.held += data
        if self._reader is None or self._reader.done():
            if len(self.held) > HELD_MAX_BYTES and not self._is_paused and self.transport:
                self._is_paused = True
                self.transport.pause_reading()
            return
        try:
            goes_on = self._tap is not None and self._tap()
        except Exception as error:  # noqa: BLE001 - raised again to whoever reads
            self._defect, goes_on = error, False
        if not goes_on:
            self._wake()

    def eof_received(self) -> None:
        """Nothing more comes, and nothing more is said."""
        self._end()

    def connection_lost(self, _error: Exception | None) -> None:
        """It is gone."""
        self._end()

    def pause_writing(self) -> None:
        """The server does not read."""
        self._room.clear()

    def resume_writing(self) -> None:
        """It does."""
        self._room.set()

    def _end(self) -> None:
        self.ended = True
        self._room.set()
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class Exchange:
    """One request and its answer. `close` in the end, whatever happens."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._socket: _Socket | None = None
        self._headers: dict[str, str] | None = None

    async def send(self, method: str, path: str, body: bytes = b"") -> None:
        """Connect and send; raises `Lost`."""
        head = (
            f"{method} {self._place.base}{path} HTTP/1.1\r\n{self._place.head}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                self._socket = await self._connect()
            await self._socket.write(head.encode() + body)
        except (OSError, TimeoutError) as error:
            raise Lost("it cannot be connected to") from error

    async def _connect(self) -> _Socket:
        loop, place = asyncio.get_running_loop(), self._place
        if place.socket:
            return (await loop.create_unix_connection(_Socket, place.socket))[1]
        host = place.host.strip("[]")
        return (await loop.create_connection(_Socket, host, place.port, ssl=place.tls))[1]

    async def status(self) -> int:
        """Read the head of the answer and return its status; raises `Lost`."""
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
            framing = framing_of(self._headers or {})
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

    def drop(self) -> None:
        """Drop the connection at once, with whatever is still unsent."""
        if self._socket and self._socket.transport:
            self._socket.transport.abort()

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

    def _connected(self) -> _Socket:
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
    place: Place, method: str, path: str, body: bytes = b"", *, timeout_s: float
) -> tuple[int, bytes]:
    """Make a request and read the whole answer; raises `Lost`, also after `timeout_s`."""
    exchange = Exchange(place)
    try:
        async with asyncio.timeout(timeout_s):
            await exchange.send(method, path, body)
            status = await exchange.status()
            return status, await exchange.body()
    except TimeoutError as error:
        raise Lost("it did not answer in time") from error
    finally:
        exchange.drop()
