"""SHELL: the pool's only caller: requests and probes go in, its effects are carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from roost.errors import RoostError
from roost.fleet.relay import Outcome
from roost.fleet.upstream_pool import (
    Granted,
    HealthChanged,
    Lease,
    PoolEffect,
    Refused,
    UpstreamPool,
)
from roost.gateway.timeouts import TIMEOUT_HEADER, asked_timeout_s
from roost.gateway.upstream.client import ClientLimits, ConnectionPool
from roost.gateway.upstream.headers import request_prefix
from roost.gateway.upstream.passage import Passage
from roost.gateway.upstream.routes import ROUTES, ProxyRoute
from roost.gateway.upstream.targets import Target

if TYPE_CHECKING:
    import random

    from roost.gateway.routes import Call, Routes
    from roost.gateway.tasks import Tasks
    from roost.observe.logs import Log
    from roost.observe.metrics import Metrics


class PassageLimits(msgspec.Struct, frozen=True):
    """How long a server may be silent: before the first byte of an answer, and after it.

    `commit_after_s` is when a client that waits for a stream's first event gets its status.
    """

    first_byte_s: float = 600.0
    idle_s: float = 120.0
    commit_after_s: float = 8.0


class Server:
    """One server with its connections and what is sent to it every time."""

    def __init__(self, target: Target, limits: ClientLimits) -> None:
        self.name = target.name
        self.label = target.name.encode()
        self.base = target.base.encode()
        self.prefix = request_prefix(target)
        self.connections = ConnectionPool(target, limits)
        self.suspected = asyncio.Event()


class Proxy:
    """Relays requests to servers."""

    def __init__(
        self,
        pool: UpstreamPool,
        servers: Iterable[Server],
        limits: PassageLimits,
        dice: random.Random,
        metrics: Metrics,
        log: Log,
    ) -> None:
        self.pool = pool
        self.limits = limits
        self.servers = {server.name: server for server in servers}
        self._dice = dice
        self._metrics = metrics
        self._log = log
        self._tasks: Tasks | None = None
        self._passages: dict[int, Passage] = {}
        self._last_ticket = 0
        self._ttft = metrics("roost_ttft_seconds")
        self.now = asyncio.get_running_loop().time

    def add_to(self, routes: Routes, tasks: Tasks) -> None:
        """Serve every address that is passed on."""
        self._tasks = tasks
        for route in ROUTES:
            routes.add(route.method, route.pattern, partial(self._on_call, route))

    def server(self, name: str) -> Server:
        """Return the server of this name."""
        return self.servers[name]

    def start(self, work: Coroutine[object, object, None]) -> None:
        """Run what has to wait."""
        assert self._tasks is not None, "used before it had routes"
        self._tasks.start(work, "upstream connection")

    # What passages say.

    def on_status(self, name: str, status: int) -> None:
        """Judge a server by the status of an answer."""
        self.perform(self.pool.on_answer(name, status, self.now()))

    def on_failed(self, name: str) -> None:
        """Take a server out of the pool until a probe succeeds."""
        self.perform(self.pool.on_failed(name, self.now()))

    def on_first_byte(self, waited_s: float) -> None:
        """Measure the time to the first byte of a generated answer."""
        self._ttft.observe(waited_s)

    def retry(self, passage: Passage) -> bool:
        """Send a request elsewhere, if somebody else can take it."""
        if not passage.route.leased:
            return self._glance(passage)
        granted = self.pool.on_retry(passage.ticket, passage.tried, self.now(), self._dice)
        if granted is None:
            return False
        self._metrics("roost_retries_total", "upstream_error").inc()
        passage.on_granted(granted)
        return True

    def release(self, lease: Lease, *, served: bool) -> None:
        """Give a place back; whoever waits gets it."""
        self.perform(self.pool.on_released(lease, self.now(), self._dice, served=served))

    def on_over(self, passage: Passage, outcome: Outcome) -> None:
        """Count a request that has ended."""
        del self._passages[passage.ticket]
        self.pool.on_left(passage.ticket)
        self._count(passage.route, outcome)

    # What the clock and the probes say.

    def on_tick(self) -> None:
        """Enforce deadlines."""
        now = self.now()
        for passage in list(self._passages.values()):
            passage.on_tick(now)
        self.perform(self.pool.on_tick(now))
        for server in self.servers.values():
            server.connections.sweep(now)

    def on_probed(self, name: str, started: float, *, ok: bool) -> None:
        """Judge a server by a probe."""
        self.perform(self.pool.on_probed(name, started, self._dice, ok=ok))

    def close(self) -> None:
        """Close every connection to a server."""
        for server in self.servers.values():
            server.connections.close()

    # Performing.

    def perform(self, effects: Iterable[PoolEffect]) -> None:
        """Carry out what the pool has decided."""
        for effect in effects:
            if isinstance(effect, Granted):
                self._passages[effect.ticket].on_granted(effect)
            elif isinstance(effect, Refused):
                self._metrics("roost_shed_total", effect.failure.reason).inc()
                self._passages[effect.ticket].on_refused(effect.failure)
            elif isinstance(effect, HealthChanged):
                self._on_health(effect)

    def _on_health(self, change: HealthChanged) -> None:
        server = self.servers[change.server]
        url = server.connections.target.url
        self._log.info("upstream_health", server=change.server, url=url, healthy=change.healthy)
        if not change.healthy:
            server.suspected.set()

    def _on_call(self, route: ProxyRoute, call: Call) -> None:
        try:
            timeout_s = asked_timeout_s(call.exchange.fields.get(TIMEOUT_HEADER))
        except RoostError as error:
            self._count(route, "rejected")
            call.exchange.fail(error.failure)
            return
        self._last_ticket += 1
        passage = Passage(self, route, call, self._last_ticket, timeout_s)
        self._passages[passage.ticket] = passage
        if route.leased:
            self.perform([self.pool.on_request(passage.ticket, self.now(), self._dice)])
        elif not self._glance(passage):
            passage.on_refused(self.pool.unavailable())

    def _count(self, route: ProxyRoute, outcome: Outcome) -> None:
        # A client that polls the list of models would drown the figures of what it is for.
        if route.leased:
            self._metrics("roost_requests_total", outcome, route.dialect).inc()

    def _glance(self, passage: Passage) -> bool:
        if len(passage.tried) >= len(self.servers):
            return False
        name = self.pool.on_glance(self._dice)
        if name is None:
            return False
        passage.go_to(self.servers[name])
        return True
