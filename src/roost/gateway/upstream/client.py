"""SHELL: connections to one server: a raw protocol over the HTTP parser, kept in a small pool.

A kept connection may have been closed by the server in the same moment that we use it. That is no
failure of the server: the taker is told `reused`, and may try once more on a new connection.
"""

from __future__ import annotations

import asyncio
import ssl
from typing import Protocol, cast

import msgspec

from roost.gateway.front.defects import report
from roost.gateway.front.rendering import Headers
from roost.gateway.http1 import (
    HttpParserCallbackError,
    HttpParserError,
    HttpParserUpgrade,
    HttpResponseParser,
)
from roost.gateway.upstream.targets import Target

_BODILESS = frozenset({204, 304})


class ClientLimits(msgspec.Struct, frozen=True):
    """Limits of the connections to one server.

    `kept` connections stay open for up to `kept_s` without use. An answer's head may have
    `head_max_bytes`; more than `write_buffer_bytes` is not read ahead of a slow client.
    """

    connect_s: float = 2.0
    kept: int = 64
    kept_s: float = 4.0
    head_max_bytes: int = 65_536


class Taker(Protocol):
    """Who asked, and takes the answer. Exactly one `last` piece or one `on_lost` ends it."""

    def on_answer(self, status: int, headers: Headers) -> None:
        """Take the head of the answer; names are in lower case."""
        ...

    def on_piece(self, data: bytes, *, last: bool, framed: bool) -> None:
        """Take a piece of body. At the last one, `framed` says that the server marked its end."""
        ...

    def on_lost(self, *, any_byte: bool, reused: bool) -> None:
        """Hear that the connection is gone or speaks no HTTP; `any_byte` of an answer had come."""
        ...


