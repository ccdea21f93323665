"""SHELL: one client connection: uvicorn's httptools protocol with limits and deadlines of our own.

What is uvicorn's here: the parser's set-up and the hand-over to its WebSocket protocol. What is
ours: everything that bounds a client. Requests on a connection are answered in order:

    receiving (at most one) → waiting (a few) → active (at most one) → answered
    refused: what is active or waiting is answered first, then the refusal, then input is discarded
    for `linger_s`, so that the refusal is not lost in a reset, and the connection is closed
"""

from __future__ import annotations

import asyncio
from collections import deque

from roost.errors import Failure
from roost.gateway.front import heads
from roost.gateway.front.bridge import Bridge, scope_of
from roost.gateway.front.defects import parse_failure, report
from roost.gateway.front.exchange import Exchange
from roost.gateway.front.heads import Head
from roost.gateway.front.receipt import Phase, Receipt, Stall
from roost.gateway.front.refusals import (
    DRAINING,
    TOO_MANY_BODIES,
    TOO_MANY_CONNECTIONS,
    head_too_large,
    too_large,
)
from roost.gateway.front.rendering import (
    Errors,
)
from roost.gateway.front.shared import Shared
from roost.gateway.front.uvicorn_base import HttpToolsProtocol, get_local_addr, get_remote_addr
from roost.gateway.http1 import (
    HttpParserError,
    HttpParserUpgrade,
    HttpRequestParser,
)


class _StopParsingError(Exception):
    """Ends a parser callback; the reason is in `_refused`."""


class FrontProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared.config, shared.state, {}, asyncio.get_running_loop())
        self.parser.set_dangerous_leniencies(lenient_data_after_close=False)
        self.shared = shared
        self.url = b""
        self.blocked = False
        self._receipt = Receipt(shared.limits, self.loop.time())
        self._stall = Stall(shared.limits.write_s)
        self._written_bytes = 0
        self._waiting_bytes = 0
        self._receiving: Exchange | None = None
        self._active: Exchange | None = None
        self._waiting: deque[Exchange] = deque()
        self._upgrade: Head | None = None
        self._refused: Failure | None = None
        self._discarding = self._advancing = self._paused = False

    # What an exchange sees.

    @property
    def common(self) -> bytes:
        """Header lines of every reply."""
        return self.shared.common

    @property
    def errors(self) -> Errors:
        """How failures are rendered."""
        return self.shared.errors

    @property
    def local(self) -> str:
        """The server's address."""
        if self.server is None:
            self.server = get_local_addr(self.transport) or ("", None)
        return self.server[0]

    @property
    def remote(self) -> str:
        """The client's address."""
        if self.client is None:
            self.client = get_remote_addr(self.transport) or ("", 0)
        return self.client[0]

    @property
    def ending(self) -> bool:
        """Whether the next reply is the last: we drain, and nothing older waits behind it."""
        return self.shared.draining and not self._waiting

    @property
    def busy(self) -> bool:
        """Whether a request is being received or answered."""
        return not (self._active is None and self._receiving is None and not self._waiting)

    @property
    def unsent(self) -> bool:
        """Whether a part of a reply waits here for the client to take it."""
        return self.transport.get_write_buffer_size() > 0

    def put(self, data: bytes) -> None:
        """Write to the client."""
        self._written_bytes += len(data)
        self.transport.write(data)

    def on_reply_done(self, exchange: Exchange, *, broken: bool) -> None:
        """Take the next request, or close."""
        if exchange is not self._active:
            return
        self._active = None
        self.shared.changed.set()
        if broken or not exchange.keep_alive:
            self._drop_waiting()
            # While we drain, a next request may be on its way here: a plain close would answer it
            # with a reset, which can take the reply away from a client that has not read it yet.
            self._close_gently(unread=self.shared.draining or not exchange.complete)
            return
        self._advance()

    def on_body_dropped(self, count: int) -> None:
        """Make room for the bodies of others."""
        self.shared.bodies.give_back(count)

    def on_defect(self, exchange: Exchange, error: Exception) -> None:
        """Report it and break the connection off: a watcher that failed may never answer."""
        report(error, exchange.request_id)
        self._abort()

    # What the transport says.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the client in, or turn it away."""
        shared, self.transport = self.shared, transport
        high = shared.limits.write_buffer_bytes
        transport.set_write_buffer_limits(high=high, low=high // 4)
        shared.connections.add(self)
        limits = shared.limits
        over = len(shared.connections) + len(shared.state.connections) - limits.connections_max
        if over > limits.refusals_max:
            self._abort()
        elif over > 0:
            self._discarding = True
            self._send_refusal(TOO_MANY_CONNECTIONS)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell whoever works for this client."""
        self.shared.changed.set()
        self.shared.connections.discard(self)
        self._client_gone()
        self.parser = None  # type: ignore[assignment]

    def eof_received(self) -> None:
        """Treat the end of input as the client's leaving; see `bridge`."""
        if self._active is not None:
            self._client_gone()
            self._abort()

    def pause_writing(self) -> None:
        """Pass on that the client does not keep up."""
        self.blocked = True
        if self._active is not None:
            self._active.on_blocked()

    def resume_writing(self) -> None:
        """Pass on that the client reads again."""
        self.blocked = False
        if self._active is not None:
            self._active.on_writable()

    def data_received(self, data: bytes) -> None:
        """Parse what has come in, within the limits."""
        if self._discarding:
            return
        self._receipt.on_bytes(len(data), self.loop.time())
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._on_upgrade(data[int(upgrade.args[0]) :])
        except HttpParserError as error:
            if not self._discarding:
                self._refuse(self._refused or parse_failure(error))
        else:
            oversize = self._receipt.oversize()
            if oversize is not None and not self._discarding:
                self._refuse(oversize)

    # What the parser says.

    def on_message_begin(self) -> None:
        """Forget the previous request."""
        self.url = b""
        self.headers = []

    def on_header(self, name: bytes, value: bytes) -> None:
        """Collect a header; after the head it would be a trailer, which nobody here reads."""
        if self._receiving is not None:
            self._stop(Failure("bad_request", "Trailers are not accepted."))
        name = name.lower()
        self.headers.append((name, heads.bare(name, value)))

    def on_headers_complete(self) -> None:
        """Check the head and find out who answers."""
        if self._discarding:
            raise _StopParsingError  # the connection's last reply has been sent
        parser, limits = self.parser, self.shared.limits
        method, version = parser.get_method().decode("ascii"), parser.get_http_version()
        head = Head(method, self.url, version, self.headers, dict(self.headers))
        if self._receipt.over_head() and heads.size_bytes(head) > limits.head_max_bytes:
            self._stop(head_too_large(limits.head_max_bytes))
        failure = heads.check(head, limits.body_max_bytes)
        if failure is not None:
            self._stop(failure)
        if not self.shared.bodies.room_for(int(head.fields.get(b"content-length", b"0"))):
            self._stop(TOO_MANY_BODIES)
        if len(self._waiting) >= limits.pipelined:
            self._stop(Failure("bad_request", "Too many requests wait on this connection."))
        if parser.should_upgrade():
            self._upgrade = head
            return
        self._receipt.on_head(self.loop.time())
        self._take(Exchange(self, head, self.shared.ids()))

    def on_body(self, body: bytes) -> None:
        """Collect a piece of body, up to the limit."""
        exchange = self._receiving
        if exchange is None:
            return
        if not exchange.done:
            if not self.shared.bodies.room_for(len(body)):
                self._stop(TOO_MANY_BODIES)
            self.shared.bodies.take(len(body))
        exchange.add_body(body)
        if exchange.received_bytes > self.shared.limits.body_max_bytes:
            self._stop(too_large(self.shared.limits.body_max_bytes))
        if exchange is not self._active:
            self._waiting_bytes += len(body)
            self._pause_reading_if_far_ahead()

    def on_message_complete(self) -> None:
        """Hand the request over, or begin to wait for the next one."""
        exchange, self._receiving = self._receiving, None
        if exchange is None:
            return
        self._receipt.on_complete()
        self._discarding = self._discarding or not exchange.keep_alive
        exchange.on_complete()
        if exchange is self._active:
            self._begin(exchange)
        elif exchange.done:
            self._advance()

    # Answering.

    def _take(self, exchange: Exchange) -> None:
        exchange.keep_alive = exchange.head.version == "1.1" and self.parser.should_keep_alive()
        exchange.handler, exchange.early = self.shared.who_answers(exchange, self._run_asgi)
        self._receiving = exchange
        self._waiting.append(exchange)
        self._advance()

    def _advance(self) -> None:
        """Answer what waits, in order; a reply made on the spot must not recurse into the next."""
        if self._advancing:
            return
        self._advancing = True
        while self._active is None and self._waiting:
            self._active = self._waiting.popleft()
            self._begin(self._active)
        self._advancing = False
        if not self._waiting:
            self._waiting_bytes = 0
            self._resume_reading()
        if self._active is None:
            self._on_all_answered()

    def _begin(self, exchange: Exchange) -> None:
        handler = exchange.handler
        if handler is not None and (exchange.early or exchange.complete):
            exchange.handler = None
            exchange.answer(handler)
        else:
            exchange.want_body()

    def _on_all_answered(self) -> None:
        if self._refused is not None:
            self._send_refusal(self._refused)
        elif self._receiving is None and self._receipt.phase is Phase.BUSY:
            self._receipt.on_idle(self.loop.time())
            if self.shared.draining:
                self._receipt.on_draining(self.loop.time())

    def _pause_reading_if_far_ahead(self) -> None:
        """Bound what is read ahead; only then a client that leaves goes unnoticed for a while."""
        if not self._paused and self._waiting_bytes > self.shared.limits.pipelined_bytes:
            self._paused = True
            self._receipt.on_paused()
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._paused and not self.transport.is_closing():
            self._paused = False
            self._receipt.on_resumed(self.loop.time())
            self.transport.resume_reading()

    def _run_asgi(self, exchange: Exchange) -> None:
        scope = scope_of(exchange, self.transport)
        self.shared.tasks.start(Bridge(exchange).run(self.shared.app, scope), "request")

    # Refusing and closing.

    def _stop(self, failure: Failure) -> None:
        self._refused = failure
        raise _StopParsingError

    def _refuse(self, failure: Failure) -> None:
        """Refuse what is being received; what came whole before it is answered first."""
        self._discarding = True
        self._refused = failure
        broken, self._receiving = self._receiving, None
        if broken is not None and (broken is self._active or broken.done):
            self._active = None
            # An answer that has begun, or was given early, cannot be followed by another one.
            refusal = None if broken.started else failure
            broken.on_gone()
            self._send_refusal(refusal)
            return
        if broken is not None and broken in self._waiting:
            self._waiting.remove(broken)
        if self._active is None:
            self._advance()

    def _send_refusal(self, failure: Failure | None) -> None:
        self._refused = None
        if failure is not None:
            self.put(self.shared.last_reply(failure, heads.path_of(self.url)[0]))
        self._close_gently(unread=True)

    def _abort(self) -> None:
        self._discarding = True
        self.transport.abort()

    def _close_gently(self, *, unread: bool) -> None:
        """Close once all is sent; with unread input a plain close would be a reset."""
        self._discarding = True
        if not unread or not self.transport.can_write_eof():
            self.transport.close()
            return
        self._receipt.on_linger(self.loop.time())
        self.transport.write_eof()

    def _client_gone(self) -> None:
        active, self._active = self._active, None
        if active is not None:
            active.on_gone()
        self._drop_waiting()

    def _drop_waiting(self) -> None:
        waiting, self._waiting = self._waiting, deque()
        self._receiving = None
        for exchange in waiting:
            exchange.on_gone()

    def on_sweep(self, now: float) -> None:
        """Enforce the deadline of the phase and the write deadline."""
        if now >= self._receipt.deadline:
            self._on_late()
        elif self._stall.on_sweep(self._written_bytes, self.transport.get_write_buffer_size(), now):
            if self._active is not None:
                self._active.stalled = True
            self._abort()

    def _on_late(self) -> None:
        phase = self._receipt.phase
        if phase is Phase.LINGER:
            self._abort()
        elif phase is Phase.IDLE:
            self.transport.close()
        else:
            what = "head" if phase is Phase.HEAD else "body"
            self._refuse(Failure("request_timeout", f"The {what} of the request came too slowly."))

    def shutdown(self) -> None:
        """Close soon if nothing is going on, else after the reply.

        Not at once: a request that is on its way to an idle connection is told that we drain.
        """
        self._receipt.on_draining(self.loop.time())

    # Upgrades.

    def _on_upgrade(self, rest: bytes) -> None:
        head, self._upgrade = self._upgrade, None
        if head is None:
            return
        if heads.wants_websocket(head) and not self.busy:
            if self.shared.draining:
                self._refuse(DRAINING)
            else:
                self._to_websocket(head, rest)
            return
        # Any other upgrade may be ignored; the parser has skipped the body, so it is shown the head
        # again without the offer.
        self.parser = HttpRequestParser(self)
        self.data_received(heads.without_offer(head) + rest)

    def _to_websocket(self, head: Head, rest: bytes) -> None:
        self.shared.connections.discard(self)
        seen = {"method": head.method, "headers": head.headers}
        self.scope = seen  # type: ignore[assignment]  # all that the hand-over reads
        self.handle_websocket_upgrade()
        protocol = self.transport.get_protocol()
        if rest and isinstance(protocol, asyncio.Protocol):
            protocol.data_received(rest)
