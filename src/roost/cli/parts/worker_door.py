"""WIRING: a node's worker API under the front that gateways have: same limits, same checks."""

from __future__ import annotations

import asyncio
import secrets
from typing import TYPE_CHECKING, NamedTuple

from roost.cli.parts.worker_beats import Worker, check_beats, open_beats
from roost.cli.parts.worker_where import FLAG, read_where
from roost.dialects.system1.worker import failure_body
from roost.node.worker.desk import DeskSettings, WorkerDesk
from roost.node.worker.http import WorkerRoutes, WorkerRoutesSettings
from roost.node.worker.link import WorkerLink
from roost.node.worker.table import WorkerLimits, WorkerTable
from roost.observe import logs
from roost.wire.memory import memory_pair

if TYPE_CHECKING:
    from roost.cli.parts.stores import Stores
    from roost.cli.reloading import Reloads
    from roost.config import Settings
    from roost.core.ids import NodeId
    from roost.gateway.front.asgi import Receive, Scope, Send
    from roost.gateway.front.server import Front
    from roost.node.loop import NodeLoop
    from roost.node.worker.beat import Beats
    from roost.wire.memory import MemoryConnection
    from roost.wire.messages import FromGateway, FromNode

WORKER_SETTINGS = ("worker_api", "worker.")


class Door(NamedTuple):
    """A worker API: its listener, and what it does on the node; `run` is its life."""

    front: Front
    desk: WorkerDesk
    node: NodeLoop
    link: MemoryConnection[FromNode, FromGateway]
    beats: Beats | None

    async def run(self) -> None:
        """Be to the node what a gateway is, until it says goodbye."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.node.serve_link(self.link))
            beating = None if self.beats is None else group.create_task(self._beat(self.beats))
            await self.desk.run()
            if beating is not None:
                beating.cancel()

    async def _beat(self, beats: Beats) -> None:
        """Tell of this worker as soon as it is known what it has."""
        await self.desk.ready()
        await beats.run()

    def turn_away(self) -> None:
        """Begin nothing new for its clients."""
        self.desk.drain()

    async def close(self) -> None:
        """End what is left of its clients."""
        await self.front.close(0.0)


def follow(door: Door, settings: Settings, stores: Stores, reloads: Reloads) -> None:
    """Have the listener follow its settings on HUP, but for the keys: their stores are not its."""
    from roost.cli.parts.takers import of_certificate, of_front

    reloads.add(of_front(door.front))
    reloads.add(of_certificate(door.front, settings, stores))


def at_door(settings: Settings, stores: Stores) -> Settings:
    """Say with which certificate, if any, a worker API listens that has this address.

    The home's own is there for the address of a gateway beside it; this one is judged by itself, as
    it is by who asks it.
    """
    from roost.cli.parts.loopback import in_the_clear
    from roost.cli.parts.own_tls import secured

    without = settings._replace(tls_cert="", tls_key="")
    if stores.fingerprint and in_the_clear(without):
        return without
    return secured(settings, stores.home, stores.tokens).settings


async def open_door(
    settings: Settings, stores: Stores, node: NodeLoop, identity: NodeId
) -> Door | None:
    """Listen for system 1's coordinators, where the settings ask for that, and say where."""
    check_beats(settings)
    if not settings.worker_api:
        return None
    from roost.cli.parts.gateway import check_exposure, said_where

    where = read_where(settings.worker_api)
    flag = f"{FLAG} {settings.worker_api}"
    # The rules of any listener of ours, for this address.
    told = settings._replace(host=where.host, port=where.port)
    check_exposure(told, keys_exist=stores.keys.any_keys(), flag=flag)
    told = at_door(told, stores)
    near, far = memory_pair()
    table, link = WorkerTable(_limits(settings)), WorkerLink(far)
    desk = WorkerDesk(table, link, node.forget, _times(settings), logs.get())
    key = secrets.token_hex(32)
    with said_where(told, flag):
        front = await _open_front(told, stores, WorkerRoutes(desk, _routes(settings)), key)
    print(f"the worker API listens on {front.url}", flush=True)
    beats = open_beats(settings, Worker(identity, front.url, key, desk, link))
    return Door(front, desk, node, near, beats)


async def _open_front(settings: Settings, stores: Stores, routes: WorkerRoutes, key: str) -> Front:
    from roost.cli.parts.access import by_keys, or_key
    from roost.cli.parts.gateway import limits, listener
    from roost.gateway.front.access import Gate, allowed
    from roost.gateway.front.guard import guarded
    from roost.gateway.front.plain import PlainExchange
    from roost.gateway.front.server import open_front

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        owner = scope["principal"].tenant
        assert owner is not None, "the guard names everybody"
        await routes.serve(scope["method"], scope["path"], owner, PlainExchange(receive, send))

    authorise = or_key(key, by_keys(stores.keys, settings.host))
    gate = Gate(allowed(settings.host, settings.allowed_hosts), authorise)
    return await open_front(
        guarded(app, gate, error_body=failure_body),
        listener(settings),
        limits(settings),
        errors=lambda failure, _path, _request_id: failure_body(failure),
    )


async def let_end(node: NodeLoop, door: Door | None, grace_s: float) -> bool:
    """Let what runs on a node end and be read; False if `grace_s` was not enough.

    A coordinator may have yet to read what its stream had said when the node was through with it.
    """
    clock = asyncio.get_running_loop().time
    until_s = clock() + grace_s
    ended = await node.stop(grace_s)
    if door is None:
        return ended
    return await door.front.drain(max(0.0, until_s - clock())) and ended


def _limits(settings: Settings) -> WorkerLimits:
    return WorkerLimits(
        sessions_max=settings.worker_sessions_max,
        session_kv_bytes=settings.worker_session_kv_bytes,
        kv_bytes=settings.worker_kv_bytes,
        context_tokens=settings.worker_context_tokens,
        idle_s=settings.worker_idle_s,
        lifetime_s=settings.worker_lifetime_s,
        young_s=settings.worker_young_s,
    )


def _times(settings: Settings) -> DeskSettings:
    return DeskSettings(settings.worker_busy_wait_s, settings.worker_sweep_s)


def _routes(settings: Settings) -> WorkerRoutesSettings:
    return WorkerRoutesSettings(settings.worker_body_max_bytes, settings.stream_keepalive_s)
