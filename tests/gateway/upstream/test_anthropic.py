"""What the gateway itself says on Anthropic's address, in the words of that API."""

from __future__ import annotations

import asyncio
import hashlib

import msgspec
import pytest

from roost.core.ids import TenantId
from roost.errors import Failure
from roost.fleet.upstream.pool import PoolSettings
from roost.gateway.failures import errors_under, speaks_anthropic
from roost.gateway.front.access import Principal, by_digest
from roost.gateway.front.limits import FrontLimits
from roost.gateway.routes import Places
from tests.conftest import Eventually
from tests.gateway.front.conftest import Reply
from tests.gateway.upstream.conftest import (
    EVENT,
    PROBE_S,
    STREAM,
    FakeServer,
    chat,
    chunk,
    fleet,
    get,
    hang,
    writing,
)

PATH = "/v1/messages"
ONE = PoolSettings(max_in_flight=1, probe_s=PROBE_S)


def told(reply: Reply) -> tuple[int, str]:
    """Check the shape of an error body and return the status and the type."""
    body = msgspec.json.decode(reply.body)
    assert body.keys() == {"type", "error", "request_id"}
    assert body["type"] == "error"
    assert body["error"].keys() == {"type", "message"}
    assert body["request_id"] == reply.headers["request-id"]
    return reply.status, body["error"]["type"]


@pytest.mark.parametrize(
    ("path", "theirs"),
    [
        ("/v1/messages", True),
        ("/messages", True),
        ("//v1/messages/", True),
        ("/v1/mess%61ges", True),
        ("/v1/messages/count_tokens", True),
        ("/v1/messages_of_others", False),
        ("/v1/chat/completions", False),
        ("/v1/v1/messages", False),
        ("/", False),
    ],
)
def test_whose_address_it_is(path: str, theirs: bool) -> None:
    """The address is theirs in every spelling that finds the route."""
    assert speaks_anthropic(path) is theirs


def test_the_base_path_stands_before_it() -> None:
    """Under a base only what is inside speaks their dialect; odd bytes are nobody's."""
    errors = errors_under(Places("/llm").inside)
    failure = Failure("no_nodes", "None.")
    assert errors(failure, b"/llm/v1/messages", "i")[0] == 529
    for path in (b"/v1/messages", b"/\xff", b"*", b""):
        assert errors(failure, path, "i")[0] == 503


async def test_refusals_of_the_pool(eventually: Eventually) -> None:
    """Full is 429, nobody there is 529, and the retry hint stays a header."""
    server = FakeServer(hang)
    async with fleet(server, pool=ONE) as world:
        busy = await world.client()
        await busy.send(chat(path=PATH))
        await eventually(lambda: world.in_flight == 1)
        full = await world.ask(chat(path=PATH))
        assert told(full) == (429, "rate_limit_error")
        assert int(full.headers["retry-after"]) >= 1
        server.healthy = False
        await eventually(lambda: not world.gateway.pool.ready)
        assert told(await world.ask(chat(path=PATH))) == (529, "overloaded_error")
        other = await world.ask(chat())
        assert (other.status, other.error["code"]) == (503, "no_nodes")


async def test_refusals_of_the_gate() -> None:
    """A missing key, a wrong Host and a wrong method are told before any server is asked."""
    authorise = by_digest({hashlib.sha256(b"sk").hexdigest(): Principal(TenantId("key:a"))})
    server = FakeServer()
    async with fleet(server, authorise=authorise) as world:
        assert told(await world.ask(chat(path=PATH))) == (401, "authentication_error")
        evil = chat(path=PATH).replace(b"localhost", b"evil.example")
        assert told(await world.ask(evil)) == (403, "permission_error")
        wrong = get(PATH).replace(b"\r\n\r\n", b"\r\nx-api-key: sk\r\n\r\n")
        assert told(await world.ask(wrong)) == (405, "invalid_request_error")
        late = chat(path=PATH, x_api_key="sk", x_roost_timeout_ms="soon")
        assert told(await world.ask(late)) == (400, "invalid_request_error")
        assert server.asked == []


async def test_refusals_of_the_front() -> None:
    """Too large, too slow and too late are told so as well, though nobody is matched yet."""
    limits = FrontLimits(body_max_bytes=100, body_s=0.1, sweep_s=0.02)
    async with fleet(FakeServer(), limits=limits) as world:
        assert told(await world.ask(chat(b"x" * 101, PATH))) == (413, "request_too_large")
        slow = await world.ask(chat(b"x" * 50, PATH)[:-1])
        assert told(slow) == (408, "invalid_request_error")
        client = await world.client()
        assert (await client.ask(get("/health"))).status == 200
        assert world.gateway.front is not None
        world.gateway.front.stop_accepting()
        assert told(await client.ask(chat(path=PATH))) == (529, "overloaded_error")


async def test_failures_of_servers() -> None:
    """Nobody reachable is 502, silence beyond the limit 504."""
    server = FakeServer(writing(cut=True))
    async with fleet(server, pool=PoolSettings(probe_s=PROBE_S)) as world:
        assert told(await world.ask(chat(path=PATH))) == (502, "api_error")
    async with fleet(FakeServer(hang)) as world:
        late = await world.ask(chat(path=PATH, x_roost_timeout_ms="50"))
        assert told(late) == (504, "timeout_error")


async def test_a_stream_that_is_cut_ends_with_their_event() -> None:
    """The event has a name, a type and the id, without which their clients drop it."""
    async with fleet(FakeServer(writing(STREAM + chunk(EVENT), cut=True))) as world:
        client = await world.client()
        await client.send(chat(path=PATH))
        _, headers = await client.head()
        assert await client.chunk() == EVENT
        async with asyncio.timeout(5):
            name, _, data = (await client.chunk()).partition(b"\n")
        assert name == b"event: error"
        assert msgspec.json.decode(data.removeprefix(b"data: ")) == {
            "type": "error",
            "error": {
                "type": "api_error",
                "message": "The upstream server was lost before its answer was complete.",
            },
            "request_id": headers["request-id"],
        }
