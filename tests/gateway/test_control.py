"""The control plane over real sockets: its envelope, its versions, and who sees what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from typing import cast

import msgspec
import pytest

from roost import __version__
from roost.core.about import BackendAbout, NodeAbout, RuntimeVitals
from roost.core.events import Delta, PrefillProgress, Started
from roost.core.ids import ModelId
from roost.core.machine import Memory, Processor
from roost.core.snapshots import NodeStatus, RuntimeView
from roost.gateway.control_words import VERBS
from tests.conftest import until
from tests.gateway.conftest import Reply, Stage, ask, staged
from tests.gateway.puppet import MODEL, status
from tests.gateway.test_fleet_gateway import STREAM, idle, opened_count
from tests.gateway.test_operations import HELLO, by_name, call

PUPPET = BackendAbout("puppet", usable=True, claims=("chat", "streaming"))
ABOUT = NodeAbout(Processor("cpu", 2, 2), Memory(1000, 100), backends=(PUPPET,))


@pytest.fixture
async def keyed() -> AsyncIterator[Stage]:
    """A gateway that knows its callers by their keys."""
    async with staged(authorise=by_name) as made:
        yield made


def data(reply: Reply) -> dict[str, object]:
    """Take an answer out of its envelope."""
    assert reply.status == 200
    envelope = msgspec.json.decode(reply.body)
    assert envelope["protocol"] == {"major": 1, "minor": 0}
    assert envelope["request_id"] == reply.headers["x-roost-request-id"]
    return cast("dict[str, object]", envelope["data"])


def full_report() -> NodeStatus:
    """A report with everything a node can say of itself."""
    report = status()
    offers = tuple(msgspec.structs.replace(one, backend="puppet") for one in report.models)
    return msgspec.structs.replace(report, models=offers, about=ABOUT, loads=())


@pytest.mark.parametrize("verb", VERBS)
async def test_every_answer_has_its_envelope(keyed: Stage, verb: str) -> None:
    """Version, id and headers, for the head alone too; an empty fleet is no failure."""
    reply = await call(keyed, "ann", "GET", f"/roost/v1/{verb}")
    assert data(reply)
    assert reply.headers["x-roost-protocol-version"] == "1.0"
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert (await call(keyed, "ann", "HEAD", f"/roost/v1/{verb}")).status == 200


@pytest.mark.parametrize("verb", VERBS)
async def test_what_is_wrong_is_told_in_the_envelope(keyed: Stage, verb: str) -> None:
    """The method, the version, and nothing below it."""
    path = f"/roost/v1/{verb}"
    posted = await call(keyed, "ann", "POST", path, {})
    assert (posted.status, posted.headers["allow"]) == (405, "GET, HEAD")
    error = msgspec.json.decode(posted.body)["error"]
    assert (error["code"], error["retryable"]) == ("invalid_request", False)
    newer = await ask(keyed.port, "GET", path, x_roost_protocol_version="2.0")
    assert newer.status == 406
    assert msgspec.json.decode(newer.body)["error"]["code"] == "incompatible_protocol"
    assert (await ask(keyed.port, "GET", path, x_roost_protocol_version="1.9")).status == 200
    assert (await ask(keyed.port, "GET", path, x_roost_protocol_version="x")).status == 406
    assert (await call(keyed, "ann", "GET", f"{path}/more")).status == 404
    strange = await ask(keyed.port, "GET", path, host="evil.example")
    assert strange.status in {400, 403}


async def test_info_names_the_only_backend(keyed: Stage) -> None:
    """One that all models have is the active one; none, or several, are no single one."""
    empty = data(await call(keyed, "ann", "GET", "/roost/v1/info"))
    assert (empty["active_backend"], empty["backends"]) == (None, [])
    assert (empty["service"], empty["service_version"]) == ("roost", __version__)
    node = keyed.add_node()
    await keyed.ready()
    node.report(full_report())
    await until(partial(_has_about, keyed), what="the node has described itself")
    full = data(await call(keyed, "ann", "GET", "/roost/v1/info"))
    assert (full["active_backend"], full["backends"]) == ("puppet", ["puppet"])


async def test_what_a_node_says_of_itself_is_shown(keyed: Stage) -> None:
    """Promises, memory and runtimes by its report; a node that says nothing promises little."""
    node = keyed.add_node()
    await keyed.ready()
    silent = data(await call(keyed, "ann", "GET", "/roost/v1/memory"))
    (memory,) = cast("list[dict[str, object]]", silent["nodes"])
    assert memory["overall_pressure"] == "unknown"
    assert cast("dict[str, object]", memory["host"])["capacity_bytes"] is None
    node.report(full_report())
    await until(partial(_has_about, keyed), what="the node has described itself")
    told = data(await call(keyed, "ann", "GET", "/roost/v1/memory"))
    (memory,) = cast("list[dict[str, object]]", told["nodes"])
    assert memory["overall_pressure"] == "hard"
    assert isinstance(memory["observed_at_unix_ms"], int)
    shown = data(await call(keyed, "ann", "GET", "/roost/v1/capabilities"))
    (promised,) = cast("list[dict[str, list[dict[str, object]]]]", shown["nodes"])
    (model,) = promised["models"]
    (tried,) = cast("list[dict[str, object]]", shown["conformance"])
    assert (tried["backend"], tried["date"]) == ("puppet", "")
    assert set(cast("dict[str, str]", tried["promises"]).values()) == {"not run here"}
    statuses = {one["id"]: one["status"] for one in cast("list[dict[str, str]]", model["promises"])}
    assert statuses["generation.chat"] == "supported"
    assert statuses["generation.tools"] == "supported"
    assert statuses["generation.logprobs"] == "unsupported"
    assert statuses["runtime.state.restore"] == "unsupported"
    listed = data(await call(keyed, "ann", "GET", "/roost/v1/runtimes"))
    (runtime,) = cast("list[dict[str, object]]", listed["runtimes"])
    assert (runtime["model"], runtime["state"], runtime["kv_tokens"]) == (MODEL, "ready", None)


async def test_a_node_that_is_gone_promises_nothing(keyed: Stage) -> None:
    """What it had is not repeated."""
    node = keyed.add_node()
    await keyed.ready()
    node.leave()
    await until(lambda: not keyed.gateway.mind.links, what="the node has left")
    for verb in ("capabilities", "memory"):
        shown = data(await call(keyed, "ann", "GET", f"/roost/v1/{verb}"))
        assert {name: part for name, part in shown.items() if part} == {}


async def test_requests_are_rows_for_their_tenant_and_counts_for_all(keyed: Stage) -> None:
    """Tokens are the node's own, all of a prompt with the first; who leaves is cancelled."""
    node = keyed.add_node(slots=4)
    node.on_open = lambda opened: node.answer(opened, "yes", cached=4)
    await keyed.ready()
    assert (await call(keyed, "ann", "POST", "/v1/chat/completions", HELLO)).status == 200
    assert (await call(keyed, "bob", "POST", "/v1/chat/completions", HELLO)).status == 200
    node.on_open = None
    client = await keyed.client()
    client.send("POST", "/v1/chat/completions", STREAM, authorization="Bearer ann")
    await until(partial(opened_count, node, 3), what="it runs")
    node.say(node.opened[-1].stream, Started(5, 0, 0), PrefillProgress(3, 5), Delta("so far", 2))
    await client.head()
    live = data(await call(keyed, "ann", "GET", "/roost/v1/observability"))
    rows = cast("list[dict[str, object]]", live["requests"])
    assert [(row["state"], row["output_tokens"]) for row in rows] == [("streaming", 2), ("done", 1)]
    client.close()
    await until(lambda: not keyed.gateway.mind.turns, what="it has ended")
    node.release(node.opened[-1].stream)
    await until(partial(idle, keyed), what="everything is free")
    seen = data(await call(keyed, "root", "GET", "/roost/v1/observability"))
    everybody = cast("list[dict[str, object]]", seen["requests"])
    assert [row["state"] for row in everybody] == ["cancelled", "done", "done"]
    assert (everybody[1]["prompt_tokens"], everybody[1]["cached_tokens"]) == (9, 4)
    totals = cast("dict[str, int]", seen["totals"])
    assert (totals["started"], totals["completed"], totals["cancelled"]) == (3, 2, 1)
    assert (totals["errors"], totals["active"]) == (0, 0)
    assert (totals["prompt_tokens"], totals["output_tokens"]) == (18 + 5, 2 + 2)
    assert b"hello" not in (await call(keyed, "root", "GET", "/roost/v1/observability")).body
    mine = data(await call(keyed, "bob", "GET", "/roost/v1/observability"))
    assert len(cast("list[object]", mine["requests"])) == 1


