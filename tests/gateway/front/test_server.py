"""The listener: addresses, TLS, ownership of the loop."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest
import uvloop

from roost.gateway.front.asgi import Receive, Scope, Send
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.front.server import check_certificate, open_front
from roost.store.credentials.certificate import Certificate, own_certificate
from roost.store.home import Home
from tests.gateway.front.asgi_kit import send_json
from tests.gateway.front.conftest import AT_ONCE_S, GET, Client, opened
from tests.gateway.front.test_protocol import post


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer anything."""
    await send_json(send, b"{}")


async def test_port_zero_is_reported() -> None:
    """The bound port is in the URL."""
    front = await open_front(hello, Listener(port=0), FrontLimits())
    assert front.url == f"http://127.0.0.1:{front.port}"
    assert front.port > 0
    await front.close(0)


async def test_taken_port_is_an_error() -> None:
    """A port in use is said at once."""
    front = await open_front(hello, Listener(port=0), FrontLimits())
    with pytest.raises(OSError, match="in use"):
        await open_front(hello, Listener(port=front.port), FrontLimits())
    await front.close(0)


@pytest.mark.slow
async def test_tls(tmp_path: Path) -> None:
    """With a certificate and key it is HTTPS."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
        f"-subj /CN=localhost -addext subjectAltName=DNS:localhost -keyout {key} -out {cert}"
    )
    made = await asyncio.create_subprocess_exec(*command.split(), stderr=subprocess.DEVNULL)
    assert await made.wait() == 0
    listener = Listener(port=0, tls_cert=str(cert), tls_key=str(key))
    async with opened(FrontLimits(), listener=listener) as world:
        context = ssl.create_default_context(cafile=str(cert))
        assert world.front.url.startswith("https://")
        client = Client(
            *await asyncio.open_connection(
                "127.0.0.1", world.front.port, ssl=context, server_hostname="localhost"
            )
        )
        assert (await client.ask(GET)).status == 200
        refused = await client.ask(GET[:-2] + b"Content-Length: x\r\n\r\n")
        assert refused.status == 400
        client.close()


async def test_another_certificate_is_shown_to_whoever_comes_next(tmp_path: Path) -> None:
    """Who is connected stays; files that are none change nothing."""
    first, second = (own_certificate(Home.open(tmp_path / name)) for name in ("one", "two"))
    listener = Listener(port=0, tls_cert=str(first.path), tls_key=str(first.path))

    async def connected(certificate: Certificate) -> Client:
        context = ssl.create_default_context(cafile=str(certificate.public))
        return Client(
            *await asyncio.open_connection(
                "127.0.0.1", front.port, ssl=context, server_hostname="localhost"
            )
        )

    async with opened(FrontLimits(), listener=listener) as world:
        front = world.front
        before = await connected(first)
        with pytest.raises(OSError, match="No such file"):
            check_certificate(str(tmp_path / "none"), str(tmp_path / "none"))
        with pytest.raises(ssl.SSLError):
            check_certificate(str(first.public), str(second.path))
        front.use_certificate(str(second.path), str(second.path))
        after = await connected(second)
        with pytest.raises(ssl.SSLCertVerificationError):
            await connected(first)
        for client in (before, after):
            assert (await client.ask(GET)).status == 200
            client.close()


async def test_limits_change_while_it_listens() -> None:
    """The next request is judged by the new ones, on connections that stand too."""
    async with opened(FrontLimits()) as world:
        client = await world.client()
        large = post("/echo", b"x" * 50)
        assert (await client.ask(large)).status == 200
        world.front.use(FrontLimits(body_max_bytes=10))
        assert (await client.ask(large)).status == 413


async def _scenario() -> None:
    async with opened(FrontLimits(head_s=0.8, sweep_s=0.02)) as world:
        client = await world.client()
        await client.send(GET + post("/v1/chat/completions"))
        assert (await client.reply()).status == 200
        assert (await client.reply()).body.endswith(b"[DONE]\n\n")
        leaving = await world.client()
        await leaving.send(post("/endless"))
        await world.seen.entered.wait()
        leaving.close()
        await asyncio.wait_for(world.seen.gone.wait(), AT_ONCE_S)
        slow = await world.client()
        await slow.send(GET[:5])
        assert (await slow.reply()).status == 408
        assert await slow.closed() == b""


@pytest.mark.slow
def test_same_on_uvloop() -> None:
    """The loop used in production behaves like the one under test."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_scenario())
