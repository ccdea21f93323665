"""SHELL: replies kept while they are written, and written again for the same request.

A recording is an outlet in front of another one. Whether what it has kept may be told again is
decided when the reply ends; see `told`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from roost.errors import Failure
    from roost.fleet.streams.relay import Relay
    from roost.gateway.front.exchange import Exchange
    from roost.gateway.front.rendering import Headers
    from roost.gateway.turns.outlet import Outlet

_PIECE_BYTES = 32_768
"""How much of a reply is written again at a time: a client that does not read holds no more."""


class Recorded(msgspec.Struct, frozen=True):
    """A reply as it was given. `length` None was a stream; `clean` False was broken off.

    The body is a view, so that however many read it again there is one of it.
    """

    status: int
    headers: list[tuple[bytes, bytes]]
    body: memoryview
    length: int | None
    clean: bool


class Keeper(Protocol):
    """Who keeps a reply, and decides how much of it."""

    def grew(self, count: int) -> bool:
        """So many more bytes; False where they are not kept."""
        ...

    def told(self, reply: Recorded | None) -> None:
        """The client was told this ending; None where it was not kept."""
        ...

    def untold(self) -> None:
        """Nothing was told that has to be told again."""
        ...


def told(relay: Relay) -> bool:
    """Whether the failure that ends an answer comes after a part of it has gone out.

    Before that a failure is no answer: the same request may be tried again.
    """
    return relay.committed and relay.answering


class Recorder:
    """Passes everything on and keeps it, until `keeper` has had enough."""

    def __init__(self, outlet: Outlet, relay: Relay, keeper: Keeper) -> None:
        self._outlet = outlet
        self._relay = relay
        self._keeper = keeper
        self._status = 0
        self._headers: Headers = []
        self._pieces: list[bytes] | None = []
        self._length: int | None = None
        self._over = False

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
        self._status, self._headers, self._length = status, headers, length
        self._outlet.start(status, headers, length=length)

    def write(self, data: bytes) -> None:
        """Send a piece of body."""
        self._keep(data)
        self._outlet.write(data)

    def finish(self, data: bytes = b"") -> None:
        """End the reply: it is whole."""
        self._keep(data)
        self._end(told=True, clean=True)
        self._outlet.finish(data)

    def reply(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """Send a whole reply."""
        self._status, self._headers, self._length = status, headers, len(body)
        self._keep(body)
        self._end(told=True, clean=True)
        self._outlet.reply(status, headers, body)

    def fail(self, failure: Failure) -> None:
        """Send a failure in place of a reply."""
        self._end(told=False, clean=False)
        self._outlet.fail(failure)

    def break_off(self) -> None:
        """End the connection after an error."""
        self._end(told=told(self._relay), clean=False)
        self._outlet.break_off()

    def abandon(self) -> None:
        """End the connection of a client that was told nothing."""
        self._end(told=False, clean=False)
        self._outlet.abandon()

    def _keep(self, data: bytes) -> None:
        if self._pieces is None or not data:
            return
        if self._keeper.grew(len(data)):
            self._pieces.append(data)
        else:
            self._pieces = None

    def _end(self, *, told: bool, clean: bool) -> None:
        if self._over:
            return
        self._over = True
        pieces, self._pieces = self._pieces, None
        if not told:
            self._keeper.untold()
        elif pieces is None:
            self._keeper.told(None)
        else:
            body = memoryview(b"".join(pieces))
            self._keeper.told(Recorded(self._status, self._headers, body, self._length, clean))


class Replay:
    """Writes a recorded reply to another exchange, no faster than its client reads."""

    def __init__(self, exchange: Exchange, recorded: Recorded, extra: Headers) -> None:
        self._exchange = exchange
        self._recorded = recorded
        self._sent_bytes = 0
        exchange.watcher = self
        exchange.start(recorded.status, recorded.headers + extra, length=recorded.length)
        self.on_writable()

    def on_gone(self) -> None:
        """Stop: the exchange ignores what is written from now on."""

    def on_blocked(self) -> None:
        """Wait: `on_writable` follows."""

    def on_writable(self) -> None:
        """Write on."""
        exchange, recorded = self._exchange, self._recorded
        while self._sent_bytes < len(recorded.body):
            if exchange.blocked or exchange.done:
                return
            piece = recorded.body[self._sent_bytes : self._sent_bytes + _PIECE_BYTES]
            self._sent_bytes += len(piece)
            exchange.write(bytes(piece))
        if recorded.clean:
            exchange.finish()
        else:
            exchange.break_off()
