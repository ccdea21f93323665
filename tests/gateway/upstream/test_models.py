"""Requests go to servers that have their model: what is read, what is merged, what is passed on."""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.fleet.upstream.pool import PoolSettings
from roost.gateway.upstream.gateway import UpstreamSettings
from roost.gateway.upstream.models import (
    LIST_MAX_BYTES,
    merged,
    named_model,
    read_list,
    renamed,
)
from tests.conftest import Eventually, until
from tests.gateway.upstream.conftest import (
    BODY,
    PROBE_S,
    FakeServer,
    chat,
    fleet,
    get,
    hang,
    listing,
    whole,
)

ONE = PoolSettings(max_in_flight=1, probe_s=PROBE_S)
MANY = PoolSettings(max_in_flight=100, probe_s=PROBE_S)


def asking(model: str) -> bytes:
    """Build a request for a model."""
    return chat(msgspec.json.encode({"messages": [{"model": "not this"}], "model": model}))


@pytest.mark.parametrize(
    ("body", "model"),
    [
        (b'{"messages":[{"model":"inner"}],"model":"m"}', "m"),
        (b'{"model":"\\u00e4/b:c"}', "\u00e4/b:c"),
        (b"{}", None),
        (b'{"model":null}', None),
        (b'{"model":7}', None),
        (b'{"model":"m"', None),
        (b"[]", None),
        (b"", None),
        (b"\xff\xfe", None),
        (b'{"model":"\xff"}', None),
        (b"[" * 100_000, None),
        (b'{"x":' * 100_000, None),
    ],
)
def test_the_model_is_read_or_it_is_not(body: bytes, model: str | None) -> None:
    """Only the outermost name counts; what cannot be read names nothing and raises nothing."""
    assert named_model(body) == model


@pytest.mark.parametrize(
    "body", [b"", b"{}", b"[]", b'{"data":{}}', b'{"data":[{"id":7}]}', b'{"data":["m"]}', b"\xff"]
)
def test_a_list_of_another_shape_is_no_list(body: bytes) -> None:
    """Nothing is guessed from it."""
    assert read_list(body) is None


def test_lists_are_merged_by_id() -> None:
    """Each id once, in order, with the first server's own words about it."""
    first = read_list(listing("a", "b"))
    second = read_list(b'{"data":[{"id":"b","who":"second"},{"id":"c","x":[1]}],"more":1}')
    assert first is not None
    assert second is not None
    both = msgspec.json.decode(merged([first, second]))
    assert both["object"] == "list"
    assert [entry["id"] for entry in both["data"]] == ["a", "b", "c"]
    assert both["data"][1] == {"id": "b", "object": "model", "meta": {"n_ctx": 8}}
    assert both["data"][2] == {"id": "c", "x": [1]}
    assert read_list(b'{"data":[]}') == ()


async def test_a_model_goes_to_servers_that_list_it() -> None:
    """The list decides; the body arrives as it was sent."""
    servers = FakeServer(models=("m",)), FakeServer(models=("n",)), FakeServer(models=("m", "n"))
    async with fleet(*servers, pool=MANY) as world:
        for model, allowed in (("m", {"s0", "s2"}), ("n", {"s1", "s2"})):
            request = asking(model)
            replies = [await world.ask(request) for _ in range(8)]
            assert {reply.headers["x-roost-node"] for reply in replies} <= allowed
        assert all(b'"m"' in asked.body for asked in servers[0].asked)
        bodies = {asked.body for server in servers[1:] for asked in server.asked}
        assert asking("n").partition(b"\r\n\r\n")[2] in bodies


async def test_unknown_lists_and_unlisted_models_go_anywhere() -> None:
    """A server without a readable list may serve anything, and nobody's model is passed on."""
    async with fleet(FakeServer(models=("m",)), FakeServer(), pool=MANY) as world:
        nodes = Counter[str]()
        for _ in range(20):
            nodes[(await world.ask(asking("n"))).headers["x-roost-node"]] += 1
        assert set(nodes) == {"s0", "s1"}
    async with fleet(FakeServer(models=("m",)), FakeServer(models=("n",)), pool=MANY) as world:
        assert (await world.ask(asking("nobody's"))).status == 200
        assert (await world.ask(chat(b"no json"))).body == BODY


