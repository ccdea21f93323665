"""SHELL: an exchange as an ASGI request: scope, receive, send.

A client that closes its side of the connection has left: `receive` then says `http.disconnect`, at
once, whether a stream is running, the body is still awaited or nothing happens at all. No client
that is known here closes one direction only.
"""

from __future__ import annotations

import asyncio

from roost.errors import Failure
from roost.gateway.front.asgi import App, Received, Scope, Sent
from roost.gateway.front.defects import failure_of
from roost.gateway.front.exchange import Exchange
from roost.gateway.front.rendering import safe
from roost.gateway.front.uvicorn_base import get_local_addr, get_remote_addr


def scope_of(exchange: Exchange, transport: asyncio.Transport) -> Scope:
    """Describe a request to an application."""
    head = exchange.head
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": head.version,
        "scheme": "https" if transport.get_extra_info("sslcontext") else "http",
        "method": head.method,
        "path": exchange.path,
        "raw_path": exchange.raw_path,
        "query_string": exchange.query,
        "root_path": "",
        "headers": head.headers,
        "client": get_remote_addr(transport),
        "server": get_local_addr(transport),
        "state": {},
        "request_id": exchange.request_id,
    }


class Bridge:
    """Drives one ASGI application over one exchange."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()
        self._body_given = False
        exchange.watcher = self
        exchange.on_body = self._changed.set

    def on_gone(self) -> None:
        """Wake whoever waits, to find that nobody listens."""
        self._changed.set()
        self._writable.set()

    def on_blocked(self) -> None:
        """Do nothing: the next send asks for itself."""

    def on_writable(self) -> None:
        """Let a waiting send go on."""
        self._writable.set()

    async def run(self, app: App, scope: Scope) -> None:
        """Run the application; what it raises, or leaves unsaid, becomes a failure."""
        exchange = self._exchange
        failure = Failure("internal", "The request was not answered.")
        try:
            await app(scope, self.receive, self.send)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an answer
            failure = failure_of(error, exchange.request_id)
        finally:
            if not exchange.done:
                exchange.fail(failure)

    async def receive(self) -> Received:
        """Return the next piece of body, or wait until the client has left."""
        exchange = self._exchange
        while not exchange.done:
            self._changed.clear()
            body = exchange.take_body()
            if body or (exchange.complete and not self._body_given):
                self._body_given = exchange.complete
                more = not exchange.complete
                return {"type": "http.request", "body": body, "more_body": more}
            exchange.want_body()
            await self._changed.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Sent) -> None:
        """Pass a reply message on, waiting while the client does not keep up."""
        exchange = self._exchange
        if exchange.done:
            return
        if message["type"] == "http.response.start":
            self._start(message)
            return
        body = message.get("body", b"")
        if message.get("more_body", False):
            exchange.write(body)
        else:
            exchange.finish(body)
            self._changed.set()
        # The connection may have been blocked since before this request: nobody will say so again.
        while exchange.blocked and not exchange.done:
            self._writable.clear()
            await self._writable.wait()

    def _start(self, message: Sent) -> None:
        headers = [(name.lower(), value) for name, value in message.get("headers", [])]
        if not safe(headers):
            raise ValueError("a reply header holds a line end")
        length = next((int(value) for name, value in headers if name == b"content-length"), None)
        framing = (b"content-length", b"transfer-encoding")
        if (b"connection", b"close") in headers:
            self._exchange.keep_alive = False
        kept = [h for h in headers if h[0] not in framing and h[0] != b"connection"]
        self._exchange.start(message["status"], kept, length=length)
