"""SHELL: a stream whose client may lose its connection and come back.

A reel stands between what writes the stream and the connection of the moment. Events go into the
log first and from there to whoever is attached; signs of life go to a reader that has everything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from roost.errors import Failure
from roost.text import sse

if TYPE_CHECKING:
    from roost.fleet.streams.stream_log import StreamLog
    from roost.gateway.front.exchange import Exchange, Watcher
    from roost.gateway.front.rendering import Headers
    from roost.gateway.turns.outlet import Outlet

REPLACED = Failure(
    "reader_replaced", "Another connection has taken this stream over; it goes on there."
)
ErrorEvent: TypeAlias = Callable[[Failure], bytes]
"""From a failure to an event that ends a stream, in the dialect of the client."""


def granted(window_s: float) -> Headers:
    """Return the header that says for how long a client that is lost will be awaited; 0 is not."""
    return [(b"x-roost-reattach-s", f"{window_s:g}".encode())]


class _Whole(msgspec.Struct, frozen=True):
    """A reply in place of a stream."""

    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes


class _Ending(msgspec.Struct, frozen=True):
    """How the stream ended: cleanly, broken off, or before it began, with this in its place."""

    clean: bool
    instead: Failure | _Whole | None = None


class Reel:
    """Outlet of one turn, and watcher of whichever exchange its client is on.

    `watcher` is the turn; `over` is called once nobody can come back any more.
    """

    def __init__(
        self, exchange: Exchange, log: StreamLog, error: ErrorEvent, over: Callable[[], None]
    ) -> None:
        self.watcher: Watcher | None = None
        self._loop = asyncio.get_running_loop()
        self._request_id = exchange.request_id
        self._exchange: Exchange | None = exchange
        self._log = log
        self._error = error
        self._over = over
        self._head: tuple[int, Headers] | None = None
        self._ending: _Ending | None = None
        self._timer: asyncio.TimerHandle | None = None
        exchange.watcher = self

    # --- from the turn

    @property
    def blocked(self) -> bool:
        """Whether there is a reader and it does not keep up."""
        exchange = self._exchange
        return exchange is not None and (exchange.blocked or self._log.behind)

    @property
    def done(self) -> bool:
        """Whether nothing follows."""
        return self._ending is not None

    @property
    def started(self) -> bool:
        """Whether the stream has begun."""
        return self._head is not None

    def start(self, status: int, headers: Headers, *, length: int | None = None) -> None:
        """Begin the reply; a stream has no length."""
        assert length is None, "only streams can be resumed"
        self._head = (status, headers + granted(self._log.window_s))
        if self._exchange is not None:
            self._exchange.start(*self._head)

    def write(self, data: bytes) -> None:
        """Send one event, or a sign of life."""
        if not data.startswith(b":"):
            self._log.on_block(data)
            self._feed()
        elif self._exchange is not None and not self._log.behind:
            self._exchange.write(data)

    def finish(self, data: bytes = b"") -> None:
        """End the stream; it is whole."""
        if data:
            self.write(data)
        self._end(_Ending(clean=True))

    def reply(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """End with a whole reply, as of a failure that was put into words already."""
        self._end(_Ending(clean=False, instead=_Whole(status, headers, body)))

    def fail(self, failure: Failure) -> None:
        """End with a failure that has its own status."""
        self._end(_Ending(clean=False, instead=failure))

    def break_off(self) -> None:
        """End the stream so that whoever reads it can see that it is not whole."""
        self._end(_Ending(clean=False))

    def abandon(self) -> None:
        """End the stream for a reader that does not read; what it has missed can be fetched."""
        if self._exchange is not None:
            self._exchange.break_off()
            self._exchange = None
            self._log.on_detach(self._loop.time())
        self._end(_Ending(clean=False))

    # --- from the connection

    def on_gone(self) -> None:
        """Wait for the client to come back."""
        self._exchange = None
        self._log.on_detach(self._loop.time())
        self._await()
        self._tell_writable()

    def on_blocked(self) -> None:
        """Wait: `on_writable` follows."""

    def on_writable(self) -> None:
        """Go on, first with what the reader has missed."""
        self._feed()
        self._tell_writable()

    # --- from whoever comes back

    def attach(self, exchange: Exchange, wanted: int) -> bool:
        """Go on with this exchange, from this event on; False where that cannot be given."""
        if not self._log.on_attach(wanted):
            return False
        old, self._exchange = self._exchange, exchange
        if old is not None:
            self._dismiss(old)
        exchange.request_id = self._request_id
        exchange.watcher = self
        self._await()
        if self._head is not None:
            exchange.start(*self._head)
            # Whoever comes back wants to know that it is there, however long the next event takes.
            exchange.flush()
        self._feed()
        self._tell_writable()
        return True

    def give_up(self) -> None:
        """Wait for nobody any more: without a reader the work ends as if the client had left."""
        if self._exchange is None:
            self._expire()

    def close(self) -> None:
        """Stop the clock."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _feed(self) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        while not exchange.blocked and (block := self._log.take()) is not None:
            exchange.write(block)
        if self._ending is not None and not self._log.behind:
            self._say_ending(exchange, self._ending)

    def _tell_writable(self) -> None:
        if self.watcher is not None and not self.blocked:
            self.watcher.on_writable()

    def _end(self, ending: _Ending) -> None:
        if self._ending is not None:
            return
        self._ending = ending
        self.watcher = None
        self._log.on_end(self._loop.time())
        self._feed()
        self._await()

    def _say_ending(self, exchange: Exchange, ending: _Ending) -> None:
        self._exchange = None
        self._log.on_detach(self._loop.time())
        if isinstance(ending.instead, Failure):
            exchange.fail(ending.instead)
        elif ending.instead is not None:
            exchange.reply(ending.instead.status, ending.instead.headers, ending.instead.body)
        elif ending.clean:
            exchange.finish()
        else:
            exchange.break_off()

    def _dismiss(self, exchange: Exchange) -> None:
        exchange.watcher = None
        if self._head is None:
            exchange.fail(REPLACED)
        else:
            exchange.write(self._error(REPLACED))
            exchange.break_off()

    def _await(self) -> None:
        """Watch the time until which somebody may come back."""
        self.close()
        if self._log.until_s is not None:
            self._timer = self._loop.call_at(self._log.until_s, self._expire)

    def _expire(self) -> None:
        if self.watcher is not None:
            self.watcher.on_gone()
        self.close()
        self._over()


