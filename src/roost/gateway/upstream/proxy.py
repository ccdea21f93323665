"""SHELL: the pool's only caller: requests and probes go in, its effects are carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from roost.dialects.openai.errors import model_not_found
from roost.errors import Failure, RoostError
from roost.fleet.streams.relay import Outcome
from roost.fleet.upstream.effects import (
    Forgotten,
    Granted,
    HealthChanged,
    Lease,
    PoolEffect,
    Refused,
    StallChanged,
)
from roost.fleet.upstream.pool import UpstreamPool
from roost.gateway.front.rendering import JSON_BODY
from roost.gateway.reading.timeouts import TIMEOUT_HEADER, asked_timeout_s
from roost.gateway.turns.limiter import Limiter, LimiterSettings
from roost.gateway.upstream.models import NO_ALIASES, Listed, merged, named_model
from roost.gateway.upstream.passage import Passage, PassageLimits
from roost.gateway.upstream.routes import MODELS, ROUTES, ProxyRoute
from roost.gateway.upstream.servers import Server, Servers
from roost.gateway.upstream.targets import same_address

if TYPE_CHECKING:
    import random

    from roost.core.allowance import Account
    from roost.gateway.routes import Call, Routes
    from roost.gateway.tasks import Tasks
    from roost.gateway.upstream.targets import Target
    from roost.observe.logs import Log
    from roost.observe.metrics import Metrics


UNCOUNTED = Failure(
    "forbidden",
    "This key has limits of tokens, which a gateway in front of other servers cannot count. Limit "
    "its requests there.",
)

PER_SERVER = ("roost_in_flight", "roost_upstream_healthy", "roost_upstream_stalled")
"""Gauges with a server's name on them."""


