"""SHELL: how an answer of a server becomes the reply of an exchange, whole or visibly cut.

Three ways, by what the server says it sends: events pass as they come, cut only between events;
small bodies are held until they are whole, so that a cut one is an honest 502; large ones pass.
"""

from __future__ import annotations

from typing import Protocol

from roost.errors import Failure
from roost.gateway.front.exchange import Exchange
from roost.gateway.front.rendering import Headers
from roost.gateway.upstream.dialect_events import error_event
from roost.gateway.upstream.tail import Tail

HELD_BODY_MAX_BYTES = 1024 * 1024
HELD_EVENT_MAX_BYTES = 64 * 1024

CUT = Failure("upstream_error", "The upstream server was lost before its answer was complete.")
EMPTY = Failure("upstream_error", "The upstream server answered without an event.")


class Answer(Protocol):
    """One answer on its way to a client."""

    @property
    def whole(self) -> bool:
        """Whether the client has all that matters, even if the connection is cut now."""
        ...

    def push(self, data: bytes) -> None:
        """Take a piece of the body."""
        ...

    def finish(self, data: bytes, *, framed: bool) -> bool:
        """Take the last piece; False where the answer turned out not to be one."""
        ...

    def cut(self, failure: Failure) -> None:
        """Make it plain to the client that no more will come."""
        ...

    def commit(self) -> None:
        """Show the client that its request is being served, if that can still be done."""
        ...


class EventsAnswer:
    """A stream of events; its status goes out with the first one."""

    def __init__(self, exchange: Exchange, headers: Headers, dialect: str) -> None:
        self._exchange = exchange
        self._headers = headers
        self._dialect = dialect
        self._tail = Tail(HELD_EVENT_MAX_BYTES)

    @property
    def whole(self) -> bool:
        """Whether the event that ends an answer has gone out."""
        return self._tail.final_seen

    def push(self, data: bytes) -> None:
        """Pass whole events on."""
        ready = self._tail.push(data)
        if ready:
            self.commit()
            self._exchange.write(ready)

    def finish(self, data: bytes, *, framed: bool) -> bool:
        """End the stream; without an event, or without a marked end, that is an error."""
        if not framed:
            self.push(data)
            data = b""
            if not self._tail.final_seen:
                self.cut(CUT)
                return False
        ready = self._tail.push(data) + self._tail.finish()
        if not self._tail.data_seen:
            self.cut(EMPTY)
            return False
        self.commit()
        self._exchange.finish(ready)
        return True

    def cut(self, failure: Failure) -> None:
        """Send the failure as what can still be sent: a reply, one event, or nothing at all."""
        exchange = self._exchange
        if not exchange.started:
            exchange.fail(failure)
        elif self._tail.final_seen:
            exchange.finish()
        else:
            event = error_event(self._dialect, failure, exchange.request_id)
            exchange.write(self._tail.separator() + event)
            exchange.break_off()

    def commit(self) -> None:
        """Begin the reply."""
        if not self._exchange.started:
            self._exchange.start(200, self._headers)


class BodyAnswer:
    """Any other body: held while small, passed on once it is large."""

    whole = False

    def __init__(self, exchange: Exchange, status: int, headers: Headers, length: int) -> None:
        self._exchange = exchange
        self._status = status
        self._headers = headers
        self._length = length
        self._pieces: list[bytes] = []
        self._held_bytes = 0

    def push(self, data: bytes) -> None:
        """Hold the piece, or pass all on once there is much."""
        if self._exchange.started:
            self._exchange.write(data)
            return
        self._pieces.append(data)
        self._held_bytes += len(data)
        if self._held_bytes > HELD_BODY_MAX_BYTES:
            length = self._length if self._length >= 0 else None
            self._exchange.start(self._status, self._headers, length=length)
            self._exchange.write(b"".join(self._pieces))
            self._pieces.clear()

    def finish(self, data: bytes, *, framed: bool) -> bool:
        """End the reply."""
        if self._exchange.started:
            self._exchange.finish(data)
        else:
            body = b"".join([*self._pieces, data])
            self._exchange.reply(self._status, self._headers, body)
        return True

    def cut(self, failure: Failure) -> None:
        """Send an honest failure, or break off what has begun."""
        self._exchange.fail(failure)

    def commit(self) -> None:
        """Do nothing: the status is not known to be true before the body is whole."""