async def test_the_feed_says_who_waits_what_happens_and_what_is_odd() -> None:
    """For those who look on: by tenant, with an id to stop it by; the private for operators."""
    async with staged(authorise=by_name) as stage:
        node = stage.add_node(slots=1)
        await stage.ready()
        clients = [await stage.client() for _ in range(2)]
        for client, who in zip(clients, ("ann", "bob"), strict=True):
            client.send("POST", "/v1/chat/completions", STREAM, authorization=f"Bearer {who}")
            await until(lambda: bool(node.opened), what="the first one runs")
        waits = stage.gateway.mind.coordinator.statistics
        await until(lambda: waits().waiting == 1, what="the second one waits")
        odd = msgspec.structs.replace(
            status(1).runtimes[0], vitals=RuntimeVitals(anomalies=("slow_decode",))
        )
        loading = RuntimeView(ModelId("other"), "puppet", "loading")
        node.report(msgspec.structs.replace(status(1), runtimes=(odd, loading)))
        await until(lambda: len(stage.gateway.mind.happenings.rows(everything=True)) > 2)
        seen = data(await call(stage, "root", "GET", "/roost/v1/observability"))
        rows = cast("list[dict[str, object]]", seen["requests"])
        assert [(row["tenant"], row["state"]) for row in rows] == [
            ("key:ann", "waiting"),
            ("key:bob", "waiting"),
        ]
        assert rows[1]["doing"] == "queued 1/1"
        queue = cast("dict[str, object]", seen["queue"])
        tenants = cast("list[dict[str, object]]", queue["tenants"])
        assert [(one["tenant"], one["waiting"], one["running"]) for one in tenants] == [
            ("key:bob", 1, 0),
            ("key:ann", 0, 1),
        ]
        assert seen["role"] == "admin"
        (hint,) = cast("list[dict[str, object]]", seen["anomalies"])
        assert (hint["kind"], hint["node"], hint["model"]) == ("slow_decode", "n1", MODEL)
        happened = [one["event"] for one in cast("list[dict[str, object]]", seen["events"])]
        assert happened == ["runtime_loading", "runtime_odd", "node_joined"]
        stopped = await call(stage, "root", "DELETE", f"/roost/v1/requests/{rows[1]['id']}")
        assert stopped.status == 202
        await call(stage, "root", "POST", "/roost/v1/nodes/n1/drain")
        theirs = data(await call(stage, "ann", "GET", "/roost/v1/observability"))
        names = [one["event"] for one in cast("list[dict[str, object]]", theirs["events"])]
        assert "operated" not in names
        assert "runtime_odd" in names
        assert theirs["role"] == "user"
        assert b"key:bob" not in msgspec.json.encode(theirs)