class Numbered:
    """Passes a stream on event by event, each with its number as `id`."""

    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._next = 0

    @property
    def blocked(self) -> bool:
        """Whether the client does not keep up."""
        return self._outlet.blocked

    @property
    def done(self) -> bool:
        """Whether nothing follows."""
        return self._outlet.done

    def start(self, status: int, headers: Headers, *, length: int | None = None) -> None:
        """Begin the reply."""
        self._outlet.start(status, headers, length=length)

    def write(self, data: bytes) -> None:
        """Send some events, or signs of life, which have no number."""
        for block in sse.blocks(data):
            if block.startswith(b":"):
                self._outlet.write(block)
            else:
                self._outlet.write(b"id: %d\n" % self._next + block)
                self._next += 1

    def finish(self, data: bytes = b"") -> None:
        """End the reply."""
        self.write(data)
        self._outlet.finish()

    def reply(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """Send a whole reply, which has no events."""
        self._outlet.reply(status, headers, body)

    def fail(self, failure: Failure) -> None:
        """Send a failure in place of a reply."""
        self._outlet.fail(failure)

    def break_off(self) -> None:
        """End the connection."""
        self._outlet.break_off()

    def abandon(self) -> None:
        """End the connection of a client that does not read."""
        self._outlet.abandon()
