"""SHELL: what is used of uvicorn; the only module that imports it.

Of the two WebSocket implementations the sans-I/O one is taken: it stops reading the socket while a
message waits for the application, waits for the client before it writes, and refuses a message over
the limit before it is assembled. Its own pings are off, because the link between gateway and node
has pings that carry state, and compression is off, because frames are small and a core is precious.
"""

from __future__ import annotations

from uvicorn import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.utils import get_local_addr, get_remote_addr
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import ServerState

from roost.gateway.front.asgi import App
from roost.gateway.front.limits import FrontLimits

__all__ = [
    "Config",
    "HttpToolsProtocol",
    "ServerState",
    "WebSocketsSansIOProtocol",
    "get_local_addr",
    "get_remote_addr",
    "uvicorn_config",
]


def uvicorn_config(app: App, limits: FrontLimits) -> Config:
    """Build a configuration that leaves logging, signals, loop and lifespan to roost."""
    config = Config(
        app,
        http=HttpToolsProtocol,
        ws=WebSocketsSansIOProtocol,
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
