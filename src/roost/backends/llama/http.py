"""SHELL: HTTP/1.1 to a server that computes, one request on one connection.

A connection of its own for every request is what makes cancellation simple: closing it is the only
message that such a server understands as "stop". To a child of ours connecting costs 50 µs.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

HEAD_MAX_BYTES = 64 * 1024
PIECE_MAX_BYTES = 32 * 1024 * 1024
BODY_MAX_BYTES = 64 * 1024 * 1024
CONNECT_TIMEOUT_S = 10.0


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


class Exchange:
    """One request and its answer. `close` in the end, whatever happens."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._headers: dict[str, str] | None = None

    async def send(self, method: str, path: str, body: bytes = b"") -> None:
        """Connect and send; raises `Lost`."""
        head = (
            f"{method} {self._place.base}{path} HTTP/1.1\r\n{self._place.head}"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                self._reader, self._writer = await self._connect()
            self._writer.write(head.encode() + body)
            await self._writer.drain()
        except (OSError, TimeoutError) as error:
            raise Lost("it cannot be connected to") from error

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._place.socket:
            return await asyncio.open_unix_connection(self._place.socket, limit=HEAD_MAX_BYTES)
        host, port = self._place.host.strip("[]"), self._place.port
        return await asyncio.open_connection(host, port, ssl=self._place.tls, limit=HEAD_MAX_BYTES)

    async def status(self) -> int:
        """Read the head of the answer and return its status; raises `Lost`."""
        head = await self._until(b"\r\n\r\n")
        try:
            first, *lines = head.decode("latin-1").rstrip().split("\r\n")
            pairs = (line.partition(":") for line in lines)
            self._headers = {name.lower(): value.strip() for name, _, value in pairs}
            return int(first.split(" ")[1])
        except (ValueError, IndexError) as error:
            raise Lost("its answer is no HTTP") from error

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Read the body as it comes; raises `Lost` where it ends too early."""
        headers = self._headers or {}
        if headers.get("transfer-encoding", "").lower() == "chunked":
            while piece := await self._chunk():
                yield piece
        elif "content-length" in headers:
            left = _whole(headers["content-length"], 10)
            while left:
                piece = await self._exactly(min(left, HEAD_MAX_BYTES))
                left -= len(piece)
                yield piece
        else:
            while piece := await self._some():
                yield piece

    async def body(self) -> bytes:
        """Read the whole body, at most `BODY_MAX_BYTES`; raises `Lost`."""
        found = bytearray()
        async with aclosing(self.pieces()) as pieces:
            async for piece in pieces:
                found += piece
                if len(found) > BODY_MAX_BYTES:
                    raise Lost("its answer is too long")
        return bytes(found)

    async def close(self) -> None:
        """Drop the connection; what has been sent is seen by the server before this returns.

        A request that the server has not begun to answer may not even be in its queue yet, and then
        its slot looks free before it is taken: so first wait for the answer to begin. The caller
        bounds the time.
        """
        if self._writer is None:
            return
        try:
            if self._headers is None:
                await self._until(b"\r\n\r\n")
        except Lost:
            pass
        finally:
            self.drop()

    def drop(self) -> None:
        """Drop the connection at once, with whatever is still unsent."""
        if self._writer:
            self._writer.transport.abort()

    async def _chunk(self) -> bytes:
        size = _whole((await self._until(b"\r\n")).partition(b";")[0].decode("latin-1"), 16)
        if size > PIECE_MAX_BYTES:
            raise Lost("its answer is too long")
        return (await self._exactly(size + 2))[:size]

    async def _until(self, mark: bytes) -> bytes:
        assert self._reader
        try:
            return await self._reader.readuntil(mark)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise Lost("its answer was cut off") from error

    async def _exactly(self, size: int) -> bytes:
        assert self._reader
        try:
            return await self._reader.readexactly(size)
        except (OSError, asyncio.IncompleteReadError) as error:
            raise Lost("its answer was cut off") from error

    async def _some(self) -> bytes:
        assert self._reader
        try:
            return await self._reader.read(HEAD_MAX_BYTES)
        except OSError as error:
            raise Lost("its answer was cut off") from error


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


def _whole(text: str, base: int) -> int:
    try:
        value = int(text, base)
    except ValueError as error:
        raise Lost("its answer is no HTTP") from error
    if value < 0:
        raise Lost("its answer is no HTTP")
    return value
