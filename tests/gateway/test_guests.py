"""Workers of system 1 at the gateway: who may join, what is refused, how they are shown."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import msgspec
import pytest

from roost.core.ids import NodeId
from roost.errors import Failure
from roost.fleet.nodes.workers import WorkerSettings
from roost.gateway.assemble import open_gateway
from roost.gateway.foreign.address import read_nets
from roost.gateway.foreign.guests import GuestSettings
from roost.gateway.front.access import ANYONE, Fields, Principal
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Reply, Stage, ask, staged
from tests.gateway.fake_worker import working

PATH = "/coordinator/health/heartbeat"
OPEN = msgspec.structs.replace(
    SETTINGS, guests=GuestSettings(nets=read_nets(["127.0.0.0/8"]), stats_s=5.0)
)
Fact = dict[str, object]


def beat(port: int = 9, worker: str = "w-a", **changes: object) -> Fact:
    """A heartbeat of a worker on this machine, with some fields changed."""
    fields: Fact = {
        "worker_id": worker,
        "worker_url": f"http://127.0.0.1:{port}",
        "timestamp": time.time() * 1000,
        "health": {"alive": True, "active_sessions": 2, "kv_cache_bytes": 90112},
    }
    return fields | changes


async def send(stage: Stage, body: Fact, **headers: str) -> Reply:
    """Send a heartbeat."""
    return await ask(stage.port, "POST", PATH, body, **headers)


async def listed(stage: Stage, path: str = "/coordinator/health/workers") -> list[Fact]:
    """What a list of workers says."""
    told = (await ask(stage.port, "GET", path)).json()
    return cast("list[Fact]", told["workers"])


@asynccontextmanager
async def telling(answer: bytes, *, hangs: bool = False) -> AsyncIterator[int]:
    """A server on this machine that answers everything with these bytes, or with nothing."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        if hangs:
            await reader.read()
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


def whole(body: bytes) -> bytes:
    """A 200 with this body."""
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


async def test_heartbeats_are_off_until_somebody_says_where_workers_are(stage: Stage) -> None:
    """Nobody joins a gateway whose operator has not asked for that."""
    refused = await send(stage, beat())
    assert refused.status == 403
    assert "takes no workers" in str(refused.json()["error"])
    assert await listed(stage) == []


async def test_a_worker_is_known_by_its_heartbeat() -> None:
    """It is listed with its address, its health and when it was heard; its words come later."""
    async with staged(OPEN) as stage:
        told = await send(stage, beat(health={"alive": True, "active_sessions": 3}))
        assert (told.status, told.json()) == (200, {"ack": True})
        (worker,) = await listed(stage)
        assert (worker["id"], worker["url"]) == ("w-a", "http://127.0.0.1:9")
        assert cast("Fact", worker["health"])["active_sessions"] == 3
        assert abs(cast("int", worker["lastHeartbeat"]) - time.time() * 1000) < 60_000


@pytest.mark.parametrize(
    ("changes", "status", "error"),
    [
        ({"timestamp": 1}, 400, "Stale or invalid timestamp"),
        ({"timestamp": "now", "worker_id": ""}, 400, "Stale or invalid timestamp"),
        ({"worker_id": ""}, 400, "Missing required fields"),
        ({"health": None}, 400, "Missing required fields"),
        ({"worker_url": "http://10.0.0.1:3001"}, 403, "worker_nets"),
        ({"worker_url": "http://user@127.0.0.1:3001"}, 400, "worker_url"),
        ({"worker_url": "file:///etc/passwd"}, 400, "worker_url"),
        ({"worker_url": "http://a..b:3001"}, 400, "worker_url"),
        ({"worker_url": f"http://{'x' * 70}.b"}, 400, "worker_url"),
        ({"worker_url": "http://no-such-name.invalid:1"}, 403, "worker_nets"),
        ({"models": ["m"] * 5000}, 400, "models"),
        ({"key": "k" * 70_000}, 413, "heartbeat"),
    ],
)
async def test_what_is_refused_is_told_and_changes_nothing(
    changes: Fact, status: int, error: str
) -> None:
    """In the words of system 1 where it had words."""
    async with staged(OPEN) as stage:
        refused = await send(stage, beat() | changes)
        assert refused.status == status
        assert error in str(refused.json()["error"])
        assert await listed(stage) == []


async def test_a_second_worker_of_the_same_name_is_refused_and_told() -> None:
    """The first one stays where it is; so does a node of ours that has the name."""
    async with staged(OPEN) as stage, working("w-a") as worker:
        await send(stage, worker.beat())
        links = stage.gateway.mind.links
        await until(lambda: "w-a" in links, what="it is a node")
        refused = await send(stage, beat(10))
        assert (refused.status, refused.json()["reason"]) == (409, "worker_id_taken")
        assert [one["url"] for one in await listed(stage)] == [f"http://127.0.0.1:{worker.port}"]
        stage.add_node("w-b")
        await stage.ready()
        refused = await send(stage, beat(10, "w-b"))
        assert (refused.status, refused.json()["reason"]) == (409, "worker_id_taken")


