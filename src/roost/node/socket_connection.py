"""SHELL: the node's end of a link over a WebSocket; the only module that imports `websockets`."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from roost.errors import Failure, RoostError, fail
from roost.wire.codec import decode_from_gateway, encode
from roost.wire.messages import FromGateway, FromNode

LINK_PATH = "/roost/v1/link"
REFUSALS = {401: "unauthorized", 403: "forbidden", 404: "not_found"}


class Address(msgspec.Struct, frozen=True):
    """Where a gateway is and how to be let in.

    `url` is http(s)://HOST[:PORT][/BASE]; `ca_file` verifies its certificate in place of the
    system's authorities.
    """

    url: str
    token: str
    ca_file: str = ""
    message_max_bytes: int = 32 * 1024 * 1024
    open_timeout_s: float = 10.0


class SocketConnection:
    """A `wire.memory.Connection` over an open WebSocket; binary frames, one message each."""

    def __init__(self, socket: ClientConnection, max_bytes: int) -> None:
        self._socket = socket
        self._max_bytes = max_bytes

    async def send(self, message: FromNode) -> None:
        """Send one message; `node_lost` once the socket is gone."""
        try:
            await self._socket.send(encode(message, self._max_bytes))
        except ConnectionClosed:
            raise fail("node_lost", "the link is closed") from None

    async def receive(self) -> FromGateway | None:
        """Wait for the next message; None once the gateway has gone."""
        try:
            frame = await self._socket.recv()
        except ConnectionClosed:
            return None
        if isinstance(frame, str):
            raise fail("bad_request", "a link carries binary frames only")
        return decode_from_gateway(frame, self._max_bytes)

    async def close(self) -> None:
        """Close the socket; idempotent."""
        await self._socket.close()


def link_url(url: str) -> str:
    """Return the WebSocket address of a gateway's link; `bad_request` for what is no http URL."""
    parts = urlsplit(url)
    schemes = {"http": "ws", "https": "wss"}
    if parts.scheme not in schemes or not parts.hostname or parts.query or parts.fragment:
        raise fail("bad_request", "--join needs http://HOST:PORT or https://HOST:PORT.")
    return f"{schemes[parts.scheme]}://{parts.netloc}{parts.path.rstrip('/')}{LINK_PATH}"


async def dial(address: Address) -> SocketConnection:
    """Open a WebSocket to a gateway.

    Raises `unauthorized`, `forbidden` or `not_found` where the gateway says so, and `node_lost`
    where nobody answers.
    """
    url = link_url(address.url)
    context = None
    if url.startswith("wss:"):
        context = ssl.create_default_context(cafile=address.ca_file or None)
    try:
        socket = await connect(
            url,
            additional_headers={"authorization": f"Bearer {address.token}"},
            ssl=context,
            max_size=address.message_max_bytes,
            open_timeout=address.open_timeout_s,
            compression=None,
            # The link has pings of its own, which its machines judge by.
            ping_interval=None,
            # A proxy of the environment is for the internet, not for one's own machines.
            proxy=None,
        )
    except InvalidStatus as error:
        raise RoostError(_refusal(error.response.status_code)) from None
    except (OSError, TimeoutError, WebSocketException) as error:
        raise fail("node_lost", f"No gateway answers there ({type(error).__name__}).") from None
    return SocketConnection(socket, address.message_max_bytes)


def _refusal(status: int) -> Failure:
    reason = REFUSALS.get(status)
    if reason == "unauthorized":
        return Failure(reason, "The gateway does not accept this token: see `roost token`.")
    if reason is not None:
        return Failure(reason, f"The gateway answers {status}: is this the address of a roost?")
    return Failure("node_lost", f"The gateway answers {status}.")
