"""SHELL: what is used of uvicorn; the only module that imports it.

Of the two WebSocket implementations the sans-I/O one is taken: it stops reading the socket while a
message waits for the application, waits for the client before it writes, and refuses a message over
the limit before it is assembled. What it lacks is an end: a peer that does not read could keep a
connection that was closed, and whoever closes it, for ever. Its own pings are off, because the link
between gateway and node has pings that carry state, and compression is off, because frames are
small and a core is precious.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from roost.gateway.front.asgi import App
from roost.gateway.front.foreign_logs import quieten
from roost.gateway.front.limits import FrontLimits

if TYPE_CHECKING:
    from uvicorn._types import ASGISendEvent

__all__ = [
    "BoundedWebSocket",
    "Config",
    "HttpToolsProtocol",
    "ServerState",
    "get_local_addr",
    "get_remote_addr",
    "uvicorn_config",
]

_LOGGERS = ("uvicorn", "uvicorn.error", "uvicorn.access", "uvicorn.asgi")
"""Every logger of uvicorn; the WebSocket library under it is handed one of them."""


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket whose every end is the end of its socket too, within `close_s`."""

    def __init__(
        self,
        close_s: float,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, object],
    ) -> None:
        super().__init__(config, server_state, app_state)
        self.close_timeout = close_s
        self._abort_timer: asyncio.TimerHandle | None = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadline."""
        if self._abort_timer is not None:
            self._abort_timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what the peer says; its goodbye or its mistake begins the end."""
        super().data_received(data)
        if self.transport.is_closing():
            self._abort_later()

    def shutdown(self) -> None:
        """Say goodbye: the server ends."""
        super().shutdown()
        self._abort_later()

    async def run_asgi(self) -> None:
        """Run the application; the connection does not outlive it."""
        try:
            await super().run_asgi()
        finally:
            self._abort_later()

    async def send(self, message: ASGISendEvent) -> None:
        """Send a message; a close begins the end before it waits for the peer to read."""
        if message["type"] == "websocket.close":
            self._abort_later()
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body"):
            # The handshake has ended in a refusal. uvicorn does not note that, and would complain
            # of an application that never answered.
            self.handshake_complete = True

    def _abort_later(self) -> None:
        if self._abort_timer is None and not self.disconnected:
            self._abort_timer = self.loop.call_later(self.close_timeout, self.transport.abort)


def uvicorn_config(app: App, limits: FrontLimits) -> Config:
    """Build a configuration that leaves logging, signals, loop and lifespan to roost."""
    quieten(_LOGGERS)
    config = Config(
        app,
        http=HttpToolsProtocol,
        # uvicorn only ever calls it, by these three names.
        ws=partial(BoundedWebSocket, limits.websocket_close_s),  # type: ignore[arg-type]
        ws_max_size=limits.websocket_message_bytes,
        ws_ping_interval=None,
        ws_ping_timeout=None,
        ws_per_message_deflate=False,
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
    )
    config.load()
    return config
