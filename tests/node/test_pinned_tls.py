"""A gateway that is known by its fingerprint: it alone is talked to, nobody else hears a word."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from roost.errors import RoostError, fail
from roost.node.joining.dial import DialSettings, keep_joined
from roost.node.joining.pinned_tls import pinned_context
from roost.node.joining.socket_connection import Address, dial
from roost.observe import logs
from roost.store.credentials.certificate import Certificate, own_certificate
from roost.store.home import Home
from roost.wire.link_tables import Close
from roost.wire.memory import NodeConnection

TOKEN = "rt-secret"


@pytest.fixture
def certificates(tmp_path: Path) -> tuple[Certificate, Certificate]:
    """The gateway's certificate, and that of somebody in the middle."""
    first, second = (own_certificate(Home.open(tmp_path / name)) for name in ("one", "two"))
    return first, second


class Heard:
    """A TLS server that answers nothing and notes what it is told."""

    def __init__(self) -> None:
        self.bytes = bytearray()

    async def listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read until the client leaves, or has asked for something."""
        self.bytes += await reader.read(65_536)
        writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n")
        writer.close()


@asynccontextmanager
async def _server(own: Certificate) -> AsyncIterator[tuple[Heard, str]]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.path)
    heard = Heard()
    server = await asyncio.start_server(heard.listen, "127.0.0.1", 0, ssl=context)
    async with server:
        yield heard, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def test_its_owner_is_talked_to_under_any_name(
    certificates: tuple[Certificate, Certificate],
) -> None:
    """The handshake stands, and the token is sent: the answer to it comes back."""
    own, _ = certificates
    async with _server(own) as (heard, url):
        with pytest.raises(RoostError) as caught:
            await dial(Address(url, TOKEN, pin=own.fingerprint))
    assert caught.value.failure.reason == "unauthorized"
    assert f"Bearer {TOKEN}".encode() in heard.bytes


async def test_a_man_in_the_middle_is_told_nothing_and_not_asked_again(
    certificates: tuple[Certificate, Certificate],
) -> None:
    """Another certificate ends it: no token, no second dial, and words that say what to do."""
    own, other = certificates

    async def serve(_: NodeConnection) -> Close:
        raise fail("internal", "no link stands")

    async with _server(other) as (heard, url):
        address, dials = Address(url, TOKEN, pin=own.fingerprint), 0

        async def one() -> NodeConnection:
            nonlocal dials
            dials += 1
            return await dial(address)

        failure = await keep_joined(one, serve, DialSettings(), random.Random(), logs.get())
    assert failure.reason == "forbidden"
    assert "roost token" in failure.message
    assert bytes(heard.bytes) == b""
    assert dials == 1


async def test_authorities_that_are_named_count_in_place_of_the_pin(
    certificates: tuple[Certificate, Certificate],
) -> None:
    """Who gives a CA file has said whom to believe."""
    own, other = certificates
    async with _server(own) as (_, url):
        for ca_file, reason in ((own.public, "unauthorized"), (other.public, "node_lost")):
            with pytest.raises(RoostError) as caught:
                await dial(Address(url, TOKEN, str(ca_file), other.fingerprint))
            assert caught.value.failure.reason == reason


async def test_plain_sockets_are_pinned_as_well(
    certificates: tuple[Certificate, Certificate],
) -> None:
    """What client verbs use is checked in the same handshake."""
    own, other = certificates

    def shaken(url: str, pin: str) -> bool:
        host, port = url.removeprefix("https://").split(":")
        with socket.create_connection((host, int(port)), 5) as plain:
            try:
                pinned_context(pin).wrap_socket(plain, server_hostname=host).close()
            except ssl.SSLCertVerificationError:
                return False
        return True

    async with _server(own) as (heard, url):
        assert await asyncio.to_thread(shaken, url, own.fingerprint)
        assert not await asyncio.to_thread(shaken, url, other.fingerprint)
    assert bytes(heard.bytes) == b""
