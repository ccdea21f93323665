"""What there is in front of servers: all of it is described, and of the rest it is said where."""

from __future__ import annotations

import json
import re

import pytest

from roost.gateway.desk.addresses import ADDRESSES, Address
from roost.gateway.desk.pages import FILES
from roost.gateway.routes import Routes
from roost.gateway.upstream.addresses import IN_FRONT
from roost.gateway.upstream.elsewhere import APIS
from tests.gateway.upstream.conftest import FakeServer, fleet, get

EXAMPLES = {"file": "app.js", "verb": "drain"}


def example(path: str) -> str:
    """Fill in an address."""
    return re.sub(r"\{(\w+)\}", lambda part: EXAMPLES.get(part.group(1), "x"), path)


def pattern(routes: Routes, address: Address) -> str | None:
    """Give the pattern by which an address is served."""
    return routes.pattern_of(address.method, example(address.path))


async def test_every_route_is_described_and_nothing_else() -> None:
    """The document is the one that is served, to whoever has no key."""
    async with fleet(FakeServer()) as world:
        routes = world.gateway.routes
        assert routes is not None
        served = {one for one in routes.served() if one[1] not in APIS}
        told = {(one.method, pattern(routes, one)) for one in IN_FRONT}
        files = {one for one in served if one[1].startswith(FILES)}
        assert [one.path for one in IN_FRONT if pattern(routes, one) is None] == []
        assert told - files == served - files
        assert told & files
        reply = await world.ask(get("/openapi.json"))
    described = json.loads(reply.body)["paths"]
    assert set(described) == {one.path for one in IN_FRONT}
    fleet_reply = described["/roost/v1/fleet"]["get"]["responses"]["200"]["content"]
    assert fleet_reply["application/json"]["schema"]["$ref"].endswith("UpstreamFleet")


HERE = {(one.method, one.path) for one in IN_FRONT}
ORDERS = "/roost/v1/nodes/"
ELSEWHERE = [
    one
    for one in ADDRESSES
    if (one.method, one.path) not in HERE and not one.path.startswith(ORDERS)
]


async def test_of_the_rest_it_is_said_who_has_it() -> None:
    """In the words of the API that was asked for; an address that nobody has is nothing here."""
    async with fleet(FakeServer()) as world:
        for one in ELSEWHERE:
            path = example(one.path).encode()
            reply = await world.ask(
                b"%b %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"
                % (one.method.encode(), path)
            )
            assert reply.status in (404, 405), one.path
            assert b"roost gateway --upstream" in reply.body, one.path
        ollama = await world.ask(get("/api/tags"))
        assert isinstance(json.loads(ollama.body)["error"], str)
        unknown = await world.ask(get("/nothing"))
        assert b"There is nothing at this address" in unknown.body


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/models/x", "/roost/v1/fleet"])
async def test_what_begins_alike_is_what_it_was(path: str) -> None:
    """No route gives way."""
    async with fleet(FakeServer()) as world:
        reply = await world.ask(get(path))
        assert b"roost gateway --upstream" not in reply.body