class Proxy:
    """Relays requests to servers."""

    def __init__(
        self,
        pool: UpstreamPool,
        servers: Servers,
        limits: PassageLimits,
        dice: random.Random,
        metrics: Metrics,
        log: Log,
    ) -> None:
        self.pool = pool
        self.limits = limits
        self.servers = servers
        self._dice = dice
        self._metrics = metrics
        self._log = log
        self.aliases = NO_ALIASES
        self.limiter = Limiter(LimiterSettings(), metrics)
        self._tasks: Tasks | None = None
        self._passages: dict[int, Passage] = {}
        self._last_ticket = 0
        self._stalled: set[str] = set()
        self._ttft = metrics("roost_ttft_seconds")
        self.now = asyncio.get_running_loop().time

    def call_also(self, aliases: Mapping[str, str]) -> None:
        """Know models by these other names."""
        self.aliases = self.limiter.allowances.aliases = aliases

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

    def on_status(self, server: Server, status: int) -> None:
        """Judge a server by the status of an answer."""
        if self.servers.is_current(server):
            self.perform(self.pool.on_answer(server.name, status, self.now(), self._dice))

    def on_failed(self, server: Server) -> None:
        """Take a server out of the pool until a probe succeeds."""
        if self.servers.is_current(server):
            self.perform(self.pool.on_failed(server.name, self.now(), self._dice))

    def on_whole(self, server: Server, longest_s: float) -> None:
        """Learn from an answer that came through how long this server's silences are."""
        if self.servers.is_current(server):
            self.pool.on_gap(server.name, longest_s)

    def on_first_byte(self, waited_s: float) -> None:
        """Measure the time to the first byte of a generated answer."""
        self._ttft.observe(waited_s)

    def retry(self, passage: Passage) -> bool:
        """Send a request elsewhere, if somebody else can take it."""
        if not passage.route.leased:
            return self._glance(passage)
        ticket, tried, model = passage.ticket, passage.tried, passage.model
        granted = self.pool.on_retry(ticket, tried, self.now(), self._dice, model)
        if granted is None:
            return False
        self._metrics("roost_retries_total", "upstream_error").inc()
        passage.on_granted(granted)
        return True

    def release(self, lease: Lease, *, served: bool) -> None:
        """Give a place back; whoever waits gets it."""
        self.perform(self.pool.on_released(lease, self.now(), self._dice, served=served))
        if lease.server in self._stalled:
            # Not left to the tick: whoever ended it may ask again at once.
            self._see_silences(self.now())

    def on_over(self, passage: Passage, outcome: Outcome) -> None:
        """Count a request that has ended."""
        del self._passages[passage.ticket]
        self.pool.on_left(passage.ticket)
        if passage.route.leased:
            self.limiter.settle(passage.terms, 0)
        self._count(passage.route, outcome)

    # What the clock and the probes say.

    def on_tick(self) -> None:
        """Enforce deadlines, and see whose answers stand still."""
        now = self.now()
        for passage in list(self._passages.values()):
            passage.on_tick(now)
        self._see_silences(now)
        self.perform(self.pool.on_tick(now))
        self.servers.sweep(now)

    def _see_silences(self, now: float) -> None:
        silences: dict[str, float] = {}
        for passage in self._passages.values():
            server, silence_s = passage.waits_for, passage.silence_s(now)
            if silence_s is not None and server is not None and self.servers.is_current(server):
                silences[server.name] = min(silence_s, silences.get(server.name, silence_s))
        for server in self.servers.current:
            self.perform(self.pool.on_silence(server.name, silences.get(server.name), self._dice))

    def on_probed(self, server: Server, started: float, *, ok: bool) -> None:
        """Judge a server by a probe."""
        if self.servers.is_current(server):
            self.perform(self.pool.on_probed(server.name, started, self._dice, ok=ok))

    def on_listed(self, server: Server, listed: tuple[Listed, ...] | None) -> None:
        """Take in what a server lists; None where it does not tell."""
        if self.servers.is_current(server):
            server.listed = listed
            models = None if listed is None else tuple(one.id for one in listed)
            self.perform(self.pool.on_models(server.name, models, self._dice))

    # What operators say.

    def park(self, name: str, *, parked: bool) -> None:
        """Give a server no new work, or give it work again."""
        self._log.info("upstream_parked", server=name, parked=parked)
        self.perform(self.pool.on_parked(name, self._dice, parked=parked))

    def use(self, targets: Sequence[Target]) -> tuple[Server, ...]:
        """Change the list of servers; return those that are new or not what they were.

        Only a changed key is no other server: its health stays known.
        """
        known = {server.name: server.target for server in self.servers.current}
        changed = [target for target in targets if known.get(target.name) != target]
        placed = tuple(self.servers.put(target) for target in changed)
        for target in changed:
            before = known.get(target.name)
            if before is not None and not same_address(before, target):
                self.perform(self.pool.on_replaced(target.name, self._dice))
        self.perform(self.pool.on_servers([target.name for target in targets], self._dice))
        return placed

    def close(self) -> None:
        """Close every connection to a server."""
        self.servers.close()

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
            elif isinstance(effect, StallChanged):
                self._on_stall(effect)
            elif isinstance(effect, Forgotten):
                self._on_forgotten(effect.server)

    def _on_health(self, change: HealthChanged) -> None:
        server = self.servers[change.server]
        url = server.connections.target.url
        self._log.info("upstream_health", server=change.server, url=url, healthy=change.healthy)
        if not change.healthy:
            server.suspected.set()

    def _on_stall(self, change: StallChanged) -> None:
        self._log.warning("upstream_stall", server=change.server, stalled=change.stalled)
        if change.stalled:
            self._stalled.add(change.server)
        else:
            self._stalled.discard(change.server)

    def _on_forgotten(self, name: str) -> None:
        self.servers.forget(name)
        self._stalled.discard(name)
        for metric in PER_SERVER:
            self._metrics.forget(metric, name)
        self._log.info("upstream_forgotten", server=name)

    def _on_call(self, route: ProxyRoute, call: Call) -> None:
        account = call.principal.account
        if route.pattern == MODELS and (body := self._merged_list(account)) is not None:
            call.exchange.reply(200, JSON_BODY, body)
            return
        try:
            timeout_s = asked_timeout_s(call.exchange.fields.get(TIMEOUT_HEADER))
        except RoostError as error:
            self._count(route, "rejected")
            call.exchange.fail(error.failure)
            return
        self._last_ticket += 1
        passage = Passage(self, route, call, self._last_ticket, timeout_s)
        self._passages[passage.ticket] = passage
        if not route.leased:
            passage.model = call.rest or None
            if call.rest and not self.limiter.may_use(account, call.rest):
                passage.on_refused(model_not_found(call.rest))
                return
            self._by_own_name(passage)
            if not self._glance(passage):
                passage.on_refused(self.pool.unavailable(passage.model))
            return
        if self.pool.picky or self.aliases or (account is not None and account.allowance.models):
            # Where all servers list the same under their own names, nobody pays for looking.
            passage.model = named_model(passage.body)
            self._by_own_name(passage)
        refused = self._kept_out(passage, account)
        if refused is not None:
            passage.on_refused(refused)
            return
        ticket, model = passage.ticket, passage.model
        self.perform([self.pool.on_request(ticket, self.now(), self._dice, model)])

    def _kept_out(self, passage: Passage, account: Account | None) -> Failure | None:
        """Take a request in on its account, or say why it cannot be."""
        if account is None:
            return None
        if account.allowance.counts_tokens:
            return UNCOUNTED
        return self.limiter.reserve(passage.terms, passage.model or "", is_free=True)

    def _by_own_name(self, passage: Passage) -> None:
        model = self.aliases.get(passage.model or "")
        if model is not None:
            passage.ask_for(model)

    def _merged_list(self, account: Account | None) -> bytes | None:
        """Return what all working servers list; None where that is for a server to say.

        That is, for the only one, whose words pass unchanged while there are no other names, or for
        any if nobody's are known.
        """
        working = self.pool.working()
        lists = [listed for name in working if (listed := self.servers[name].listed) is not None]
        if account is not None and account.allowance.models:
            may_use = partial(self.limiter.may_use, account)
            lists = [tuple(one for one in listed if may_use(one.id)) for listed in lists]
            return merged(lists, self.aliases)
        own = lists and (len(working) > 1 or self.aliases)
        return merged(lists, self.aliases) if own else None

    def _count(self, route: ProxyRoute, outcome: Outcome) -> None:
        # A client that polls the list of models would drown the figures of what it is for.
        if route.leased:
            self._metrics("roost_requests_total", outcome, route.dialect).inc()

    def _glance(self, passage: Passage) -> bool:
        if all(server.name in passage.tried for server in self.servers.current):
            return False
        name = self.pool.on_glance(self._dice, passage.model)
        if name is None:
            return False
        passage.go_to(self.servers[name])
        return True
