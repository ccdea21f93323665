"""MACHINE: the servers behind a stateless gateway: health, leases, choice, a short queue.

    unknown ─ good probe → healthy ⇄ unhealthy ─ lost connection, failed probe; good probe

A lease is taken when a server is chosen and given back exactly once. A change of health never
touches a count: whoever holds a lease on a dead server gives it back like everybody else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from roost.core.ids import LeaseId
from roost.errors import Failure
from roost.fleet.line.refusals import hint_s, queue_full, queue_timeout
from roost.fleet.retrying import RetryBudget
from roost.fleet.upstream.effects import (
    Forgotten,
    Granted,
    Health,
    HealthChanged,
    Lease,
    PoolEffect,
    PoolView,
    Queued,
    Refused,
    StallChanged,
)
from roost.fleet.upstream.rates import Rate
from roost.fleet.upstream.servers import Catalogue, PoolServer

if TYPE_CHECKING:
    import random


RATE_WINDOW_S = 30.0
"""How often places become free is taken over so long."""


class PoolSettings(msgspec.Struct, frozen=True):
    """Limits of the pool.

    `max_in_flight` per server; `errors_max` answers with status 500 in a row take a server out of
    the pool until a probe succeeds; `attempts` counts dispatches of one request, the first too.
    A server whose answers are all silent for longer than `stall_s`, and than a few times what is
    usual for it, gets nothing new while another one works.
    `retry_ratio` and `retry_floor` bound retries per `retry_window_s`.
    """

    max_in_flight: int = 2
    queue_length: int = 0
    queue_wait_s: float = 60.0
    attempts: int = 3
    errors_max: int = 3
    probe_s: float = 2.0
    stall_s: float = 30.0
    retry_ratio: float = 0.1
    retry_floor: int = 3
    retry_window_s: float = 10.0


class _Waiting(msgspec.Struct, frozen=True):
    ticket: int
    deadline: float
    model: str | None


class UpstreamPool:
    """Decides where requests go; performs nothing."""

    def __init__(self, servers: Sequence[str], settings: PoolSettings) -> None:
        if not servers or len(set(servers)) != len(servers):
            raise ValueError("a pool needs at least one server, each with a name of its own")
        self._settings = settings
        self._servers = {name: PoolServer(name) for name in servers}
        self._catalogue = Catalogue(self._servers.values())
        self._leases: dict[LeaseId, PoolServer] = {}
        self._waiting: list[_Waiting] = []
        self._budget = RetryBudget(
            settings.retry_ratio, settings.retry_floor, settings.retry_window_s
        )
        self._freed = Rate(RATE_WINDOW_S)
        self._picky = False
        self._last_lease = 0
        self._rejected = self._unavailable = 0

    @property
    def picky(self) -> bool:
        """Whether the model that a request names makes a difference."""
        return self._picky

    def on_request(
        self, ticket: int, now: float, rng: random.Random, model: str | None = None
    ) -> PoolEffect:
        """Place a new request, let it wait or refuse it (`queue_full`, `no_nodes`).

        A model that some server lists goes only to servers that list it or whose list is unknown.
        """
        self._budget.note_request(now)
        # Nobody is overtaken: who waits could not be placed by the last event that changed
        # anything, so no server that has room now is one that it waits for.
        chosen = self._choose(model, frozenset(), rng)
        if chosen is not None:
            return Granted(ticket, self._take(chosen))
        if not self._any_working(model):
            return self._refuse_unavailable(ticket, model)
        if len(self._waiting) < self._settings.queue_length:
            deadline = now + self._settings.queue_wait_s
            self._waiting.append(_Waiting(ticket, deadline, model))
            return Queued(ticket)
        self._rejected += 1
        return Refused(ticket, queue_full(self._hint_s(now)))

    def on_glance(self, rng: random.Random, model: str | None = None) -> str | None:
        """Choose a healthy server for a question that costs it nothing, such as about a model."""
        working = [s.name for s in self._catalogue.servers_for(model) if s.working]
        return rng.choice(working) if working else None

    def unavailable(self, model: str | None = None) -> Failure:
        """Return the failure while no server is healthy; the next probe may change it."""
        hint_s = max(1, min(120, math.ceil(self._settings.probe_s)))
        which = " that serves this model" if model is not None and self.ready else ""
        message = f"No upstream server{which} is healthy. Retry later."
        return Failure("no_nodes", message, retry_after_s=hint_s)

    def on_retry(
        self,
        ticket: int,
        tried: frozenset[str],
        now: float,
        rng: random.Random,
        model: str | None = None,
    ) -> Granted | None:
        """Place a request again whose servers so far failed before their first byte.

        None when it has had its attempts, when nobody else has room, or when the fleet's budget of
        retries is spent: the client then hears of the failure.
        """
        if len(tried) >= self._settings.attempts:
            return None
        chosen = self._choose(model, tried, rng)
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
        return self._forget_idle(server) + self._reconsider(rng)

    def on_left(self, ticket: int) -> None:
        """Forget a waiting request whose client has left; fine if it does not wait."""
        self._waiting = [w for w in self._waiting if w.ticket != ticket]

    def on_answer(self, name: str, status: int, now: float, rng: random.Random) -> list[PoolEffect]:
        """Judge a server by an answer: 500 and its kind are failures, 429 and 503 are not."""
        server = self._servers[name]
        failed = status >= 500 and status != 503
        server.errors_in_row = server.errors_in_row + 1 if failed else 0
        if server.errors_in_row >= self._settings.errors_max:
            return self.on_failed(name, now, rng)
        return []

    def on_failed(self, name: str, now: float, rng: random.Random) -> list[PoolEffect]:
        """A connection to this server could not be made or was lost: out of the pool at once."""
        server = self._servers[name]
        server.failed_at = now
        changed = self._set_health(server, "unhealthy")
        # Those that stand still may be all that is left.
        return changed + (self._reconsider(rng) if changed else [])

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

    def on_models(
        self, name: str, models: tuple[str, ...] | None, rng: random.Random
    ) -> list[PoolEffect]:
        """Take in what a server lists; None where that cannot be read, so it may serve anything."""
        server = self._servers[name]
        if models == server.models:
            return []
        server.models = models
        return self._recatalogue(rng)

    def on_silence(
        self, name: str, silence_s: float | None, rng: random.Random
    ) -> list[PoolEffect]:
        """Judge a server by the shortest silence of its answers in flight; None without any.

        A server that hangs can still answer probes. While it stands still it counts as full, unless
        all that work stand still: silence then tells nothing about any of them, and a refusal while
        places are free would help nobody.
        """
        server = self._servers[name]
        stalled = server.stalls(silence_s, self._settings.stall_s)
        if stalled == server.stalled:
            return []
        server.stalled = stalled
        return [StallChanged(name, stalled), *self._reconsider(rng)]

    def on_gap(self, name: str, longest_s: float) -> None:
        """Learn the longest silence of an answer that came through."""
        self._servers[name].learn(longest_s)

    # What operators say.

    def on_parked(self, name: str, rng: random.Random, *, parked: bool) -> list[PoolEffect]:
        """Give a server nothing new, whatever its health, until this is called the other way."""
        self._servers[name].drained = parked
        return self._refuse_hopeless() + self._reconsider(rng)

    def on_servers(self, names: Sequence[str], rng: random.Random) -> list[PoolEffect]:
        """Take a new list: new servers are unknown at first, missing ones end what they have."""
        if not names or len(set(names)) != len(names):
            raise ValueError("a pool needs at least one server, each with a name of its own")
        for name in names:
            self._servers.setdefault(name, PoolServer(name))
        forgotten: list[PoolEffect] = []
        for server in list(self._servers.values()):
            server.leaving = server.name not in names
            forgotten += self._forget_idle(server)
        return forgotten + self._recatalogue(rng)

    def on_replaced(self, name: str, rng: random.Random) -> list[PoolEffect]:
        """Another server stands behind this name now; what runs on the old one still counts."""
        server = self._servers[name]
        server.renew()
        return self._set_health(server, "unknown") + self._recatalogue(rng)

    # What the clock says.

    def on_tick(self, now: float) -> list[PoolEffect]:
        """Refuse those who have waited too long (`queue_timeout`)."""
        late = [w for w in self._waiting if w.deadline <= now]
        self._waiting = [w for w in self._waiting if w.deadline > now]
        self._rejected += len(late)
        waited_s = self._settings.queue_wait_s
        return [Refused(w.ticket, queue_timeout(waited_s, self._hint_s(now))) for w in late]

    @property
    def ready(self) -> bool:
        """Whether a healthy server takes work."""
        return self._any_working(None)

    def working(self) -> tuple[str, ...]:
        """Name the servers that take work, in the order of the list."""
        return tuple(s.name for s in self._servers.values() if s.working)

    def statistics(self) -> PoolView:
        """Report the pool as it is."""
        servers = tuple(server.view() for server in self._servers.values())
        return PoolView(servers, len(self._waiting), self._rejected, self._unavailable)

    def _choose(
        self, model: str | None, exclude: frozenset[str], rng: random.Random
    ) -> PoolServer | None:
        """Return a healthy server with room and least in flight, any one of those that tie.

        Without the draw all traffic of an idle fleet would land on the first server of the list.
        """
        limit = self._settings.max_in_flight
        working = [s for s in self._catalogue.servers_for(model) if s.working]
        moving = [s for s in working if not s.stalled]
        free = [s for s in moving or working if s.in_flight < limit and s.name not in exclude]
        if not free:
            return None
        least = min(s.in_flight for s in free)
        ties = [s for s in free if s.in_flight == least]
        return ties[0] if len(ties) == 1 else rng.choice(ties)

    def _take(self, server: PoolServer) -> Lease:
        self._last_lease += 1
        lease = Lease(LeaseId(self._last_lease), server.name)
        self._leases[lease.id] = server
        server.in_flight += 1
        assert server.in_flight <= self._settings.max_in_flight, "a server is over its limit"
        return lease

    def _reconsider(self, rng: random.Random) -> list[PoolEffect]:
        """Grant places to those who wait, first come first served among those of a model."""
        granted: list[PoolEffect] = []
        kept: list[_Waiting] = []
        full: set[str | None] = set()
        for waiting in self._waiting:
            chosen = None
            if waiting.model not in full:
                chosen = self._choose(waiting.model, frozenset(), rng)
            if chosen is None:
                full.add(waiting.model)
                kept.append(waiting)
            else:
                granted.append(Granted(waiting.ticket, self._take(chosen)))
        self._waiting = kept
        return granted

    def _set_health(self, server: PoolServer, health: Health) -> list[PoolEffect]:
        if server.health == health:
            return []
        was, server.health = server.health, health
        if health == "unknown" and was != "healthy":
            return []
        effects: list[PoolEffect] = [HealthChanged(server.name, health == "healthy")]
        return effects + self._refuse_hopeless()

    def _recatalogue(self, rng: random.Random) -> list[PoolEffect]:
        self._catalogue = Catalogue(self._servers.values())
        self._picky = self._catalogue.picky
        return self._refuse_hopeless() + self._reconsider(rng)

    def _forget_idle(self, server: PoolServer) -> list[PoolEffect]:
        if not server.leaving or server.in_flight:
            return []
        del self._servers[server.name]
        return [Forgotten(server.name)]

    def _refuse_hopeless(self) -> list[PoolEffect]:
        """Refuse those who wait for servers none of which takes work any more."""
        if not self._waiting:
            return []
        models = {w.model for w in self._waiting}
        lost = {model for model in models if not self._any_working(model)}
        gone = [w for w in self._waiting if w.model in lost]
        self._waiting = [w for w in self._waiting if w.model not in lost]
        return [self._refuse_unavailable(w.ticket, w.model) for w in gone]

    def _any_working(self, model: str | None) -> bool:
        return any(s.working for s in self._catalogue.servers_for(model))

    def _refuse_unavailable(self, ticket: int, model: str | None) -> Refused:
        self._unavailable += 1
        return Refused(ticket, self.unavailable(model))

    def _hint_s(self, now: float) -> int:
        """Whole seconds until a place should be free, from the rate of finished answers."""
        freed_per_s = self._freed.per_s(now)
        return hint_s((len(self._waiting) + 1) / freed_per_s if freed_per_s else None, 1)
