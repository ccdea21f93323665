"""The stateless gateway over real sockets: what passes and what is refused."""

from __future__ import annotations

import asyncio
import hashlib

import pytest

from roost.core.ids import TenantId
from roost.fleet.upstream.pool import PoolSettings
from roost.gateway.front.access import Principal, by_digest
from tests.conftest import Eventually
from tests.gateway.upstream.conftest import (
    BODY,
    DONE,
    EVENT,
    PROBE_S,
    FakeServer,
    answer,
    chat,
    fleet,
    get,
    hang,
    stream,
    whole,
    writing,
)

Writer = asyncio.StreamWriter
ONE = PoolSettings(max_in_flight=1, probe_s=PROBE_S)


async def test_body_passes_unchanged() -> None:
    """A JSON answer comes through byte by byte, with the ids and the node's name."""
    server = FakeServer()
    async with fleet(server) as world:
        reply = await world.ask(chat(b'{"messages":[]}', x_stainless_lang="python"))
        assert (reply.status, reply.body) == (200, BODY)
        assert reply.headers["x-roost-node"] == "s0"
        assert len(reply.headers["x-roost-request-id"]) == 32
        asked = server.asked[0]
        assert (asked.line, asked.body) == (
            "POST /v1/chat/completions HTTP/1.1",
            b'{"messages":[]}',
        )
        assert asked.headers["host"] == f"127.0.0.1:{server.port}"
        assert asked.headers["x-request-id"] == reply.headers["x-request-id"]
        assert "x-stainless-lang" not in asked.headers


async def test_a_key_is_passed_on_and_nothing_is_kept() -> None:
    """What an `Idempotency-Key` means is for the server to say: the same call goes there again."""
    server = FakeServer()
    async with fleet(server) as world:
        for _ in range(2):
            reply = await world.ask(chat(b'{"messages":[]}', idempotency_key="k-1"))
            assert (reply.status, reply.body) == (200, BODY)
            assert "idempotency-replayed" not in reply.headers
        assert [asked.headers["idempotency-key"] for asked in server.asked] == ["k-1", "k-1"]


async def test_stream_passes_in_order() -> None:
    """Events come through whole, in order, with headers that keep proxies from holding them."""
    async with fleet(FakeServer(stream)) as world:
        reply = await world.ask(chat())
        assert reply.body == EVENT * 3 + DONE
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert reply.headers["x-accel-buffering"] == "no"
        assert world.in_flight == 0
        assert world.view.servers[0].served == 1


@pytest.mark.parametrize(
    "path",
    ["/v1/completions", "/v1/embeddings", "/v1/messages", "/v1/responses", "/chat/completions"],
)
async def test_other_routes(path: str) -> None:
    """Every listed address is passed on under its full name, with its query."""
    server = FakeServer()
    async with fleet(server) as world:
        assert (await world.ask(chat(path=path + "?beta=true"))).status == 200
        full = path if path.startswith("/v1") else "/v1" + path
        assert server.asked[0].line == f"POST {full}?beta=true HTTP/1.1"


async def test_models_are_asked_without_a_place(eventually: Eventually) -> None:
    """The list of models passes while all places are taken; names keep their slashes."""
    server = FakeServer(hang)
    async with fleet(server, pool=ONE) as world:
        busy = await world.client()
        await busy.send(chat())
        await eventually(lambda: len(server.asked) == 1)
        server.script = answer
        assert (await world.ask(get("/v1/models"))).body == BODY
        assert (await world.ask(get("/v1/models/org%2Fa:b"))).status == 200
        assert server.asked[-1].line == "GET /v1/models/org%2Fa:b HTTP/1.1"
        client = await world.client()
        await client.send(get("/v1/models").replace(b"GET", b"HEAD"))
        assert (await client.reply(to_head=True)).headers["content-length"] == str(len(BODY))


async def test_unknown_addresses_are_not_passed_on() -> None:
    """What is not listed is a 404 here, and a wrong method a 405."""
    server = FakeServer()
    async with fleet(server) as world:
        assert (await world.ask(get("/slots"))).status == 404
        assert (await world.ask(chat(path="/v1/images"))).status == 404
        wrong = await world.ask(get("/v1/chat/completions"))
        assert (wrong.status, wrong.headers["allow"]) == (405, "POST")
        assert server.asked == []