class UpstreamConnection(asyncio.Protocol):
    """One connection to a server, asked one thing at a time."""

    def __init__(self, pool: ConnectionPool) -> None:
        self._pool = pool
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []
        # The parser calls this once per chunk: a bound method of the list costs no Python frame.
        # It looks for it when it is made, so this stands first.
        self.on_body = self._pieces.append
        self._parser = HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._taker: Taker | None = None
        self._headers: Headers = []
        self._head_bytes = 0
        self._status = 0
        self._whole_pieces = 0
        self._ended = self._junk = self._until_close = self._any_byte = self._reused = False
        self.touched_s = self._loop.time()

    @property
    def usable(self) -> bool:
        """Whether something may be asked on it."""
        transport = self._transport
        return transport is not None and not transport.is_closing() and self._taker is None

    @property
    def _unsent(self) -> bool:
        """Whether the server has answered without reading, and may read something else next."""
        return self._transport is not None and self._transport.get_write_buffer_size() > 0

    def ask(self, request: bytes, taker: Taker, *, once: bool = False) -> None:
        """Send a request; the answer goes to `taker`.

        After its answer the connection is anybody's, and whoever asked must not touch it again,
        unless this was `once`: then it is closed.
        """
        assert self._transport is not None, "asked before it was connected"
        self._taker = taker
        self._junk = self._junk or once
        self._headers = []
        self._head_bytes = self._status = 0
        self._ended = self._any_byte = False
        self.touched_s = self._loop.time()
        if self._transport.is_closing():
            # Closed by the server before whoever opened it had its turn. Nothing more would be
            # heard of it: its loss has been told, to nobody.
            self._loop.call_soon(self._lose)
        else:
            self._transport.write(request)

    def pause(self) -> None:
        """Read no more for now: the client does not keep up."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again; the silence until now was ours."""
        self.touched_s = self._loop.time()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        """Close at once and tell nobody: the server sees that its answer is not wanted any more."""
        self._taker = None
        self._pool.forget(self)
        if self._transport is not None:
            self._transport.abort()

    # What the transport says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        # No isinstance: uvloop's transports are not of asyncio's class.
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Parse what has come in and pass it on in one piece."""
        self._any_byte = True
        self.touched_s = self._loop.time()
        if self._status == 0:
            self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:
            if isinstance(error, HttpParserCallbackError) and error.__context__ is not None:
                # Not the server's doing: a taker of ours has failed, and the parser hides it.
                report(error.__context__)
            self._lose()
            return
        if self._status == 0 and self._head_bytes > self._pool.limits.head_max_bytes:
            self._lose()
            return
        self._pass_on()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the taker, if there is one."""
        self._pool.forget(self)
        if self._until_close and exc is None and self._taker is not None:
            self._end(framed=False)
        else:
            self._lose()

    # What the parser says.

    def on_message_begin(self) -> None:
        """Notice an answer to nothing."""
        self._junk = self._junk or self._taker is None or self._ended
        self._headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header; what comes after the head is a trailer and is dropped."""
        if self._status == 0:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """Pass the head on, unless it is an interim one."""
        status = self._parser.get_status_code()
        if status < 200 or self._taker is None or self._ended:
            return
        self._status = status
        names = {name for name, _ in self._headers}
        framed = b"content-length" in names or b"transfer-encoding" in names
        self._until_close = not framed and status not in _BODILESS
        self._junk = self._junk or not self._parser.should_keep_alive()
        self._taker.on_answer(status, self._headers)

    def on_message_complete(self) -> None:
        """Note the end of the answer; what may follow it in the same read belongs to nobody."""
        if not self._ended:
            self._ended = self._status != 0
            self._whole_pieces = len(self._pieces)

    # Passing on.

    def _pass_on(self) -> None:
        pieces, taker = self._pieces, self._taker
        if taker is None:
            self.abort()
        elif self._ended:
            self._end(framed=True)
        elif pieces:
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            taker.on_piece(data, last=False, framed=False)

    def _end(self, *, framed: bool) -> None:
        taker, self._taker = self._taker, None
        data = b"".join(self._pieces[: self._whole_pieces] if framed else self._pieces)
        self._pieces.clear()
        self._reused = True
        if self._junk or not framed or self._unsent:
            self.abort()
        else:
            self._pool.give_back(self)
        if taker is not None:
            taker.on_piece(data, last=True, framed=framed)

    def _lose(self) -> None:
        taker, self._taker = self._taker, None
        self.abort()
        if taker is not None:
            taker.on_lost(any_byte=self._any_byte, reused=self._reused)


class ConnectionPool:
    """The connections to one server, the most recently used first.

    `tls` says whom to trust behind https, the system's authorities if it is left out.
    """

    def __init__(
        self, target: Target, limits: ClientLimits, tls: ssl.SSLContext | None = None
    ) -> None:
        self.target = target
        self.limits = limits
        self._kept: list[UpstreamConnection] = []
        self._all: set[UpstreamConnection] = set()
        self._tls = (tls or ssl.create_default_context()) if target.tls else None

    def take(self) -> UpstreamConnection | None:
        """Return a kept connection, or None if a new one has to be opened."""
        oldest = asyncio.get_running_loop().time() - self.limits.kept_s
        while self._kept:
            connection = self._kept.pop()
            if connection.usable and connection.touched_s > oldest:
                return connection
            connection.abort()
        return None

    async def open(self) -> UpstreamConnection:
        """Open a new connection; `OSError` where that fails or takes too long."""
        loop = asyncio.get_running_loop()
        target = self.target
        # The certificate has to be for the name, also where its address is known already.
        name = (target.called or None) if target.tls else None
        async with asyncio.timeout(self.limits.connect_s):
            _, connection = await loop.create_connection(
                *(lambda: UpstreamConnection(self), target.host, target.port),
                ssl=self._tls,
                server_hostname=name,
            )
        self._all.add(connection)
        return connection

    def give_back(self, connection: UpstreamConnection) -> None:
        """Keep a connection for the next request, or close it if enough are kept."""
        connection.touched_s = asyncio.get_running_loop().time()
        if len(self._kept) < self.limits.kept and connection.usable:
            self._kept.append(connection)
        else:
            connection.abort()

    def forget(self, connection: UpstreamConnection) -> None:
        """Drop a connection that is gone."""
        self._all.discard(connection)
        if connection in self._kept:
            self._kept.remove(connection)

    def sweep(self, now: float) -> None:
        """Close what was kept unused for too long, before the server does."""
        for connection in [c for c in self._kept if c.touched_s <= now - self.limits.kept_s]:
            connection.abort()

    def close(self) -> None:
        """Close every connection."""
        for connection in list(self._all):
            connection.abort()

    @property
    def open_connections(self) -> int:
        """How many connections there are, in use or kept."""
        return len(self._all)
