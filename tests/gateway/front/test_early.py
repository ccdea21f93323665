"""What the head alone decides is answered before the body, and never invited by a 100."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from roost.errors import Failure
from roost.gateway.front.access import ANYONE, Fields, Gate, Principal, allowed, presented_key
from roost.gateway.front.asgi import Receive, Scope, Send
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.front.server import Front, open_front
from roost.gateway.routes import Call, Places, Routes
from tests.gateway.front.conftest import Client, World, opened

LIMITS = FrontLimits(sweep_s=0.02, body_max_bytes=1000, linger_s=0.2)
EXPECT = "Expect: 100-continue"
REFUSED = [
    ("POST /echo", "Host: evil.example", 403),
    ("POST /echo", "Origin: http://evil.example", 403),
    ("POST /echo", "", 401),
    ("POST /none", "X-Api-Key: sk", 404),
    ("POST /only-get", "X-Api-Key: sk", 405),
    ("OPTIONS /echo", "", 204),
]


def keyed(fields: Fields) -> Principal | Failure:
    """Accept one key."""
    known = presented_key(fields) == b"sk"
    return ANYONE if known else Failure("unauthorized", "A key is needed.")


def echo(call: Call) -> None:
    """Send the body back."""
    call.exchange.reply(200, [], call.exchange.take_body())


async def no_asgi(scope: Scope, receive: Receive, send: Send) -> None:
    """Never called: every address is a direct route."""


@pytest.fixture
async def front() -> AsyncIterator[Front]:
    """A front with direct routes behind a gate that asks for a key."""
    routes = Routes(Gate(allowed("127.0.0.1"), keyed), Places())
    routes.add("POST", "/echo", echo)
    routes.add("GET", "/only-get", echo)
    front = await open_front(no_asgi, Listener(port=0), LIMITS, direct=routes)
    yield front
    await front.close(0)


@pytest.fixture
async def client(front: Front) -> AsyncIterator[Client]:
    """One connection to it."""
    client = Client(*await asyncio.open_connection("127.0.0.1", front.port))
    yield client
    client.close()


def head(line: str, *fields: str) -> bytes:
    """Build a head; the Host is right unless one is given."""
    given = [field for field in fields if field]
    host = [] if any(field.startswith("Host:") for field in given) else ["Host: localhost"]
    return "\r\n".join([f"{line} HTTP/1.1", *host, *given, "", ""]).encode()


@pytest.mark.parametrize("length", ["Content-Length: 5", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize(("line", "field", "status"), REFUSED)
async def test_a_refusal_comes_instead_of_a_100(
    client: Client, line: str, field: str, status: int, length: str
) -> None:
    """The status is the final one, at once, and the connection ends: a body may come or not."""
    reply = await client.ask(head(line, field, length, EXPECT))
    assert (reply.status, reply.headers["connection"]) == (status, "close")
    await client.send(b"hello")
    assert await client.closed() == b""


@pytest.mark.parametrize(("line", "field", "status"), REFUSED)
async def test_a_refusal_does_not_wait_for_the_body(
    client: Client, line: str, field: str, status: int
) -> None:
    """The answer is there before the body; what then comes of it is dropped, and the next served.

    A client that asked for nothing sends its body in any case, so the connection can go on.
    """
    reply = await client.ask(head(line, field, "Content-Length: 5"))
    assert reply.status == status
    assert "connection" not in reply.headers
    await client.send(b"hello")
    after = await client.ask(head("POST /echo", "X-Api-Key: sk", "Content-Length: 2") + b"me")
    assert (after.status, after.body) == (200, b"me")


@pytest.mark.parametrize(
    ("line", "field", "status"), [("POST /echo", "X-Api-Key: sk", 413), ("POST /none", "", 413)]
)
async def test_too_large_a_body_is_not_invited(
    client: Client, line: str, field: str, status: int
) -> None:
    """A length over the limit is refused, whoever asks and wherever."""
    reply = await client.ask(head(line, field, "Content-Length: 1001", EXPECT))
    assert (reply.status, reply.headers["connection"]) == (status, "close")


async def test_a_wanted_body_is_invited_once(client: Client) -> None:
    """Whoever is to be served hears 100, sends the body and is answered on a live connection."""
    good = head("POST /echo", "X-Api-Key: sk", "Content-Length: 5", EXPECT)
    for _ in range(2):
        await client.send(good)
        assert (await client.head())[0] == 100
        assert (await client.ask(b"hello")).body == b"hello"
    assert (await client.ask(good + b"eager")).status == 100
    assert (await client.reply()).body == b"eager"


async def test_without_a_body_nothing_is_invited(client: Client) -> None:
    """An `Expect` on a request that has no body is no question."""
    for line in ("GET /only-get", "POST /echo"):
        reply = await client.ask(head(line, "X-Api-Key: sk", "Content-Length: 0", EXPECT))
        assert (reply.status, "connection" in reply.headers) == (200, False)


async def test_what_follows_a_refused_question_is_not_served(client: Client) -> None:
    """Bytes after the refused head could be a body or a request: they are neither."""
    refused = head("POST /none", "X-Api-Key: sk", "Content-Length: 5", EXPECT)
    behind = head("POST /echo", "X-Api-Key: sk", "Content-Length: 2") + b"me"
    assert (await client.ask(refused + b"hello" + behind)).status == 404
    assert await client.closed() == b""


async def test_an_early_answer_stays_the_only_one(client: Client) -> None:
    """A body that turns out too large after its refusal ends the connection without a word."""
    reply = await client.ask(head("POST /none", "X-Api-Key: sk", "Transfer-Encoding: chunked"))
    assert reply.status == 404
    for _ in range(11):
        await client.send(b"64\r\n" + b"x" * 100 + b"\r\n")
    assert await client.closed() == b""


@pytest.mark.parametrize(("line", "status"), [("POST /echo", 403), ("GET /hello", 200)])
async def test_an_application_invites_by_reading(line: str, status: int) -> None:
    """Over ASGI the 100 goes out when the body is awaited, so a refusal or a quick answer has none.

    The same holds for both of them: the connection ends, since the body may come or not.
    """
    async with opened(LIMITS) as world:
        host = "Host: evil.example" if status == 403 else ""
        reply = await world.ask(head(line, host, "Content-Length: 5", EXPECT))
        assert (reply.status, reply.headers["connection"]) == (status, "close")
        client = await _invited(world)
        assert (await client.ask(b"hello")).body == b'{"got":5,"rest":""}'


async def _invited(world: World) -> Client:
    client = await world.client()
    await client.send(head("POST /echo", "Content-Length: 5", EXPECT))
    assert (await client.head())[0] == 100
    return client