async def test_a_node_that_takes_the_name_of_a_worker_keeps_it() -> None:
    """They would take it from each other for ever: the worker is told to choose another one."""
    async with staged(OPEN) as stage, working("w-a") as worker:
        await send(stage, worker.beat())
        links = stage.gateway.mind.links
        await until(lambda: "w-a" in links, what="it is a node")
        theirs = links[NodeId("w-a")]
        stage.add_node("w-a")
        await until(lambda: links.get(NodeId("w-a")) not in (theirs, None), what="a node joined")

        async def refused() -> bool:
            return (await send(stage, worker.beat())).status == 409

        while not await refused():
            pass
        assert links[NodeId("w-a")] is not theirs


def needs_key(fields: Fields) -> Principal | Failure:
    """Let nobody in without the key."""
    right = fields.get(b"authorization") == b"Bearer the-key"
    return ANYONE if right else Failure("unauthorized", "A key is needed.")


def needs_token(fields: Fields) -> Principal | Failure:
    """Let nobody in without the join token."""
    right = fields.get(b"authorization") == b"Bearer the-token"
    return ANYONE if right else Failure("unauthorized", "A join token is needed.")


async def test_a_heartbeat_needs_a_join_token_and_no_key_replaces_it() -> None:
    """Keys are for clients, tokens for nodes; however the address is written, the same counts."""
    gateway = await open_gateway(OPEN, needs_key, needs_token)
    try:
        assert gateway.front is not None
        port = gateway.front.port
        for path in (PATH, "/coordinator//health/heartbeat/", "/coordinator/health/%68eartbeat"):
            assert (await ask(port, "POST", path, beat())).status == 401
            key = await ask(port, "POST", path, beat(), authorization="Bearer the-key")
            assert key.status == 401
            token = await ask(port, "POST", path, beat(), authorization="Bearer the-token")
            assert token.status == 200
        listing = "/coordinator/health/workers"
        token = await ask(port, "GET", listing, authorization="Bearer the-token")
        assert token.status == 401
        foreign = await ask(
            port, "POST", PATH, beat(), authorization="Bearer the-token", origin="http://evil.com"
        )
        assert foreign.status == 403
    finally:
        await gateway.close(0.0)


async def test_who_is_silent_is_forgotten_in_the_end() -> None:
    """The clock runs without heartbeats too."""
    quick = WorkerSettings(stale_s=0.05, dead_s=0.1, cleanup_s=0.1)
    guests = GuestSettings(nets=read_nets(["127.0.0.0/8"]), workers=quick)
    async with staged(msgspec.structs.replace(SETTINGS, guests=guests)) as stage:
        assert (await send(stage, beat())).status == 200
        while await listed(stage):
            pass


async def test_stats_do_not_wait_for_a_worker_that_hangs() -> None:
    """Its line has an error in the place of its sessions."""
    guests = GuestSettings(nets=read_nets(["127.0.0.0/8"]), stats_s=0.05)
    settings = msgspec.structs.replace(SETTINGS, guests=guests)
    async with staged(settings) as stage, telling(b"", hangs=True) as port:
        await send(stage, beat(port))
        (told,) = await listed(stage, "/coordinator/stats")
        assert (told["id"], "sessions_error" in told) == ("w-a", True)


async def test_stats_ask_every_worker() -> None:
    """One tells, one talks nonsense, one is not there: three lines, two errors."""
    sessions = {
        "sessions": [
            {
                "session_id": "s-1",
                "model": "m",
                "max_tokens": 50,
                "kv_cache_bytes": 9,
                "idle_ms": 7,
                "prompt": "canary",
            }
        ],
        "active_sessions": 1,
        "total_kv_cache_bytes": 9,
        "max_sessions": 100,
        "max_kv_cache_bytes": 90,
    }
    good = whole(json.dumps(sessions).encode())
    async with (
        staged(OPEN) as stage,
        telling(good) as port,
        telling(whole(b"<html>")) as other,
    ):
        for name, at in (("a", port), ("b", other), ("c", 9)):
            await send(stage, beat(at, name))
        reply = await ask(stage.port, "GET", "/coordinator/stats")
        told = cast("list[Fact]", reply.json()["workers"])
        assert b"canary" not in reply.body
        assert [one["id"] for one in told] == ["a", "b", "c"]
        assert told[0]["sessions"] == [
            {
                "session_id": "s-1",
                "model": "m",
                "max_tokens": 50,
                "kv_cache_bytes": 9,
                "idle_ms": 7,
                "worker_id": "a",
            }
        ]
        assert ["sessions_error" in one for one in told] == [False, True, True]
        cluster = cast("Fact", reply.json()["cluster"])
        assert cluster["max_total_sessions"] == 100