async def test_full_is_429_and_gone_is_503(eventually: Eventually) -> None:
    """Room on servers of another model is no room, and their health is no help."""
    one, other = FakeServer(hang, models=("m",)), FakeServer(models=("n",))
    async with fleet(one, other, pool=ONE) as world:
        busy = await world.client()
        await busy.send(asking("m"))
        await eventually(lambda: len(one.asked) == 1)
        full = await world.ask(asking("m"))
        assert (full.status, msgspec.json.decode(full.body)["error"]["code"]) == (429, "queue_full")
        assert (await world.ask(asking("n"))).status == 200
        busy.close()
        one.healthy = False
        await eventually(lambda: world.view.servers[0].health == "unhealthy")
        gone = await world.ask(asking("m"))
        assert (gone.status, msgspec.json.decode(gone.body)["error"]["code"]) == (503, "no_nodes")
        assert "retry-after" in gone.headers
        assert (await world.ask(get("/v1/models/m"))).status == 503


async def test_lists_are_read_again(eventually: Eventually) -> None:
    """Every `models_s`, and whenever a server returns, before it gets a request."""
    one, other = FakeServer(models=("m",)), FakeServer(models=("n",))
    async with fleet(one, other, pool=MANY) as world:
        one.models = ("x",)
        await eventually(lambda: world.view.servers[0].models == ("x",))
        one.models = None
        await eventually(lambda: world.view.servers[0].models is None)
    one, other = FakeServer(models=("m",)), FakeServer(models=("n",))
    async with fleet(one, other, pool=MANY, models_s=600) as world:
        one.healthy = False
        await eventually(lambda: world.view.servers[0].health == "unhealthy")
        one.models, one.healthy = ("x",), True
        await eventually(lambda: world.view.servers[0].health == "healthy")
        assert world.view.servers[0].models == ("x",)
        assert (await world.ask(asking("x"))).headers["x-roost-node"] == "s0"


async def test_a_list_that_did_not_come_in_time_is_asked_for_again(eventually: Eventually) -> None:
    """With the next probe, and not only when lists are read again anyway."""
    one = FakeServer(models=("m",), silent_lists=2)
    async with fleet(one, models_s=600) as world:
        await eventually(lambda: world.view.servers[0].models == ("m",))
    assert one.silent_lists == 0


async def test_a_server_that_serves_nothing_yet_is_asked_again(eventually: Eventually) -> None:
    """It listens before it has its models: that it has none is no news for long."""
    one = FakeServer(models=())
    async with fleet(one, models_s=600) as world:
        await eventually(lambda: world.view.servers[0].models == ())
        one.models = ("m",)
        await eventually(lambda: world.view.servers[0].models == ("m",))


async def test_the_models_of_all_are_one_list(eventually: Eventually) -> None:
    """Healthy servers' lists are merged; a single server's reply passes unchanged."""
    one, other, silent = FakeServer(models=("a", "b")), FakeServer(models=("b", "c")), FakeServer()
    async with fleet(one, other, silent) as world:
        reply = await world.ask(get("/v1/models"))
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
        assert [m["id"] for m in msgspec.json.decode(reply.body)["data"]] == ["a", "b", "c"]
        client = await world.client()
        await client.send(get("/v1/models").replace(b"GET", b"HEAD"))
        head = await client.reply(to_head=True)
        assert head.headers["content-length"] == str(len(reply.body))
        for model, server in (("a", one), ("c", other)):
            for _ in range(6):
                server.asked.clear()
                assert (await world.ask(get(f"/v1/models/{model}"))).status == 200
                assert server.asked or silent.asked
        one.healthy = silent.healthy = False
        await eventually(lambda: sum(s.health == "healthy" for s in world.view.servers) == 1)
        reply = await world.ask(get("/v1/models"))
        assert (reply.body, reply.headers["x-roost-node"]) == (BODY, "s1")