async def test_keys_stay_where_they_belong() -> None:
    """The client's key is checked and never forwarded; the server gets its own."""
    authorise = by_digest({hashlib.sha256(b"sk-a").hexdigest(): Principal(TenantId("key:a"))})
    server = FakeServer()
    async with fleet(server, authorise=authorise, key="sk-upstream") as world:
        assert (await world.ask(chat())).status == 401
        assert (await world.ask(chat(Authorization="Bearer wrong"))).status == 401
        assert (await world.ask(chat(Authorization="Bearer sk-a", Cookie="c=1"))).status == 200
        assert (await world.ask(chat(X_Api_Key="sk-a"))).status == 200
        assert len(server.asked) == 2
        for asked in server.asked:
            assert asked.headers["authorization"] == "Bearer sk-upstream"
            assert not {"x-api-key", "cookie"} & asked.headers.keys()


async def test_hosts_and_origins_are_checked() -> None:
    """The gate stands in front of what is passed on, too."""
    server = FakeServer()
    async with fleet(server) as world:
        assert (await world.ask(chat().replace(b"localhost", b"evil.example"))).status == 403
        assert (await world.ask(chat(Origin="http://evil.example"))).status == 403
        good = await world.ask(chat(Origin="http://localhost:3000"))
        assert good.headers["access-control-allow-origin"] == "http://localhost:3000"
        assert len(server.asked) == 1


async def test_headers_of_the_answer_are_rebuilt() -> None:
    """Useful headers pass; connection matters, cookies and foreign CORS do not."""
    extra = (
        "Retry-After: 7\r\nSet-Cookie: a=b\r\nAccess-Control-Allow-Origin: *\r\nServer: x\r\n"
        "Keep-Alive: timeout=5\r\nX-Request-Id: theirs\r\n"
    )
    async with fleet(FakeServer(writing(whole(status="429 Too Many", extra=extra)))) as world:
        reply = await world.ask(chat())
        assert (reply.status, reply.headers["retry-after"], reply.body) == (429, "7", BODY)
        assert not {"set-cookie", "access-control-allow-origin", "server", "keep-alive"} & (
            reply.headers.keys()
        )
        assert reply.headers["x-request-id"] != "theirs"


@pytest.mark.parametrize("status", ["400 Bad Request", "404 Not Found", "503 Busy", "500 Oops"])
async def test_statuses_of_the_server_pass(status: str) -> None:
    """What the server says is what the client hears; one 500 takes nobody out of the pool."""
    server = FakeServer(writing(whole(status=status)))
    async with fleet(server) as world:
        reply = await world.ask(chat())
        assert (reply.status, reply.body) == (int(status[:3]), BODY)
        assert world.view.servers[0].health == "healthy"
        assert len(server.asked) == 1


async def test_full_is_429_with_a_hint(eventually: Eventually) -> None:
    """Without a queue the one too many is refused at once, and told when to come back."""
    server = FakeServer(hang)
    async with fleet(server, pool=ONE) as world:
        busy = await world.client()
        await busy.send(chat())
        await eventually(lambda: len(server.asked) == 1)
        reply = await world.ask(chat())
        assert (reply.status, reply.error["code"]) == (429, "queue_full")
        assert 1 <= int(reply.headers["retry-after"]) <= 120
        assert world.view.rejected == 1
        metrics = (await world.ask(get("/metrics"))).body.decode()
        assert 'roost_in_flight{node="s0"} 1.0' in metrics
        assert 'roost_shed_total{reason="queue_full"} 1.0' in metrics


async def test_queued_request_is_served_when_a_place_is_free(eventually: Eventually) -> None:
    """With a queue the next one waits, and goes when the first has left."""
    server = FakeServer(hang)
    pool = PoolSettings(max_in_flight=1, queue_length=1, probe_s=PROBE_S)
    async with fleet(server, pool=pool) as world:
        first, second = await world.client(), await world.client()
        await first.send(chat())
        await eventually(lambda: len(server.asked) == 1)
        await second.send(chat())
        await eventually(lambda: world.view.queued == 1)
        assert (await world.ask(chat())).status == 429
        server.script = answer
        first.close()
        assert (await second.reply()).status == 200
        assert world.in_flight == 0


async def test_queued_client_that_leaves_is_forgotten(eventually: Eventually) -> None:
    """A request whose client left while it waited never reaches a server."""
    server = FakeServer(hang)
    pool = PoolSettings(max_in_flight=1, queue_length=1, probe_s=PROBE_S)
    async with fleet(server, pool=pool) as world:
        first, second = await world.client(), await world.client()
        await first.send(chat())
        await eventually(lambda: len(server.asked) == 1)
        await second.send(chat())
        await eventually(lambda: world.view.queued == 1)
        second.close()
        await eventually(lambda: world.view.queued == 0)
        first.close()
        await eventually(lambda: world.in_flight == 0)
        assert len(server.asked) == 1
