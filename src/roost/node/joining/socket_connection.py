"""SHELL: a node's end of a WebSocket to a gateway; the only module that imports `websockets`."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidMessage,
    InvalidStatus,
    WebSocketException,
)

from roost.core.hosts import is_host
from roost.errors import RoostError, fail
from roost.node.joining.pinned_tls import pinned_context
from roost.wire.codec import FRAME_MAX_BYTES, UnknownKindError, decode_from_gateway, encode
from roost.wire.messages import LINK_PATH, FromGateway, FromNode

_SCHEMES = {"http": "ws", "https": "wss"}
_REFUSALS = {
    401: ("unauthorized", "The gateway does not accept this token: see `roost token`."),
    403: (
        "forbidden",
        (
            "The gateway does not answer to this address: give its IP address, or start it with "
            "--allowed-hosts and this name. The address has no /v1."
        ),
    ),
    404: ("not_found", "There is no link at this address: is a roost gateway there?"),
}


class Address(msgspec.Struct, frozen=True):
    """Where a gateway is and how to be let in.

    `url` is http(s)://HOST[:PORT][/BASE], `token` a join token. `ca_file` verifies the gateway's
    certificate in place of the system's authorities; without it, `pin` is the fingerprint of the
    only certificate that the gateway may have, "" for any that they verify.
    `open_timeout_s` is for the connection to stand, `close_timeout_s` for the gateway to answer a
    close.
    """

    url: str
    token: str
    ca_file: str = ""
    pin: str = ""
    message_max_bytes: int = FRAME_MAX_BYTES
    open_timeout_s: float = 10.0
    close_timeout_s: float = 1.0


def link_url(url: str) -> str:
    """Return the WebSocket address of a gateway's link; `bad_request` for what is no http URL."""
    try:
        parts = urlsplit(url)
        is_whole = is_host(parts.hostname or "") and parts.port != 0
    except ValueError:
        raise _no_address() from None
    if not is_whole or parts.scheme not in _SCHEMES or parts.query or parts.fragment:
        raise _no_address()
    return f"{_SCHEMES[parts.scheme]}://{parts.netloc}{parts.path.rstrip('/')}{LINK_PATH}"


async def dial(address: Address) -> SocketConnection:
    """Open a WebSocket to a gateway.

    Raises `unauthorized`, `forbidden` or `not_found` where the gateway says so, `bad_request` for
    an address or a CA file that cannot be used, `forbidden` for another certificate than the one
    that is pinned, and `node_lost` where nobody answers.
    """
    url = link_url(address.url)
    context = _tls(address) if url.startswith("wss:") else None
    try:
        socket = await connect(
            url,
            additional_headers={"Authorization": f"Bearer {address.token}"},
            ssl=context,
            max_size=address.message_max_bytes,
            open_timeout=address.open_timeout_s,
            close_timeout=address.close_timeout_s,
            # Deltas are tiny: compressing each would cost more than it saves.
            compression=None,
            # The link has pings of its own, which its machines judge by.
            ping_interval=None,
            # A proxy of the environment is for the internet, not for one's own machines.
            proxy=None,
        )
    except InvalidStatus as error:
        raise _refusal(error.response.status_code) from None
    except ssl.SSLCertVerificationError as error:
        raise _untrusted(address, error) from None
    except ssl.SSLError:
        message = "No TLS comes about there: join a gateway that speaks plain HTTP with http://."
        raise fail("node_lost", message) from None
    except InvalidMessage:
        meant = "; one that has a certificate is joined with https://" if context is None else ""
        raise fail("node_lost", f"Nothing that answers there is a gateway{meant}.") from None
    except (OSError, TimeoutError, WebSocketException) as error:
        raise fail("node_lost", f"No gateway answers there ({type(error).__name__}).") from None
    return SocketConnection(socket, address.message_max_bytes)


class SocketConnection:
    """A `wire.memory.NodeConnection` over an open WebSocket; binary frames, one message each."""

    def __init__(self, socket: ClientConnection, message_max_bytes: int) -> None:
        self._socket = socket
        self._message_max_bytes = message_max_bytes

    async def send(self, message: FromNode, frame: bytes | None = None) -> None:
        """Send one message, waiting while the socket is full; `node_lost` once it is closed."""
        frame = frame or encode(message, self._message_max_bytes)
        try:
            await self._socket.send(frame)
        except ConnectionClosed:
            raise fail("node_lost", "the link is closed") from None

    async def receive(self) -> FromGateway | None:
        """Wait for the next message; None once the gateway has gone."""
        while True:
            try:
                frame = await self._socket.recv()
            except ConnectionClosed:
                return None
            if isinstance(frame, str):
                raise fail("bad_request", "a link carries binary frames only")
            try:
                return decode_from_gateway(frame, self._message_max_bytes)
            except UnknownKindError:
                continue  # only a newer release says that

    async def close(self) -> None:
        """Close the socket; idempotent."""
        await self._socket.close()


def _no_address() -> RoostError:
    return fail("bad_request", "--join needs http://HOST:PORT or https://HOST:PORT.")


def _tls(address: Address) -> ssl.SSLContext:
    if address.pin and not address.ca_file:
        return pinned_context(address.pin)
    try:
        return ssl.create_default_context(cafile=address.ca_file or None)
    except OSError:
        raise fail("bad_request", "The CA file cannot be read or holds no certificate.") from None


def _untrusted(address: Address, error: ssl.SSLCertVerificationError) -> RoostError:
    """Say what to do about a certificate; the token has not been sent to whoever showed it."""
    if address.pin and not address.ca_file:
        # It will be another one at the next dial too, and whoever has it should not be asked again.
        message = (
            "What answers there has another certificate than the one that the token names, so it "
            "was told nothing. If the gateway has a new certificate, make a new token there with "
            "`roost token`; if something in front of it does TLS, with `roost token --no-pin`."
        )
        return fail("forbidden", message)
    message = (
        f"The gateway's certificate is not trusted here ({error.verify_message}): give --ca-file, "
        "or a token that `roost token` has made since the gateway has its certificate."
    )
    return fail("node_lost", message)


def _refusal(status: int) -> RoostError:
    if status in _REFUSALS:
        return fail(*_REFUSALS[status])
    return fail("node_lost", f"The gateway answers {status} where a link was asked for.")
