"""SHELL: workers of system 1 in this gateway's fleet: heartbeats in, links out, and what they hold.

A heartbeat needs a node's join token and an address inside of `coordinator.worker_nets`; only that
address is ever dialled, and what it answers moves nobody anywhere else.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import msgspec

from roost.core.ids import NodeId
from roost.dialects.system1.heartbeat import ACK, Skew, read_heartbeat
from roost.dialects.system1.infer_views import NO_ANSWER, Held, Worker, read_held, system_1_worker
from roost.errors import Failure, RoostError, fail
from roost.fleet.nodes.workers import (
    Join,
    Leave,
    Refresh,
    Rest,
    WorkerEffect,
    Workers,
    WorkerSettings,
)
from roost.gateway.alarm import Alarm
from roost.gateway.foreign.address import OFF, Net, admitted, literal, read_url
from roost.gateway.foreign.calls import WorkerCalls
from roost.gateway.foreign.guest import Guest
from roost.gateway.foreign.translator import ForeignSettings
from roost.gateway.front.rendering import JSON_BODY
from roost.gateway.tasks import Tasks
from roost.gateway.upstream.client import ClientLimits
from roost.wire.memory import memory_pair

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.core.worker import WorkerBeat
    from roost.fleet.nodes.workers import WorkerLine
    from roost.gateway.front.access import Authorise
    from roost.gateway.mind import Mind
    from roost.gateway.routes import Call, Routes
    from roost.gateway.upstream.targets import Target
    from roost.wire.memory import GatewayConnection

HEARTBEAT = "/coordinator/health/heartbeat"
BEAT_MAX_BYTES = 64 * 1024
TAKEN = Failure(
    "worker_id_taken", "A node of this gateway has this name. Give the worker one of its own."
)


class GuestSettings(msgspec.Struct, frozen=True):
    """What is particular to workers of system 1; without `nets` none is taken.

    A name is to be resolved within `resolve_s`, sessions are to be told within `stats_s`.
    """

    nets: tuple[Net, ...] = ()
    skew: Skew = Skew()
    workers: WorkerSettings = WorkerSettings()
    client: ClientLimits = ClientLimits()
    foreign: ForeignSettings = ForeignSettings()
    resolve_s: float = 2.0
    stats_s: float = 0.5


class Guests:
    """Everything of system 1's workers; `join` takes a node's link, and `close` ends it all."""

    def __init__(
        self, settings: GuestSettings, mind: Mind, join: Callable[[GatewayConnection], None]
    ) -> None:
        self._settings = settings
        self._mind = mind
        self._join = join
        self._loop = asyncio.get_running_loop()
        self._workers = Workers(settings.workers, self._loop.time())
        self._guests: dict[str, Guest] = {}
        self._tasks = Tasks()
        self._alarm = Alarm(self._loop, self._tick)

    def add_to(self, routes: Routes, admit: Authorise) -> None:
        """Put the endpoint into the table; `admit` checks join tokens, and no key opens it."""
        routes.add("POST", HEARTBEAT, self.heartbeat, admit)

    async def close(self) -> None:
        """Stop the clock, and end every call."""
        self._alarm.end()
        await self._tasks.close()

    # Heartbeats.

    def heartbeat(self, call: Call) -> None:
        """POST /coordinator/health/heartbeat."""
        try:
            if not self._settings.nets:
                raise RoostError(OFF)
            body = call.exchange.take_body()
            if len(body) > BEAT_MAX_BYTES:
                raise fail("body_too_large", f"A heartbeat has at most {BEAT_MAX_BYTES} bytes.")
            beat = read_heartbeat(body, time.time(), self._settings.skew)
            target = read_url(beat.url)
        except RoostError as error:
            self._refuse(call, error.failure)
            return
        self._tasks.start(self._take(call, beat, target), "heartbeat")

    async def _take(self, call: Call, beat: WorkerBeat, target: Target) -> None:
        addresses = await self._resolve(target)
        call.exchange.answer(lambda _: self._taken(call, beat, target, addresses))

    async def _resolve(self, target: Target) -> list[str]:
        if literal(target.host):
            return [target.host]
        try:
            async with asyncio.timeout(self._settings.resolve_s):
                found = await self._loop.getaddrinfo(target.host, target.port)
        except OSError:
            return []
        return [str(info[4][0]) for info in found]

    def _taken(self, call: Call, beat: WorkerBeat, target: Target, addresses: list[str]) -> None:
        pinned = admitted(target, addresses, self._settings.nets)
        if isinstance(pinned, Failure):
            self._refuse(call, pinned, beat)
            return
        if beat.worker not in self._guests and self._is_node(beat.worker):
            self._refuse(call, TAKEN, beat)
            return
        effects = self._workers.on_heartbeat(beat, self._loop.time())
        if isinstance(effects, Failure):
            self._refuse(call, effects, beat)
            return
        self._perform(effects, pinned)
        call.exchange.reply(200, JSON_BODY, ACK)

    def _refuse(self, call: Call, failure: Failure, beat: WorkerBeat | None = None) -> None:
        worker = "" if beat is None else beat.worker
        self._mind.log.warning("heartbeat_refused", worker=worker, reason=failure.message)
        call.exchange.fail(failure)

    def _is_node(self, worker: str) -> bool:
        return NodeId(worker) in self._mind.links

    # What follows from them.

    def _perform(self, effects: list[WorkerEffect], pinned: Target | None = None) -> None:
        for effect in effects:
            match effect:
                case Join(beat):
                    assert pinned is not None, "only a heartbeat makes a link"
                    calls = WorkerCalls(pinned, beat.key, self._settings.client)
                    guest = Guest(beat, calls, self._settings.foreign, self._mind.log)
                    self._guests[beat.worker] = guest
                    self._tasks.start(self._live(guest, beat), "worker")
                case Refresh(beat):
                    self._guests[beat.worker].on_beat(beat)
                case Rest(worker):
                    self._guests[worker].rest()
                case Leave(worker):
                    self._guests.pop(worker).leave()
        self._alarm.set(self._workers.next_tick())

    async def _live(self, guest: Guest, beat: WorkerBeat) -> None:
        """Have a worker in the fleet until it is gone; its next heartbeat brings it back."""
        log, worker = self._mind.log, beat.worker
        reachable = await guest.reachable()
        if not reachable:
            log.warning("worker_unreachable", worker=worker, url=beat.url)
        elif self._guests.get(worker) is guest:
            log.info("worker_joined", worker=worker, url=beat.url)
            near, far = memory_pair()
            self._join(far)
            ended = await guest.run(near)
            log.warning("worker_left", worker=worker, reason=ended.message)
        guest.close()
        if self._guests.get(worker) is guest:
            del self._guests[worker]
            self._workers.on_unlinked(worker, self._loop.time())
            self._alarm.set(self._workers.next_tick())

    def _tick(self) -> None:
        self._perform(self._workers.on_tick(self._loop.time()))

    # Views.

    def lines(self) -> list[Worker]:
        """Every worker by its last heartbeat."""
        coordinator = self._mind.coordinator
        in_flight = coordinator.statistics().in_flight
        now_s, lines = time.time(), self._workers.lines(self._loop.time())
        return [_told(line, now_s, in_flight.get(NodeId(line.beat.worker), 0)) for line in lines]

    async def held(self) -> dict[str, Held]:
        """What each worker that is alive holds, as it tells; whoever does not has an error."""
        alive = [one.id for one in self.lines() if one.status == "alive"]
        told = await asyncio.gather(*(self._held(worker) for worker in alive))
        return dict(zip(alive, told, strict=True))

    async def _held(self, worker: str) -> Held:
        guest = self._guests.get(worker)
        reply = None if guest is None else await guest.held(self._settings.stats_s)
        if reply is None or reply.status != 200:
            return Held(error=NO_ANSWER)
        return read_held(worker, reply.body)


def _told(line: WorkerLine, now_s: float, in_flight: int) -> Worker:
    heard_ms = int((now_s - line.age_s) * 1000)
    return system_1_worker(line.beat, line.status, heard_ms, in_flight=in_flight)