async def test_lists_that_nobody_gives_are_asked_for() -> None:
    """Where no list is known, any server answers for itself."""
    async with fleet(FakeServer(), FakeServer()) as world:
        assert (await world.ask(get("/v1/models"))).body == BODY


async def test_a_list_without_end_is_not_kept(eventually: Eventually) -> None:
    """A list over the limit counts as none, and the server is in the pool."""
    name = "x" * LIST_MAX_BYTES
    async with fleet(FakeServer(models=(name,)), FakeServer(models=("n",))) as world:
        assert [s.models for s in world.view.servers] == [None, ("n",)]
        assert (await world.ask(asking("m"))).status == 200


async def test_the_fleet_shows_models() -> None:
    """Each server with what it lists."""
    async with fleet(FakeServer(models=("m", "n")), FakeServer()) as world:
        nodes = msgspec.json.decode((await world.ask(get("/roost/v1/fleet"))).body)["nodes"]
        assert [[m["model"] for m in node["models"]] for node in nodes] == [["m", "n"], []]


async def test_a_server_that_hangs_on_its_list_joins_all_the_same() -> None:
    """The list is waited for no longer than a probe; then it is unknown."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")[0]
        if b"/v1/models" not in line:
            writer.write(whole())
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    server = FakeServer()
    async with fleet(server, pool=PoolSettings(probe_s=PROBE_S)) as world:
        target = world.gateway._proxy.servers.current[0].target  # noqa: SLF001
        port = listener.sockets[0].getsockname()[1]
        moved = msgspec.structs.replace(target, port=port)
        world.gateway.use([moved])
        await until(lambda: world.view.servers[0].health == "healthy")
        assert world.view.servers[0].models is None
    listener.close()


@given(
    st.dictionaries(st.text(max_size=5), st.integers() | st.text() | st.none(), max_size=4),
    st.text(min_size=1),
)
def test_a_name_is_exchanged_and_nothing_else(fields: dict[str, object], model: str) -> None:
    """Whatever else is in the request is as it was written, numbers of any length too."""
    body = msgspec.json.encode({**fields, "model": "other", "seed": 1})
    body = body.replace(b'"seed":1', b'"seed":1.0000000000000000000001')
    changed = renamed(body, model)
    assert named_model(changed) == model
    assert b"1.0000000000000000000001" in changed
    before, after = msgspec.json.decode(body), msgspec.json.decode(changed)
    assert {**before, "model": model} == after


async def test_models_are_asked_for_by_other_names() -> None:
    """The server hears its own name for it; the list has both; names change while it runs."""
    one, two = FakeServer(models=("real",)), FakeServer(models=("b",))
    async with fleet(one, two, pool=MANY) as world:
        world.gateway.follow(UpstreamSettings((), aliases={"gpt-4o": "real", "x": "gone"}))
        await until(lambda: world.gateway.pool.picky, what="the lists are known")
        reply = await world.ask(asking("gpt-4o"))
        assert (reply.status, reply.headers["x-roost-node"]) == (200, "s0")
        assert msgspec.json.decode(one.asked[0].body)["model"] == "real"
        listed = msgspec.json.decode((await world.ask(get("/v1/models"))).body)["data"]
        assert {entry["id"] for entry in listed} == {"real", "b", "gpt-4o"}
        await world.ask(get("/v1/models/gpt-4o"))
        assert "/v1/models/real " in one.asked[-1].line
        world.gateway.follow(UpstreamSettings(()))
        assert (await world.ask(asking("gpt-4o"))).status == 200
        heard = [named_model(asked.body) for server in (one, two) for asked in server.asked]
        assert "gpt-4o" in heard
