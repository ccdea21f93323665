"""MACHINE: the servers behind a stateless gateway: health, leases, choice, a short queue.

    unknown ─ good probe → healthy ⇄ unhealthy ─ lost connection, failed probe; good probe

A lease is taken when a server is chosen and given back exactly once. A change of health never
touches a count: whoever holds a lease on a dead server gives it back like everybody else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import msgspec

from roost.core.ids import LeaseId
from roost.errors import Failure
from roost.fleet.rates import Rate
from roost.fleet.refusals import queue_full, queue_timeout, wait_hint_s
from roost.fleet.retrying import RetryBudget
from roost.fleet.settings import FleetSettings

if TYPE_CHECKING:
    import random

Health = Literal["unknown", "healthy", "unhealthy"]


class PoolSettings(msgspec.Struct, frozen=True):
    """Limits of the pool.

    `max_in_flight` per server; `errors_max` answers with status 500 in a row take a server out of
    the pool until a probe succeeds; `attempts` counts dispatches of one request, the first too.
    """

    max_in_flight: int = 2
    queue_length: int = 0
    queue_wait_s: float = 60.0
    attempts: int = 3
    errors_max: int = 3
    probe_s: float = 2.0
    fleet: FleetSettings = FleetSettings()


class Lease(msgspec.Struct, frozen=True):
    """A place on a server, from the moment of choice."""

    id: LeaseId
    server: str


class Granted(msgspec.Struct, frozen=True):
    """The request of this ticket goes to the leased server."""

    ticket: int
    lease: Lease


class Queued(msgspec.Struct, frozen=True):
    """The request waits for a place; a later event grants or refuses it."""

    ticket: int


class Refused(msgspec.Struct, frozen=True):
    """The request of this ticket is refused."""

    ticket: int
    failure: Failure


class HealthChanged(msgspec.Struct, frozen=True):
    """A server has entered or left the pool."""

    server: str
    healthy: bool


PoolEffect: TypeAlias = Granted | Queued | Refused | HealthChanged


class ServerView(msgspec.Struct, frozen=True):
    """One server as reports and metrics show it."""

    server: str
    health: Health
    in_flight: int
    served: int


class PoolView(msgspec.Struct, frozen=True):
    """The whole pool; `rejected` for want of room, `unavailable` for want of a healthy server."""

    servers: tuple[ServerView, ...]
    queued: int
    rejected: int
    unavailable: int


class _Server:
    def __init__(self, name: str) -> None:
        self.name = name
        self.health: Health = "unknown"
        self.in_flight = 0
        self.served = 0
        self.errors_in_row = 0
        self.failed_at = -math.inf


class _Waiting(msgspec.Struct, frozen=True):
    ticket: int
    deadline: float


class UpstreamPool:
    """Decides where requests go; performs nothing."""

    def __init__(self, servers: Sequence[str], settings: PoolSettings) -> None:
        if not servers or len(set(servers)) != len(servers):
            raise ValueError("a pool needs at least one server, each with a name of its own")
        self._settings = settings
        self._servers = {name: _Server(name) for name in servers}
        self._leases: dict[LeaseId, _Server] = {}
        self._waiting: list[_Waiting] = []
        self._budget = RetryBudget(settings.fleet)
        self._freed = Rate(settings.fleet.rate_window_s)
        self._last_lease = 0
        self._rejected = self._unavailable = 0

    def on_request(self, ticket: int, now: float, rng: random.Random) -> PoolEffect:
        """Place a new request, let it wait or refuse it (`queue_full`, `no_nodes`)."""
        self._budget.note_request(now)
        chosen = None if self._waiting else self._choose(frozenset(), rng)
        if chosen is not None:
            return Granted(ticket, self._take(chosen))
        if not self._any_healthy():
            return self._refuse_unavailable(ticket)
        if len(self._waiting) < self._settings.queue_length:
            deadline = now + self._settings.queue_wait_s
            self._waiting.append(_Waiting(ticket, deadline))
            return Queued(ticket)
        self._rejected += 1
        return Refused(ticket, queue_full(self._hint_s(now)))

    def on_glance(self, rng: random.Random) -> str | None:
        """Choose a healthy server for a question that costs it nothing, such as its models."""
        healthy = [s.name for s in self._servers.values() if s.health == "healthy"]
        return rng.choice(healthy) if healthy else None

    def unavailable(self) -> Failure:
        """Return the failure while no server is healthy; the next probe may change it."""
        hint_s = max(1, min(120, math.ceil(self._settings.probe_s)))
        message = "No upstream server is healthy. Retry later."
        return Failure("no_nodes", message, retry_after_s=hint_s)

    def on_retry(
        self, ticket: int, tried: frozenset[str], now: float, rng: random.Random
    ) -> Granted | None:
        """Place a request again whose servers so far failed before their first byte.

        None when it has had its attempts, when nobody else has room, or when the fleet's budget of
        retries is spent: the client then hears of the failure.
        """
        if len(tried) >= self._settings.attempts:
            return None
        chosen = self._choose(tried, rng)
        # The budget comes last: a retry that has nowhere to go must not use it up.
        if chosen is None or not self._budget.spend(now):
            return None
        return Granted(ticket, self._take(chosen))

    def on_released(
        self, lease: Lease, now: float, rng: random.Random, *, served: bool
    ) -> list[PoolEffect]:
        """Take a lease back, exactly once, and give the place to whoever waits."""
        server = self._leases.pop(lease.id)
        server.in_flight -= 1
        assert server.in_flight >= 0, "a lease was given back twice"
        if served:
            server.served += 1
            self._freed.note(now)
        return self._reconsider(rng)

    def on_left(self, ticket: int) -> None:
        """Forget a waiting request whose client has left; fine if it does not wait."""
        self._waiting = [w for w in self._waiting if w.ticket != ticket]

    def on_answer(self, name: str, status: int, now: float) -> list[PoolEffect]:
        """Judge a server by an answer: 500 and its kind are failures, 429 and 503 are not."""
        server = self._servers[name]
        failed = status >= 500 and status != 503
        server.errors_in_row = server.errors_in_row + 1 if failed else 0
        if server.errors_in_row >= self._settings.errors_max:
            return self.on_failed(name, now)
        return []

    def on_failed(self, name: str, now: float) -> list[PoolEffect]:
        """A connection to this server could not be made or was lost: out of the pool at once."""
        server = self._servers[name]
        server.failed_at = now
        return self._set_health(server, "unhealthy")

    def on_probed(
        self, name: str, started: float, rng: random.Random, *, ok: bool
    ) -> list[PoolEffect]:
        """Judge a server by a probe; a good one begun before the last failure proves nothing."""
        server = self._servers[name]
        if ok and started < server.failed_at:
            return []
        if ok:
            server.errors_in_row = 0
        changed = self._set_health(server, "healthy" if ok else "unhealthy")
        return changed + (self._reconsider(rng) if changed else [])

    def on_tick(self, now: float) -> list[PoolEffect]:
        """Refuse those who have waited too long (`queue_timeout`)."""
        late = [w for w in self._waiting if w.deadline <= now]
        self._waiting = [w for w in self._waiting if w.deadline > now]
        self._rejected += len(late)
        waited_s = self._settings.queue_wait_s
        return [Refused(w.ticket, queue_timeout(waited_s, self._hint_s(now))) for w in late]

    @property
    def ready(self) -> bool:
        """Whether a healthy server is in the pool."""
        return self._any_healthy()

    def statistics(self) -> PoolView:
        """Report the pool as it is."""
        servers = tuple(
            ServerView(s.name, s.health, s.in_flight, s.served) for s in self._servers.values()
        )
        return PoolView(servers, len(self._waiting), self._rejected, self._unavailable)

    def _choose(self, exclude: frozenset[str], rng: random.Random) -> _Server | None:
        """Return a healthy server with room and least in flight, any one of those that tie.

        Without the draw all traffic of an idle fleet would land on the first server of the list.
        """
        limit = self._settings.max_in_flight
        free = [
            s
            for s in self._servers.values()
            if s.health == "healthy" and s.in_flight < limit and s.name not in exclude
        ]
        if not free:
            return None
        least = min(s.in_flight for s in free)
        ties = [s for s in free if s.in_flight == least]
        return ties[0] if len(ties) == 1 else rng.choice(ties)

    def _take(self, server: _Server) -> Lease:
        self._last_lease += 1
        lease = Lease(LeaseId(self._last_lease), server.name)
        self._leases[lease.id] = server
        server.in_flight += 1
        assert server.in_flight <= self._settings.max_in_flight, "a server is over its limit"
        return lease

    def _reconsider(self, rng: random.Random) -> list[PoolEffect]:
        """Grant places to those who wait, first come first served."""
        granted: list[PoolEffect] = []
        while self._waiting and (server := self._choose(frozenset(), rng)) is not None:
            granted.append(Granted(self._waiting.pop(0).ticket, self._take(server)))
        return granted

    def _set_health(self, server: _Server, health: Health) -> list[PoolEffect]:
        if server.health == health:
            return []
        server.health = health
        effects: list[PoolEffect] = [HealthChanged(server.name, health == "healthy")]
        if not self._any_healthy():
            effects += [self._refuse_unavailable(w.ticket) for w in self._waiting]
            self._waiting = []
        return effects

    def _any_healthy(self) -> bool:
        return any(s.health == "healthy" for s in self._servers.values())

    def _refuse_unavailable(self, ticket: int) -> Refused:
        self._unavailable += 1
        return Refused(ticket, self.unavailable())

    def _hint_s(self, now: float) -> int:
        """Whole seconds until a place should be free, from the rate of finished answers."""
        return wait_hint_s(len(self._waiting), self._freed.per_s(now), 1)
