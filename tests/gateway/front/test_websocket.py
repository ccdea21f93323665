"""WebSockets on the same listener, with a foreign client."""

from __future__ import annotations

import asyncio

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from roost.errors import Failure
from roost.gateway.front.access import Fields, Gate, Principal, allowed, presented_key
from roost.gateway.front.asgi import App, Receive, Scope, Send
from roost.gateway.front.guard import guarded
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.front.server import Front, open_front


def token(fields: Fields) -> Principal | Failure:
    """Accept one join token."""
    if presented_key(fields) == b"join":
        return Principal(role="node")
    return Failure("unauthorized", "A join token is needed.")


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Send every message back, but the first."""
    await receive()
    await send({"type": "websocket.accept", "headers": []})
    while (message := await receive())["type"] == "websocket.receive":
        data = message.get("bytes") or b""
        await send({"type": "websocket.send", "bytes": data})


async def deaf(scope: Scope, receive: Receive, send: Send) -> None:
    """Accept and never read."""
    await receive()
    await send({"type": "websocket.accept", "headers": []})
    await asyncio.get_running_loop().create_future()


async def open_link(app: App = echo, limits: FrontLimits | None = None) -> Front:
    """Open a front that serves only WebSockets."""
    served = guarded(app, Gate(allowed("127.0.0.1")), websocket=token)
    return await open_front(served, Listener(port=0), limits or FrontLimits())


def dial(front: Front, host: str = "127.0.0.1", **headers: str) -> connect:
    """Dial the front under this name with these extra headers."""
    return connect(
        f"ws://{host}:{front.port}/link",
        host="127.0.0.1",
        additional_headers=headers,
        compression=None,
        proxy=None,
    )


async def test_echo() -> None:
    """Messages of any size under the limit come back."""
    front = await open_link()
    async with dial(front, Authorization="Bearer join") as link:
        for size in (0, 1, 70_000, 1_000_000):
            await link.send(b"x" * size)
            assert len(await link.recv()) == size
    await front.close(0)
    assert front.connections == 0


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer join", "host": "evil.example"}, 403),
        ({"Authorization": "Bearer join", "Origin": "http://evil.example"}, 403),
    ],
)
async def test_refused(headers: dict[str, str], status: int) -> None:
    """Token, Host and Origin are checked before the upgrade."""
    front = await open_link()
    with pytest.raises(InvalidStatus) as refused:
        async with dial(front, **headers):
            raise AssertionError("must not connect")
    assert refused.value.response.status_code == status
    await front.close(0)


async def test_message_over_the_limit_ends_the_link() -> None:
    """Too large a message is closed with 1009."""
    front = await open_link(limits=FrontLimits(websocket_message_bytes=1000))
    async with dial(front, Authorization="Bearer join") as link:
        await link.send(b"x" * 1001)
        with pytest.raises(ConnectionClosed):
            await link.recv()
        assert link.close_code == 1009
    await front.close(0)


async def _fill(link: ClientConnection) -> int:
    sent = 0
    while True:
        await link.send(b"x" * 65_536)
        sent += 1


async def test_unread_messages_stop_the_sender() -> None:
    """An application that does not read makes its peer wait: nothing piles up here."""
    front = await open_link(deaf)
    async with dial(front, Authorization="Bearer join") as link:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(_fill(link), 0.2)
        await front.close(0)


async def test_drain_keeps_links_until_the_end() -> None:
    """A link outlives `stop_accepting`, because running streams may need it."""
    front = await open_link()
    async with dial(front, Authorization="Bearer join") as link:
        front.stop_accepting()
        await link.send(b"still here")
        assert await link.recv() == b"still here"
        await front.close(0)
        with pytest.raises(ConnectionClosed):
            await link.recv()
