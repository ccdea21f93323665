"""SHELL: one request and its reply on one connection, framed for whatever the client speaks.

    head ─ body… ─ complete          (the request, filled by the connection)
    start ─ write… ─ finish          (the reply; or `reply`, `fail`, `break_off`)

The reply's head leaves together with its first bytes. After `break_off`, or once the client has
gone, everything else is ignored, so that a producer may finish its sentence without looking.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from roost.core.ids import RequestId
from roost.errors import Failure
from roost.gateway.front.defects import failure_of
from roost.gateway.front.heads import Head, asks_first, path_of
from roost.gateway.front.rendering import (
    CONTINUE,
    LAST_CHUNK,
    Errors,
    Headers,
    failure_headers,
    head_bytes,
    id_lines,
)
from roost.gateway.front.router import percent_decoded

_BODILESS = frozenset({204, 304})
_SMALL_PIECE_BYTES = 1024


class Connection(Protocol):
    """What an exchange needs of the connection it is on."""

    @property
    def common(self) -> bytes:
        """Header lines that every reply has."""
        ...

    @property
    def local(self) -> str:
        """The address the connection came in on."""
        ...

    @property
    def remote(self) -> str:
        """The address the connection came from."""
        ...

    @property
    def errors(self) -> Errors:
        """How failures are rendered."""
        ...

    @property
    def blocked(self) -> bool:
        """Whether the client does not read and the write buffer is full."""
        ...

    @property
    def ending(self) -> bool:
        """Whether a reply that begins now is the last one of the connection."""
        ...

    def put(self, data: bytes) -> None:
        """Write to the client."""
        ...

    def on_reply_done(self, exchange: Exchange, *, broken: bool) -> None:
        """Go on to the next request, or close."""
        ...

    def on_body_dropped(self, count: int) -> None:
        """Hear that this many bytes of body are not held any more."""
        ...

    def on_defect(self, exchange: Exchange, error: Exception) -> None:
        """Report what a watcher raised, and end the connection."""
        ...


class Watcher(Protocol):
    """Who produces the reply and wants to know about its reader."""

    def on_gone(self) -> None:
        """Stop: the client has left. Said at most once, and not after the reply is done."""
        ...

    def on_blocked(self) -> None:
        """Pause: the client does not keep up."""
        ...

    def on_writable(self) -> None:
        """Go on."""
        ...


class Exchange:
    """A request and its reply.

    `complete` once the whole request is here, `started` once a reply has begun, `done` once nothing
    follows. `handler` is who will answer, `early` whether it may before the request is complete.
    `gone` says that the client left before the end, `stalled` that it was cut off for not reading.
    `extra` are headers of the reply, `late` gives those that are known when it begins.
    """

    __slots__ = (
        "_asks_first",
        "_chunked",
        "_conn",
        "_head",
        "_held_bytes",
        "_left",
        "_mute",
        "_pieces",
        "complete",
        "done",
        "early",
        "extra",
        "fields",
        "gone",
        "handler",
        "head",
        "keep_alive",
        "late",
        "on_body",
        "path",
        "query",
        "raw_path",
        "received_bytes",
        "request_id",
        "stalled",
        "started",
        "status",
        "watcher",
    )

    def __init__(self, conn: Connection, head: Head, request_id: RequestId) -> None:
        self._conn = conn
        self.head = head
        self.fields = head.fields
        self.request_id = request_id
        self.raw_path, self.query = path_of(head.target)
        self.path = percent_decoded(self.raw_path.decode("ascii"))
        self.keep_alive = True
        self.complete = self.started = self.done = self.gone = self.early = self.stalled = False
        self.received_bytes = 0
        self.status = 0
        self.extra: Headers = []
        self.late: Callable[[], Headers] | None = None
        self.watcher: Watcher | None = None
        self.handler: Callable[[Exchange], None] | None = None
        self.on_body: Callable[[], None] | None = None
        self._pieces: list[bytes | bytearray] = []
        self._held_bytes = 0
        self._head = b""
        self._chunked = False
        self._left: int | None = None
        self._mute = head.method == "HEAD"
        self._asks_first = asks_first(head)

    @property
    def local(self) -> str:
        """The server's address on this connection."""
        return self._conn.local

    @property
    def remote(self) -> str:
        """The client's address."""
        return self._conn.remote

    @property
    def blocked(self) -> bool:
        """Whether the producer should wait before it writes more."""
        return self._conn.blocked

    def want_body(self) -> None:
        """Say "100 Continue" to a client that keeps its body back until it hears that."""
        if self._asks_first and not (self.complete or self.started):
            self._asks_first = False
            self._conn.put(CONTINUE)

    def take_body(self) -> bytes:
        """Return what has arrived of the body since the last call."""
        pieces, self._pieces = self._pieces, []
        # The first piece is never a bytearray.
        return bytes(pieces[0]) if len(pieces) == 1 else b"".join(pieces)

    def add_body(self, data: bytes) -> None:
        """Keep a piece of body, unless the reply is already done and nobody will ask for it."""
        self.received_bytes += len(data)
        if self.done:
            return
        self._held_bytes += len(data)
        pieces = self._pieces
        if len(data) >= _SMALL_PIECE_BYTES or not pieces:
            pieces.append(data)
        else:
            # An object costs tens of bytes: a body in chunks of one would weigh as much as fifty.
            if not isinstance(pieces[-1], bytearray):
                pieces.append(bytearray())
            pieces[-1] += data
        self._tell(self.on_body)

    def on_complete(self) -> None:
        """Note that the whole request is here."""
        self.complete = True
        self._tell(self.on_body)

    def answer(self, handler: Callable[[Exchange], None]) -> None:
        """Let `handler` answer; what it raises is a failure, and whoever it set to work is told."""
        try:
            handler(self)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            self.fail(failure_of(error, self.request_id))
            if self.watcher is not None:
                self._tell(self.watcher.on_gone)

    def start(self, status: int, headers: Headers, *, length: int | None = None) -> None:
        """Begin the reply; `length` bytes follow, or an unknown number that ends with `finish`."""
        if self.started:
            raise RuntimeError("a reply starts once")
        self.started = True
        self.status = status
        self.keep_alive = self.keep_alive and not self._conn.ending
        if self._asks_first and not self.complete:
            # Nobody knows now whether the body will still come or the next request instead.
            self.keep_alive = False
        lines = [*headers, *self.extra, *(self.late() if self.late is not None else ())]
        bodiless = status in _BODILESS
        self._mute = self._mute or bodiless
        if length is not None and not bodiless:
            lines.append((b"content-length", b"%d" % length))
            self._left = None if self._mute else length
        elif not self._mute:
            self._chunked = self.head.version == "1.1"
            self.keep_alive = self.keep_alive and self._chunked
            if self._chunked:
                lines.append((b"transfer-encoding", b"chunked"))
        if not self.keep_alive:
            lines.append((b"connection", b"close"))
        self._head = head_bytes(status, lines, id_lines(self.request_id) + self._conn.common)

    def write(self, data: bytes) -> None:
        """Send a piece of body."""
        if self.done or not data:
            return
        if self._chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        elif self._mute:
            data = b""
        elif self._left is not None:
            self._left -= len(data)
        self._put(data)

    def finish(self, data: bytes = b"") -> None:
        """End the reply, with a last piece of body if there is one."""
        if self.done:
            return
        if self._chunked:
            last = b"%x\r\n%b\r\n" % (len(data), data) if data else b""
            self._put(last + LAST_CHUNK)
        else:
            self.write(data)
            self._put(b"")
        self._settle()
        # A wrong length would shift every later reply on this connection.
        self._conn.on_reply_done(self, broken=bool(self._left))

    def reply(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """Send a whole reply."""
        if self.done:
            return
        self.start(status, headers, length=len(body))
        self.finish(body)

    def fail(self, failure: Failure, extra: Headers | None = None) -> None:
        """Send a failure with its status and body; a reply already on its way is broken off."""
        if self.started and not self._head:
            self.break_off()
            return
        # A head that has not left yet was a plan; nobody has seen it.
        self._head, self._left = b"", None
        self.started = self._chunked = False
        self._mute = self.head.method == "HEAD"
        status, body = self._conn.errors(failure, self.raw_path, self.request_id)
        self.reply(status, failure_headers(failure) + (extra or []), body)

    def break_off(self) -> None:
        """End the connection so that the client can see that the reply is not complete."""
        if not self.done:
            self._settle()
            self._conn.on_reply_done(self, broken=True)

    def abandon(self) -> None:
        """End the connection of a client that has left, or does not read."""
        self.break_off()

    def on_gone(self) -> None:
        """Note that the client has left; whoever watches is told once."""
        if self.done:
            return
        self.gone = True
        self._settle()
        if self.watcher is not None:
            self._tell(self.watcher.on_gone)
        self._tell(self.on_body)

    def on_blocked(self) -> None:
        """Tell whoever writes that the client does not keep up."""
        if self.watcher is not None:
            self._tell(self.watcher.on_blocked)

    def on_writable(self) -> None:
        """Tell whoever writes that the client reads again."""
        if self.watcher is not None:
            self._tell(self.watcher.on_writable)

    def flush(self) -> None:
        """Send the head now, before the first piece of body is known."""
        if not self.done:
            self._put(b"")

    def _settle(self) -> None:
        """Nothing follows; whoever has taken the body still holds it, but not for long."""
        self.done = True
        held, self._held_bytes = self._held_bytes, 0
        if held:
            self._pieces.clear()
            self._conn.on_body_dropped(held)

    def _tell(self, callback: Callable[[], None] | None) -> None:
        # The caller is a transport or a parser, which would swallow whatever is raised here.
        if callback is None:
            return
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - reported, and the connection ends
            self._conn.on_defect(self, error)

    def _put(self, data: bytes) -> None:
        if self._head:
            data, self._head = self._head + data, b""
        if data:
            self._conn.put(data)
