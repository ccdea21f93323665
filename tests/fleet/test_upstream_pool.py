"""The pool of the stateless gateway: choice, counts, health, queue, retries."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from roost.fleet.upstream_pool import (
    Granted,
    HealthChanged,
    Lease,
    PoolEffect,
    PoolSettings,
    Queued,
    Refused,
    UpstreamPool,
)

RNG = random.Random(7)


def pool_of(*names: str, healthy: bool = True, **limits: float) -> UpstreamPool:
    """Build a pool whose servers are known."""
    numbers = {"max_in_flight": 2, "queue_length": 0, **limits}
    pool = UpstreamPool(names, PoolSettings(**numbers))  # type: ignore[arg-type]
    if healthy:
        for name in names:
            pool.on_probed(name, 0.0, RNG, ok=True)
    return pool


def granted(effect: PoolEffect | None) -> Lease:
    """Expect a lease."""
    assert isinstance(effect, Granted)
    return effect.lease


def reason(effect: PoolEffect) -> str:
    """Expect a refusal."""
    assert isinstance(effect, Refused)
    assert effect.failure.retry_after_s is not None
    return effect.failure.reason


@pytest.mark.parametrize("names", [(), ("a", "a")])
def test_names_are_needed(names: tuple[str, ...]) -> None:
    """A pool has servers, each with a name of its own."""
    with pytest.raises(ValueError, match="name of its own"):
        UpstreamPool(names, PoolSettings())


def test_unknown_servers_get_nothing() -> None:
    """Listening is not ready: before the first good probe there is nobody to ask."""
    pool = pool_of("a", healthy=False)
    assert reason(pool.on_request(1, 0.0, RNG)) == "no_nodes"
    assert not pool.ready
    assert pool.on_probed("a", 0.0, RNG, ok=True) == [HealthChanged("a", healthy=True)]
    assert granted(pool.on_request(2, 0.0, RNG)).server == "a"
    assert pool.statistics().unavailable == 1


def test_least_in_flight_and_limit() -> None:
    """Requests go where the fewest are, up to the limit; then it is full."""
    pool = pool_of("a", "b")
    servers = Counter(granted(pool.on_request(i, 0.0, RNG)).server for i in range(4))
    assert servers == {"a": 2, "b": 2}
    assert reason(pool.on_request(9, 0.0, RNG)) == "queue_full"
    assert [s.in_flight for s in pool.statistics().servers] == [2, 2]
    assert pool.statistics().rejected == 1


def test_ties_are_drawn() -> None:
    """On an idle fleet every server gets its share: no list order decides."""
    rng, counts = random.Random(1), Counter[str]()
    for ticket in range(3000):
        pool = pool_of("a", "b", "c")
        counts[granted(pool.on_request(ticket, 0.0, rng)).server] += 1
    assert all(850 < counts[name] < 1150 for name in "abc")


def test_release_is_exactly_once() -> None:
    """A lease given back twice is a defect that is noticed."""
    pool = pool_of("a")
    lease = granted(pool.on_request(1, 0.0, RNG))
    assert pool.on_released(lease, 1.0, RNG, served=True) == []
    with pytest.raises(KeyError):
        pool.on_released(lease, 1.0, RNG, served=True)
    assert pool.statistics().servers[0].in_flight == 0
    assert pool.statistics().servers[0].served == 1


def test_failure_takes_a_server_out_but_keeps_its_count() -> None:
    """A dead server gets nothing at once; whoever is on it gives its lease back by itself."""
    pool = pool_of("a")
    lease = granted(pool.on_request(1, 0.0, RNG))
    assert pool.on_failed("a", 1.0) == [HealthChanged("a", healthy=False)]
    assert pool.on_failed("a", 1.1) == []
    assert pool.statistics().servers[0].in_flight == 1
    assert reason(pool.on_request(2, 1.2, RNG)) == "no_nodes"
    pool.on_released(lease, 2.0, RNG, served=False)
    assert pool.statistics().servers[0].in_flight == 0


def test_probe_that_began_before_the_failure_proves_nothing() -> None:
    """An old good answer does not bring a server back that has failed since."""
    pool = pool_of("a")
    pool.on_failed("a", 10.0)
    assert pool.on_probed("a", 9.9, RNG, ok=True) == []
    assert not pool.ready
    assert pool.on_probed("a", 10.1, RNG, ok=True) == [HealthChanged("a", healthy=True)]


def test_failed_probe_is_told_once() -> None:
    """Only changes are effects."""
    pool = pool_of("a")
    assert pool.on_probed("a", 1.0, RNG, ok=False) == [HealthChanged("a", healthy=False)]
    assert pool.on_probed("a", 2.0, RNG, ok=False) == []


def test_errors_in_a_row() -> None:
    """Three answers of the 500 kind in a row count as a failure; 429, 503 and 400 do not."""
    pool = pool_of("a", errors_max=3)
    for status in (500, 502, 200, 500, 429, 500, 500, 503, 400):
        assert pool.on_answer("a", status, 1.0) == []
    assert pool.on_answer("a", 500, 2.0) == []
    assert pool.on_answer("a", 500, 2.0) == []
    assert pool.on_answer("a", 504, 2.0) == [HealthChanged("a", healthy=False)]
    pool.on_probed("a", 3.0, RNG, ok=True)
    assert pool.on_answer("a", 500, 4.0) == []


def test_queue_is_first_come_first_served() -> None:
    """Who waits gets the next free place, in order; who is one too many is refused."""
    pool = pool_of("a", max_in_flight=1, queue_length=2)
    lease = granted(pool.on_request(1, 0.0, RNG))
    assert pool.on_request(2, 0.0, RNG) == Queued(2)
    assert pool.on_request(3, 0.0, RNG) == Queued(3)
    assert reason(pool.on_request(4, 0.0, RNG)) == "queue_full"
    (effect,) = pool.on_released(lease, 1.0, RNG, served=True)
    assert isinstance(effect, Granted)
    assert effect.ticket == 2
    pool.on_left(3)
    assert pool.on_released(effect.lease, 2.0, RNG, served=True) == []


def test_waiting_ends() -> None:
    """Nobody waits longer than `queue_wait_s`, or for a fleet that is gone."""
    pool = pool_of("a", max_in_flight=1, queue_length=5, queue_wait_s=10)
    granted(pool.on_request(1, 0.0, RNG))
    pool.on_request(2, 0.0, RNG)
    pool.on_request(3, 5.0, RNG)
    assert pool.on_tick(9.9) == []
    (late,) = pool.on_tick(10.0)
    assert reason(late) == "queue_timeout"
    change, refused = pool.on_failed("a", 11.0)
    assert (change, reason(refused)) == (HealthChanged("a", healthy=False), "no_nodes")
    assert pool.statistics().queued == 0


def test_recovered_server_serves_who_waits() -> None:
    """A server that comes back takes from the queue."""
    pool = pool_of("a", "b", max_in_flight=1, queue_length=5)
    pool.on_failed("b", 1.0)
    granted(pool.on_request(1, 2.0, RNG))
    pool.on_request(2, 2.0, RNG)
    change, effect = pool.on_probed("b", 3.0, RNG, ok=True)
    assert change == HealthChanged("b", healthy=True)
    assert granted(effect).server == "b"


def test_retry_goes_elsewhere_and_has_limits() -> None:
    """A retry avoids who was tried, ends after three attempts, and takes a lease like the first."""
    pool = pool_of("a", "b", "c", "d")
    first = granted(pool.on_request(1, 0.0, RNG)).server
    tried = frozenset({first})
    second = granted(pool.on_retry(1, tried, 0.0, RNG)).server
    assert second not in tried
    assert granted(pool.on_retry(1, tried | {second}, 0.0, RNG)).server not in {first, second}
    assert pool.on_retry(1, frozenset("abc"), 0.0, RNG) is None
    assert pool.on_retry(2, frozenset("ab"), 0.0, RNG) is not None


def test_retries_have_a_budget() -> None:
    """No more than the larger of three and a tenth of the requests in ten seconds."""
    pool = pool_of("a", "b", max_in_flight=1000)
    assert [pool.on_retry(i, frozenset("a"), 0.0, RNG) is not None for i in range(5)] == (
        [True] * 3 + [False] * 2
    )
    assert pool.on_retry(9, frozenset("a"), 10.1, RNG) is not None


def test_retry_without_a_place_costs_no_budget() -> None:
    """A retry that nobody can take is not spent."""
    pool = pool_of("a")
    for ticket in range(10):
        assert pool.on_retry(ticket, frozenset("a"), 0.0, RNG) is None


def test_hint_comes_from_the_measured_rate() -> None:
    """The hint says when a place should be free: slow fleets send people away for longer."""
    pool = pool_of("a", max_in_flight=1)
    now = 0.0
    for ticket in range(5):
        lease = granted(pool.on_request(ticket, now, RNG))
        now += 10.0
        pool.on_released(lease, now, RNG, served=True)
    granted(pool.on_request(9, now, RNG))
    refused = pool.on_request(10, now, RNG)
    assert isinstance(refused, Refused)
    hint = refused.failure.retry_after_s
    assert hint is not None
    assert 5 <= hint <= 20


def test_glance_takes_no_place() -> None:
    """A question that costs nothing goes to any healthy server, full or not."""
    pool = pool_of("a", "b", max_in_flight=1)
    for ticket in (1, 2):
        granted(pool.on_request(ticket, 0.0, RNG))
    assert {pool.on_glance(random.Random(i)) for i in range(20)} == {"a", "b"}
    pool.on_failed("a", 1.0)
    pool.on_failed("b", 1.0)
    assert pool.on_glance(RNG) is None
    assert pool.unavailable().retry_after_s == 2


class PoolWorld(RuleBasedStateMachine):
    """Any order of events keeps the counts true and forgets nobody."""

    def __init__(self) -> None:
        super().__init__()
        self.rng = random.Random(0)
        self.pool = UpstreamPool(
            ["a", "b", "c"], PoolSettings(max_in_flight=2, queue_length=3, queue_wait_s=5)
        )
        self.now = 0.0
        self.ticket = 0
        self.leases: list[Lease] = []
        self.waiting: set[int] = set()

    def take(self, effects: list[PoolEffect]) -> None:
        """Carry effects out, as the shell does."""
        for effect in effects:
            if isinstance(effect, Granted):
                self.leases.append(effect.lease)
                self.waiting.discard(effect.ticket)
            elif isinstance(effect, Queued):
                self.waiting.add(effect.ticket)
            elif isinstance(effect, Refused):
                self.waiting.discard(effect.ticket)
                hint = effect.failure.retry_after_s
                assert hint is not None
                assert 1 <= hint <= 120

    @rule(seconds=st.floats(0, 3))
    def advance(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds
        self.take(self.pool.on_tick(self.now))

    @rule()
    def request(self) -> None:
        """Somebody asks."""
        self.ticket += 1
        self.take([self.pool.on_request(self.ticket, self.now, self.rng)])

    @rule(tried=st.frozensets(st.sampled_from("abc")))
    def retry(self, tried: frozenset[str]) -> None:
        """Somebody has to ask elsewhere."""
        effect = self.pool.on_retry(self.ticket, tried, self.now, self.rng)
        if effect is not None:
            assert effect.lease.server not in tried
            self.take([effect])

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), served=st.booleans())
    def release(self, data: st.DataObject, served: bool) -> None:
        """An answer is over."""
        lease = data.draw(st.sampled_from(self.leases))
        self.leases.remove(lease)
        self.take(self.pool.on_released(lease, self.now, self.rng, served=served))

    @precondition(lambda self: self.waiting)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """A waiting client leaves."""
        ticket = data.draw(st.sampled_from(sorted(self.waiting)))
        self.waiting.discard(ticket)
        self.pool.on_left(ticket)

    @rule(name=st.sampled_from("abc"), ok=st.booleans())
    def probe(self, name: str, ok: bool) -> None:
        """A probe ends."""
        self.take(self.pool.on_probed(name, self.now, self.rng, ok=ok))

    @rule(name=st.sampled_from("abc"))
    def fail(self, name: str) -> None:
        """A connection is lost."""
        self.take(self.pool.on_failed(name, self.now))

    @invariant()
    def counts_are_true(self) -> None:
        """What the pool counts is what was granted and not given back; nobody is over the limit."""
        view = self.pool.statistics()
        held = Counter(lease.server for lease in self.leases)
        assert {s.server: s.in_flight for s in view.servers if s.in_flight} == held
        assert all(0 <= s.in_flight <= 2 for s in view.servers)
        assert view.queued == len(self.waiting)

    @invariant()
    def nobody_waits_beside_a_free_place(self) -> None:
        """Somebody waits only while every healthy server is full."""
        view = self.pool.statistics()
        free = [s for s in view.servers if s.health == "healthy" and s.in_flight < 2]
        assert not (view.queued and free)


PoolWorld.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestPoolWorld = PoolWorld.TestCase
