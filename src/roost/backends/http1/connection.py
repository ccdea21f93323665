"""SHELL: a connection to a server, and those that wait for the next request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

HELD_MAX_BYTES = 128 * 1024
"""What comes while nobody reads, beyond which the server has to wait."""

KEPT_MAX = 8
"""Each takes a thread of the server, which ends those that nobody uses after some seconds."""


class Socket(asyncio.Protocol):
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

    def abort(self) -> None:
        """Drop it at once, with whatever is still unsent."""
        if self.transport is not None:
            self.transport.abort()

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


class Kept:
    """Connections of one server whose last answer has ended, the newest first."""

    def __init__(self) -> None:
        self._resting: list[Socket] = []
        self._is_closed = False

    def give(self, socket: Socket) -> None:
        """Keep one, from which an answer was read to its end."""
        if self._is_closed or socket.ended or len(self._resting) == KEPT_MAX:
            socket.abort()
        else:
            self._resting.append(socket)

    def take(self) -> Socket | None:
        """Give one that still stands and holds nothing that nobody has asked for, None for none."""
        while self._resting:
            socket = self._resting.pop()
            if not (socket.held or socket.ended):
                return socket
            socket.abort()
        return None

    def close(self) -> None:
        """Drop all of them; none is kept from now on."""
        self._is_closed = True
        while self._resting:
            self._resting.pop().abort()
