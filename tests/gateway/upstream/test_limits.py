"""What keys may use in front of other servers: requests, places and models, and no tokens."""

from __future__ import annotations

import msgspec

from roost.core.allowance import Account, Allowance
from roost.core.ids import TenantId
from roost.fleet.upstream.pool import PoolSettings
from roost.gateway.front.access import Authorise, Fields, Principal
from roost.gateway.upstream.gateway import UpstreamSettings
from tests.conftest import until
from tests.gateway.upstream.conftest import PROBE_S, FakeServer, chat, fleet, get, hang

MANY = PoolSettings(max_in_flight=100, probe_s=PROBE_S)


def limited(allowance: Allowance) -> Authorise:
    """Let everybody in on one account."""

    def authorise(_fields: Fields) -> Principal:
        return Principal(TenantId("t"), account=Account("k", "t", allowance))

    return authorise


def asking(model: str) -> bytes:
    """Build a request for a model."""
    return chat(msgspec.json.encode({"model": model}))


async def test_requests_and_places() -> None:
    """A place is free again when its request is over, also if its client has left."""
    server = FakeServer(script=hang)
    one_at_once = Allowance(requests_per_minute=3, at_once=1)
    async with fleet(server, pool=MANY, authorise=limited(one_at_once)) as world:
        for _ in range(3):
            client = await world.client()
            await client.send(chat())
            await until(lambda: world.in_flight == 1, what="it runs")
            second = await world.ask(chat())
            assert (second.status, second.headers["x-ratelimit-limit-requests"]) == (429, "3")
            client.close()
            await until(lambda: world.in_flight == 0, what="its client has left")
        refused = await world.ask(chat())
        assert b"3 requests a minute" in refused.body
        assert 1 <= int(refused.headers["retry-after"]) <= 20


async def test_models_are_filtered_and_refused() -> None:
    """By each of their names; a request that names none is for a model that nobody allowed."""
    server = FakeServer(models=("a", "b"))
    authorise = limited(Allowance(models=("x", "c")))
    async with fleet(server, pool=MANY, authorise=authorise) as world:
        world.gateway.follow(UpstreamSettings((), aliases={"x": "a"}))
        await until(lambda: world.view.servers[0].models is not None, what="it is listed")
        listed = msgspec.json.decode((await world.ask(get("/v1/models"))).body)["data"]
        assert [entry["id"] for entry in listed] == ["a", "x"]
        assert (await world.ask(get("/v1/models/b"))).status == 404
        statuses = [(await world.ask(asking(name))).status for name in ("a", "x", "b", "no")]
        assert statuses == [200, 200, 403, 403]
        assert (await world.ask(chat(b"{}"))).status == 403


async def test_limits_of_tokens_are_not_pretended() -> None:
    """What other servers take is not known here, so such a key is refused and told why."""
    authorise = limited(Allowance(tokens_per_day=1000))
    async with fleet(FakeServer(), authorise=authorise) as world:
        reply = await world.ask(chat())
        assert (reply.status, b"limits of tokens" in reply.body) == (403, True)
