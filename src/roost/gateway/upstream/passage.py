"""SHELL: one request through the gateway: placed by the pool, sent, answered, given back once.

    placed → (connecting) → asked → answer … → over
             any failure before the first byte of an answer → placed again, elsewhere

Everything runs in callbacks of the two connections; only opening a connection needs a task.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import msgspec

from roost.core.request import Terms
from roost.errors import Failure, Fault
from roost.fleet.line.refusals import deadline
from roost.fleet.streams.relay import Outcome
from roost.fleet.upstream.effects import Granted, Lease
from roost.gateway.front.defects import failure_of
from roost.gateway.front.rendering import Headers
from roost.gateway.reading.timeouts import TIMEOUT_HEADER, left_ms
from roost.gateway.upstream.answers import CUT, Answer, BodyAnswer, EventsAnswer
from roost.gateway.upstream.headers import is_events, reply_headers, request_head
from roost.gateway.upstream.models import renamed
from roost.gateway.upstream.routes import ProxyRoute

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from roost.gateway.routes import Call
    from roost.gateway.upstream.client import UpstreamConnection
    from roost.gateway.upstream.servers import Server, Servers

UNREACHABLE = Failure("upstream_error", "No upstream server could be reached.", retry_after_s=2)
SILENT = Failure("upstream_error", "The upstream server stopped answering.")


class PassageLimits(msgspec.Struct, frozen=True):
    """How long a server may be silent: before the first byte of an answer, and after it.

    `commit_after_s` is when a client that waits for a stream's first event gets its status.
    """

    first_byte_s: float = 600.0
    idle_s: float = 120.0
    commit_after_s: float = 8.0


class Office(Protocol):
    """What a passage needs of whoever has them all."""

    @property
    def limits(self) -> PassageLimits:
        """How long a server may be silent."""
        ...

    @property
    def servers(self) -> Servers:
        """The servers, by name."""
        ...

    def now(self) -> float:
        """Seconds of the loop's clock."""
        ...

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Run what has to wait."""
        ...

    def on_status(self, server: Server, status: int) -> None:
        """A server has answered with this status."""
        ...

    def on_failed(self, server: Server) -> None:
        """A server could not be reached, went silent or cut its answer."""
        ...

    def on_whole(self, server: Server, longest_s: float) -> None:
        """An answer came through; this was its longest silence."""
        ...

    def on_first_byte(self, waited_s: float) -> None:
        """The first byte of a generated answer came after so long."""
        ...

    def retry(self, passage: Passage) -> bool:
        """Send a request elsewhere; False where nobody else can take it."""
        ...

    def release(self, lease: Lease, *, served: bool) -> None:
        """A place is free again."""
        ...

    def on_over(self, passage: Passage, outcome: Outcome) -> None:
        """A request has ended; said once."""
        ...


class Passage:
    """The life of one request. `over` exactly once.

    `timeout_s` is the client's own limit for all of it, None for none.
    """

    def __init__(
        self, office: Office, route: ProxyRoute, call: Call, ticket: int, timeout_s: float | None
    ) -> None:
        self.ticket = ticket
        self.exchange = call.exchange
        principal = call.principal
        self.terms = Terms(call.exchange.request_id, call.tenant, account=principal.account)
        self._office = office
        self.route = route
        self._path = route.path(call.rest, call.exchange.query)
        self.body = call.exchange.take_body()
        self.model: str | None = None
        self._lease: Lease | None = None
        self._server: Server | None = None
        self._connection: UpstreamConnection | None = None
        self._answer: Answer | None = None
        self.tried: frozenset[str] = frozenset()
        self._fresh_only = False
        self._first_byte = False
        self._status = 0
        self._arrived_s = office.now()
        self._answered_s = 0.0
        self._longest_s = 0.0
        self._timeout_s = timeout_s
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_s = 0.0
        if timeout_s is not None:
            # Not left to the tick, whose step is many times the shortest limit.
            loop = asyncio.get_running_loop()
            self._deadline_s = self._arrived_s + timeout_s
            self._deadline = loop.call_at(self._deadline_s, self._on_deadline)
        self.over = False
        call.exchange.watcher = self

    # Being placed.

    def on_granted(self, granted: Granted) -> None:
        """Go to the server that was chosen."""
        self._lease = granted.lease
        self.go_to(self._office.servers[granted.lease.server])

    def on_refused(self, failure: Failure) -> None:
        """Tell the client that there is no place."""
        self._end(_outcome_of(failure))
        self.exchange.fail(failure)

    def go_to(self, server: Server) -> None:
        """Ask this server, on a kept connection if there is one."""
        self._server = server
        connection = None if self._fresh_only else server.connections.take()
        if connection is not None:
            self._ask(connection)
        else:
            self._office.start(self._connect(server))

    async def _connect(self, server: Server) -> None:
        try:
            connection = await server.connections.open()
        except OSError:
            if not self.over:
                self._on_attempt_failed(UNREACHABLE)
            return
        except Exception as error:  # noqa: BLE001 - a task that dies would leave the client waiting
            if not self.over:
                self._fail(failure_of(error, self.exchange.request_id))
            return
        if self.over:
            connection.abort()
        else:
            self._ask(connection)

    def _ask(self, connection: UpstreamConnection) -> None:
        self._connection = connection
        try:
            connection.ask(self._head() + self.body, self)
        except Exception as error:  # noqa: BLE001 - whoever calls this has others to serve
            self._drop_connection()
            self._fail(failure_of(error, self.exchange.request_id))

    def ask_for(self, model: str) -> None:
        """Ask for a model by its own name, where it was asked for by another one."""
        self.model = model
        if self.route.leased:
            self.body = renamed(self.body, model)
        else:
            self._path = self.route.path(model, self.exchange.query)

    def _head(self) -> bytes:
        assert self._server is not None, "asked before it was placed"
        method = self.route.method
        return request_head(
            method,
            self._server.base + self._path,
            self._server.prefix + self._time_left(),
            self.exchange.fields,
            self.exchange.request_id,
            len(self.body) if method == "POST" else None,
        )

    def _time_left(self) -> bytes:
        """Tell the server how long its answer is of use, so that it stops by itself."""
        if self._deadline is None:
            return b""
        return b"%b: %d\r\n" % (TIMEOUT_HEADER, left_ms(self._deadline_s, self._office.now()))

    # What the server says.

    def on_answer(self, status: int, headers: Headers) -> None:
        """Prepare the reply."""
        assert self._server is not None, "answered before it was asked"
        self._status = status
        self._answered_s = self._office.now()
        self._office.on_status(self._server, status)
        events = status == 200 and is_events(headers)
        rebuilt = reply_headers(headers, self._server.label, events=events)
        if events:
            self._answer = EventsAnswer(self.exchange, rebuilt, self.route.dialect)
            return
        length = next((int(v) for n, v in headers if n == b"content-length"), -1)
        self._answer = BodyAnswer(self.exchange, status, rebuilt, length)

    def on_piece(self, data: bytes, *, last: bool, framed: bool) -> None:
        """Pass a piece of the answer on; the last one ends the request."""
        answer = self._answer
        assert answer is not None, "a body came without a head"
        if not self._first_byte:
            self._first_byte = True
            # Lists of models and errors are no answer text: they would make the figure look good.
            if self.route.leased and self._status < 400:
                self._office.on_first_byte(self._office.now() - self._arrived_s)
        if last:
            self._connection = None
            whole = answer.finish(data, framed=framed)
            self._end(self._outcome() if whole else "node_error", served=whole)
            return
        answer.push(data)
        if self.exchange.blocked and self._connection is not None:
            self._connection.pause()

    def on_lost(self, *, any_byte: bool, reused: bool) -> None:
        """Try again if nothing of an answer had come; otherwise say that it is cut."""
        self._connection = None
        if reused and not any_byte and not self._fresh_only and self._server is not None:
            # The server closed a kept connection while we were writing to it. That is nobody's
            # failure: the same server is asked again on a new connection.
            self._fresh_only = True
            self.go_to(self._server)
            return
        self._on_attempt_failed(CUT, any_byte=any_byte)

    def _on_attempt_failed(self, failure: Failure, *, any_byte: bool = False) -> None:
        server, lease = self._server, self._lease
        assert server is not None, "failed before it was placed"
        self._lease = None
        self._office.on_failed(server)
        self.tried |= {server.name}
        if lease is not None:
            self._office.release(lease, served=False)
        self._fresh_only = False
        if any_byte or not self._office.retry(self):
            self._fail(failure)

    def _fail(self, failure: Failure) -> None:
        whole = self._answer is not None and self._answer.whole
        self._end("complete" if whole else _outcome_of(failure))
        if self._answer is not None:
            self._answer.cut(failure)
        else:
            self.exchange.fail(failure)

    # What the client says.

    def on_gone(self) -> None:
        """Stop the server's work at once."""
        if self.over:
            return
        whole = self._answer is not None and self._answer.whole
        self._drop_connection()
        # Some clients hang up on the event that ends the answer, before the connection's own end.
        left: Outcome = "write_timeout" if self.exchange.stalled else "client_disconnect"
        self._end("complete" if whole else left, served=whole)

    def on_blocked(self) -> None:
        """Read no more from the server until the client has caught up."""
        if self._connection is not None:
            self._connection.pause()

    def on_writable(self) -> None:
        """Read on."""
        if self._connection is not None:
            self._connection.resume()

    # Time.

    def _on_deadline(self) -> None:
        """End wherever it stands: in the queue, while connecting, before or in the answer."""
        assert self._timeout_s is not None, "a deadline without a limit"
        self._drop_connection()
        self._fail(deadline(self._timeout_s))

    def on_tick(self, now: float) -> None:
        """Enforce progress, and show the client a status before its patience ends."""
        connection, limits = self._connection, self._office.limits
        if connection is None or self.exchange.blocked:
            return
        if self._answer is not None and now - self._answered_s > limits.commit_after_s:
            self._answer.commit()
            self.exchange.flush()
        patience_s = limits.idle_s if self._first_byte else limits.first_byte_s
        silence_s = now - connection.touched_s
        self._longest_s = max(self._longest_s, silence_s)
        if silence_s > patience_s:
            self._drop_connection()
            # A server that went silent has probably done the work once: it is not done twice.
            self._on_attempt_failed(SILENT, any_byte=True)

    @property
    def waits_for(self) -> Server | None:
        """The server that has this request, if it holds a place there."""
        return self._server if self._lease is not None else None

    def silence_s(self, now: float) -> float | None:
        """Return for how long its server has sent nothing; None where that is not its doing."""
        if self._connection is None or self.exchange.blocked:
            return None
        return now - self._connection.touched_s

    def _outcome(self) -> Outcome:
        if self._status < 400:
            return "complete"
        return "rejected" if self._status < 500 else "node_error"

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.abort()

    def _end(self, outcome: Outcome, *, served: bool = False) -> None:
        assert not self.over, "a request ends once"
        self.over = True
        if self._deadline is not None:
            self._deadline.cancel()
        lease, self._lease = self._lease, None
        self._office.on_over(self, outcome)
        if lease is not None:
            if served and self._server is not None:
                self._office.on_whole(self._server, self._longest_s)
            self._office.release(lease, served=served)


def _outcome_of(failure: Failure) -> Outcome:
    if failure.reason == "deadline":
        return "deadline"
    return "node_error" if failure.kind.fault in {Fault.PEER, Fault.OURS} else "rejected"