async def test_what_nobody_can_do_is_refused_with_who_can(keyed: Stage) -> None:
    """Before anything waits or loads: 400, the field, and the models that can."""
    node = keyed.add_node()
    await keyed.ready()
    report = full_report()
    able = msgspec.structs.replace(report.models[0], model=ModelId("able"), backend="other")
    other = BackendAbout("other", usable=True, claims=("chat", "logprobs"))
    about = msgspec.structs.replace(ABOUT, backends=(PUPPET, other))
    node.report(msgspec.structs.replace(report, models=(*report.models, able), about=about))
    await until(partial(_has_about, keyed), what="the node has described itself")
    wanted = {**HELLO, "logprobs": True}
    reply = await call(keyed, "ann", "POST", "/v1/chat/completions", wanted)
    error = msgspec.json.decode(reply.body)["error"]
    assert (reply.status, error["code"], error["param"]) == (400, "unsupported", "logprobs")
    assert error["message"].endswith(
        "which does no log probabilities. Models here that can: `able`."
    )
    assert node.opened == []
    streamed = await call(keyed, "ann", "POST", "/v1/chat/completions", {**wanted, "stream": True})
    assert streamed.status == 400
    node.on_open = lambda opened: node.answer(opened, "yes")
    assert (await call(keyed, "ann", "POST", "/v1/chat/completions", HELLO)).status == 200
    wanted["model"] = "able"
    assert (await call(keyed, "ann", "POST", "/v1/chat/completions", wanted)).status == 200


async def test_a_request_goes_to_the_nodes_that_can(keyed: Stage) -> None:
    """Of two with one model, the one whose backend does it."""
    report = full_report()
    other = BackendAbout("other", usable=True, claims=("chat", "logprobs"))
    offers = tuple(msgspec.structs.replace(one, backend="other") for one in report.models)
    about = msgspec.structs.replace(ABOUT, backends=(other,))
    nodes = {name: keyed.add_node(name, slots=8) for name in ("plain", "able")}
    for node in nodes.values():
        node.on_open = partial(node.answer, cached=0)
    fleet = keyed.gateway.mind.coordinator.fleet
    await until(lambda: len(fleet()) == 2 and all(one.reported for one in fleet()), what="both")
    nodes["plain"].report(report)
    nodes["able"].report(msgspec.structs.replace(report, models=offers, about=about))
    await until(lambda: all(one.about is not None for one in fleet()), what="both are described")
    wanted = {**HELLO, "logprobs": True}
    for _ in range(6):
        reply = await call(keyed, "ann", "POST", "/v1/chat/completions", wanted)
        assert (reply.status, reply.headers["x-roost-node"]) == (200, "able")
    assert nodes["plain"].opened == []


def _has_about(stage: Stage) -> bool:
    return any(node.about is not None for node in stage.gateway.mind.coordinator.fleet())
