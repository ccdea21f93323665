"""SHELL: the listener: bind, accept, sweep deadlines, drain, close. The caller owns signals."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from email.utils import formatdate

from roost.core.hosts import in_address
from roost.gateway.front.asgi import App
from roost.gateway.front.defects import contained, report
from roost.gateway.front.descriptors import fitted
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.front.protocol import FrontProtocol
from roost.gateway.front.rendering import Errors
from roost.gateway.front.shared import Direct, Shared, openai_errors
from roost.gateway.front.uvicorn_base import uvicorn_config

_ABORT_S = 0.5
"""How long a handler whose client was cut off may take to notice."""


_LOOK_S = 0.01
"""Between two looks at whether the last WebSockets are gone."""


class Front:
    """A listener with its connections. Make one with `open_front`, end it with `close`."""

    def __init__(
        self, shared: Shared, sockets: list[socket.socket], tls: ssl.SSLContext | None
    ) -> None:
        self._shared = shared
        self._sockets = sockets
        self._tls = tls
        self._servers: list[asyncio.Server] = []
        self._timer: asyncio.TimerHandle | None = None
        self._closed = asyncio.Event()
        host, port = sockets[0].getsockname()[:2]
        self.port: int = port
        self.url = f"{'https' if tls else 'http'}://{in_address(host)}:{port}"

    @property
    def connections(self) -> int:
        """How many clients are connected, WebSockets included."""
        return len(self._shared.connections) + len(self._shared.state.connections)

    @property
    def busy(self) -> int:
        """How many connections have a request in progress, or a reply that is not sent yet."""
        return sum(c.busy or c.unsent for c in self._shared.connections)

    def use(self, limits: FrontLimits) -> None:
        """Go by these limits from now on; what WebSockets may carry was settled at the start."""
        self._shared.use(fitted(limits))

    def use_certificate(self, cert: str, key: str) -> None:
        """Show this one to whoever connects from now on; nothing happens without TLS.

        Raises `OSError` for what `check_certificate` refuses.
        """
        if self._tls is not None:
            self._tls.load_cert_chain(cert, key)

    async def open(self, listener: Listener) -> None:
        """Accept clients on the bound sockets."""
        loop, tls = asyncio.get_running_loop(), self._tls
        for sock in self._sockets:
            server = await loop.create_server(
                lambda: FrontProtocol(self._shared),
                sock=sock,
                ssl=tls,
                # asyncio takes this also as how often it tries to accept in one go, and without
                # descriptors it would fail, log and set a timer that many times, every second.
                backlog=1,
                ssl_handshake_timeout=self._shared.limits.head_s if tls else None,
            )
            sock.listen(listener.backlog)
            self._servers.append(server)
        self._sweep()

    def stop_accepting(self) -> None:
        """Close the listening sockets; what runs ends, what still comes is told to go away."""
        self._shared.draining = True
        for server in self._servers:
            server.close()
        for connection in list(self._shared.connections):
            connection.shutdown()

    async def drain(self, grace_s: float) -> bool:
        """Accept nobody new and wait for what runs; False if `grace_s` was not enough."""
        self.stop_accepting()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._wait_quiet(), grace_s)
        return self.busy == 0

    async def close(self, grace_s: float) -> bool:
        """Let running requests end within `grace_s`, then abort what is left; False if any was."""
        await self.drain(grace_s)
        drained = not self.busy
        # WebSockets last: a link may carry the streams that were being waited for.
        for websocket in list(self._shared.state.connections):
            websocket.shutdown()
        for connection in list(self._shared.connections):
            connection.transport.abort()
        if self._timer is not None:
            self._timer.cancel()
        # Handlers have been told; most end by themselves and leave nothing half done.
        await self._shared.tasks.close(_ABORT_S)
        running = list(self._shared.state.tasks)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await self._end_websockets()
        self._closed.set()
        return drained

    async def wait_closed(self) -> None:
        """Wait until `close` is through."""
        await self._closed.wait()

    async def _end_websockets(self) -> None:
        """Give the last words a moment to leave, then cut off whoever does not read them."""
        loop, left = asyncio.get_running_loop(), self._shared.state.connections
        until = loop.time() + _ABORT_S
        while left and loop.time() < until:  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(_LOOK_S)
        for websocket in list(left):
            websocket.transport.abort()
        await asyncio.sleep(0)

    async def _wait_quiet(self) -> None:
        while self.busy:
            self._shared.changed.clear()
            await self._shared.changed.wait()

    def _sweep(self) -> None:
        loop, shared = asyncio.get_running_loop(), self._shared
        # Armed first: no defect below may end the deadlines of all.
        self._timer = loop.call_later(shared.limits.sweep_s, self._sweep)
        if shared.draining:
            shared.changed.set()  # no callback says that a transport has sent everything
        shared.common = b"date: %b\r\n" % formatdate(usegmt=True).encode()
        now = loop.time()
        for connection in list(shared.connections):
            try:
                connection.on_sweep(now)
            except Exception as error:  # noqa: BLE001 - it costs this connection alone
                report(error)
                connection.transport.abort()


def _bind(listener: Listener, limits: FrontLimits) -> list[socket.socket]:
    """Bind every address of the host; port 0 is chosen once and then used for all of them."""
    infos = socket.getaddrinfo(
        listener.host, listener.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(infos):
            sock = socket.socket(family, kind, protocol)
            sockets.append(sock)
            _prepare(sock, limits)
            port = sockets[0].getsockname()[1] or listener.port
            sock.bind((address[0], port, *address[2:]))
    except OSError:
        for sock in sockets:
            sock.close()
        raise
    return sockets


def _prepare(sock: socket.socket, limits: FrontLimits) -> None:
    """Set options that accepted sockets inherit."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    sock.settimeout(0)


def check_certificate(cert: str, key: str) -> ssl.SSLContext:
    """Return TLS with these files in PEM; `OSError` where they are no certificate and its key."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(cert, key)
    except ValueError:
        # What no file can be called.
        raise ssl.SSLError("no certificate") from None
    return context


def _tls(listener: Listener) -> ssl.SSLContext | None:
    if listener.tls_cert is None or listener.tls_key is None:
        return None
    return check_certificate(listener.tls_cert, listener.tls_key)


async def open_front(
    app: App,
    listener: Listener,
    limits: FrontLimits,
    *,
    direct: Direct | None = None,
    errors: Errors = openai_errors,
) -> Front:
    """Bind and accept; `OSError` where the address is taken or the TLS files cannot be read.

    `direct` routes are asked first, `app` gets what they leave.
    """
    tls = _tls(listener)
    limits = fitted(limits)
    config = uvicorn_config(contained(app), limits)
    shared = Shared(app, limits, config, direct=direct, errors=errors)
    front = Front(shared, _bind(listener, limits), tls)
    await front.open(listener)
    return front
