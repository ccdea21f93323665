"""Receipts, cancelling by id and draining nodes, over real sockets with puppet nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import msgspec
import pytest

from roost.core.events import Delta, Started
from roost.core.ids import TenantId
from roost.core.request import ServiceClass
from roost.errors import Failure
from roost.fleet.settings import FleetSettings
from roost.gateway.front.access import Fields, Principal, presented_key
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Reply, Stage, ask, staged
from tests.gateway.puppet import MODEL, Puppet, status
from tests.gateway.test_fleet_gateway import STREAM, idle, opened_count

HELLO = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}


def by_name(fields: Fields) -> Principal | Failure:
    """Take the key itself for the tenant; `root` is an operator."""
    key = (presented_key(fields) or b"").decode()
    class_: ServiceClass = "bulk" if key == "batch" else "interactive"
    return Principal(TenantId(f"key:{key}"), "admin" if key == "root" else "user", class_=class_)


@pytest.fixture
async def guarded() -> AsyncIterator[Stage]:
    """A gateway that knows its callers by their keys."""
    async with staged(authorise=by_name) as made:
        yield made


async def call(stage: Stage, who: str, method: str, path: str, body: object = None) -> Reply:
    """Ask as somebody."""
    return await ask(stage.port, method, path, body, authorization=f"Bearer {who}")


async def served(stage: Stage, node: Puppet, who: str) -> str:
    """Let a request of somebody be answered, and return its id."""
    node.on_open = lambda opened: node.answer(opened, "yes", cached=4)
    await stage.ready()
    reply = await call(stage, who, "POST", "/v1/chat/completions", HELLO)
    assert reply.status == 200
    return reply.headers["x-roost-request-id"]


async def test_a_receipt_tells_where_a_request_went_and_why(guarded: Stage) -> None:
    """Node, placement, candidates, counts and times of each attempt; no text of anybody."""
    request = await served(guarded, guarded.add_node(), "ann")
    reply = await call(guarded, "ann", "GET", f"/roost/v1/requests/{request}")
    assert reply.status == 200
    receipt = msgspec.json.decode(reply.body)
    assert receipt["outcome"] == "complete"
    assert receipt["completion_tokens"] == 1
    (attempt,) = receipt["attempts"]
    assert (attempt["node"], attempt["placement"]) == ("n1", "cold")
    assert (attempt["prompt_tokens"], attempt["cached_tokens"]) == (9, 4)
    assert attempt["ranking"][0][0] == "n1"
    assert 0 <= attempt["dispatched_s"] <= attempt["first_token_s"] <= receipt["total_s"]
    assert b"hello" not in reply.body
    assert b"yes" not in reply.body


async def test_requests_of_others_do_not_exist(guarded: Stage) -> None:
    """Another tenant learns nothing and stops nothing; an operator sees everything."""
    request = await served(guarded, guarded.add_node(), "ann")
    path = f"/roost/v1/requests/{request}"
    for method in ("GET", "DELETE"):
        assert (await call(guarded, "bob", method, path)).status == 404
    assert (await call(guarded, "root", "GET", path)).status == 200
    assert (await call(guarded, "ann", "GET", "/roost/v1/requests/never")).status == 404


async def test_a_request_is_cancelled_by_its_id(guarded: Stage) -> None:
    """Its client gets an error event, the node is told, and the receipt says how fast it was."""
    node = guarded.add_node()
    await guarded.ready()
    client = await guarded.client()
    client.send("POST", "/v1/chat/completions", STREAM, authorization="Bearer ann")
    await until(partial(opened_count, node, 1), what="it runs")
    stream = node.opened[0].stream
    node.say(stream, Started(5, 0, 0), Delta("so far"))
    status, headers = await client.head()
    path = f"/roost/v1/requests/{headers['x-roost-request-id']}"
    assert status == 200
    reply = await call(guarded, "ann", "DELETE", path)
    assert reply.status == 202
    rest = await client.reader.read(-1)
    assert b'"cancelled"' in rest
    assert b"[DONE]" not in rest
    await until(lambda: stream in node.cancelled, what="the node is told")
    node.release(stream, 0.01)
    await until(partial(idle, guarded), what="everything is free")
    receipt = msgspec.json.decode((await call(guarded, "ann", "GET", path)).body)
    assert receipt["outcome"] == "cancelled"
    assert receipt["stopped"]["free_s"] >= 0


async def test_a_drained_node_gets_nothing_until_it_is_undrained(guarded: Stage) -> None:
    """Only operators may; what runs there finishes."""
    nodes = {name: guarded.add_node(name, slots=8) for name in ("a", "b")}
    for node in nodes.values():
        node.on_open = partial(_answer, node)
    counts = guarded.gateway.mind.coordinator.statistics
    await until(lambda: len(counts().in_flight) == 2, what="both joined")
    assert (await call(guarded, "ann", "POST", "/roost/v1/nodes/a/drain")).status == 403
    assert (await call(guarded, "root", "POST", "/roost/v1/nodes/c/drain")).status == 404
    assert (await call(guarded, "root", "POST", "/roost/v1/nodes/a/stop")).status == 404
    drained = await call(guarded, "root", "POST", "/roost/v1/nodes/a/drain")
    assert msgspec.json.decode(drained.body)["draining"] is True
    for _ in range(8):
        reply = await call(guarded, "ann", "POST", "/v1/completions", {"prompt": "p"})
        assert reply.headers["x-roost-node"] == "b"
    assert (await call(guarded, "root", "POST", "/roost/v1/nodes/a/undrain")).status == 200
    assert (await call(guarded, "root", "POST", "/roost/v1/nodes/b/drain")).status == 200
    reply = await call(guarded, "ann", "POST", "/v1/completions", {"prompt": "p"})
    assert reply.headers["x-roost-node"] == "a"


def _answer(node: Puppet, opened: object) -> None:
    node.answer(node.opened[-1], "ok")


async def test_the_queue_shows_who_waits_and_hides_others(guarded: Stage) -> None:
    """Position, class and estimate; an operator sees everybody, a tenant itself."""
    node = guarded.add_node(slots=1)
    await guarded.ready()
    count = guarded.gateway.mind.coordinator.statistics
    for number, who in enumerate(("ann", "ann", "batch")):
        client = await guarded.client()
        client.send("POST", "/v1/completions", {"prompt": "p"}, authorization=f"Bearer {who}")
        await until(partial(_lined_up, guarded, number), what="in line")
    seen = {}
    for who in ("root", "ann", "bob"):
        reply = await call(guarded, who, "GET", "/roost/v1/queue")
        seen[who] = msgspec.json.decode(reply.body)
    assert {who: body["length"] for who, body in seen.items()} == {"root": 2, "ann": 2, "bob": 2}
    assert [one["class_"] for one in seen["root"]["requests"]] == ["interactive", "bulk"]
    assert [one["position"] for one in seen["root"]["requests"]] == [1, 2]
    assert [one["tenant"] for one in seen["ann"]["requests"]] == ["key:ann"]
    assert seen["bob"]["requests"] == []
    guarded.close()
    await until(lambda: count().waiting == 0, what="they have left")
    node.release(node.opened[0].stream)


def _lined_up(stage: Stage, waiting: int) -> bool:
    counts = stage.gateway.mind.coordinator.statistics()
    return (counts.running, counts.waiting) == (1, waiting)


async def test_placement_shows_where_models_run_and_what_a_load_would_cost(guarded: Stage) -> None:
    """Any caller may see it; figures that nobody knows are null."""
    guarded.add_node()
    await guarded.ready()
    reply = await call(guarded, "ann", "GET", "/roost/v1/placement")
    assert reply.status == 200
    (model,) = msgspec.json.decode(reply.body)["models"]
    (node,) = model.pop("nodes")
    assert model == {
        "model": MODEL,
        "wanted": 0,
        "ready": 1,
        "loading": 0,
        "waiting": 0,
        "queue_s": None,
    }
    assert (node["state"], node["price_s"], node["progress"]) == ("ready", 0.0, None)


async def test_a_model_that_is_kept_is_asked_for_before_any_request() -> None:
    """The wish reaches a node that says it can fulfil it, by the same link as requests."""
    fleet = FleetSettings(replicas=1, keep={MODEL: 1})
    async with staged(msgspec.structs.replace(SETTINGS, fleet=fleet)) as stage:
        node = stage.add_node()
        await stage.ready()
        assert node.wanted == []
        node.report(msgspec.structs.replace(status(), runtimes=(), loads=()))
        await until(lambda: node.wanted == [MODEL], what="the node has been asked")
        body = msgspec.json.decode((await ask(stage.port, "GET", "/roost/v1/placement")).body)
        (model,) = body["models"]
        assert (model["wanted"], model["loading"], model["nodes"][0]["price_s"]) == (1, 1, 5.0)


async def test_the_log_says_what_an_operator_has_done(
    guarded: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """By whom, and on which node; who was refused has done nothing."""
    guarded.add_node("n1")
    await guarded.ready()
    for who in ("ann", "root"):
        for verb in ("drain", "undrain"):
            await call(guarded, who, "POST", f"/roost/v1/nodes/n1/{verb}")
    lines = [msgspec.json.decode(line) for line in capsys.readouterr().err.splitlines()]
    told = [(one["by"], one["what"], one["node"]) for one in lines if one["event"] == "operated"]
    assert told == [("key:root", "drain", "n1"), ("key:root", "undrain", "n1")]
