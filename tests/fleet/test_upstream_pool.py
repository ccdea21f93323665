"""The pool of the stateless gateway: choice, counts, health, queue, retries."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from roost.fleet.upstream.effects import (
    Forgotten,
    Granted,
    HealthChanged,
    Lease,
    PoolEffect,
    Queued,
    Refused,
    StallChanged,
)
from roost.fleet.upstream.pool import PoolSettings, UpstreamPool

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
    assert pool.on_failed("a", 1.0, RNG) == [HealthChanged("a", healthy=False)]
    assert pool.on_failed("a", 1.1, RNG) == []
    assert pool.statistics().servers[0].in_flight == 1
    assert reason(pool.on_request(2, 1.2, RNG)) == "no_nodes"
    pool.on_released(lease, 2.0, RNG, served=False)
    assert pool.statistics().servers[0].in_flight == 0


def test_probe_that_began_before_the_failure_proves_nothing() -> None:
    """An old good answer does not bring a server back that has failed since."""
    pool = pool_of("a")
    pool.on_failed("a", 10.0, RNG)
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
        assert pool.on_answer("a", status, 1.0, RNG) == []
    assert pool.on_answer("a", 500, 2.0, RNG) == []
    assert pool.on_answer("a", 500, 2.0, RNG) == []
    assert pool.on_answer("a", 504, 2.0, RNG) == [HealthChanged("a", healthy=False)]
    pool.on_probed("a", 3.0, RNG, ok=True)
    assert pool.on_answer("a", 500, 4.0, RNG) == []


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
    change, refused = pool.on_failed("a", 11.0, RNG)
    assert (change, reason(refused)) == (HealthChanged("a", healthy=False), "no_nodes")
    assert pool.statistics().queued == 0


def test_recovered_server_serves_who_waits() -> None:
    """A server that comes back takes from the queue."""
    pool = pool_of("a", "b", max_in_flight=1, queue_length=5)
    pool.on_failed("b", 1.0, RNG)
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
    pool.on_failed("a", 1.0, RNG)
    pool.on_failed("b", 1.0, RNG)
    assert pool.on_glance(RNG) is None
    assert pool.unavailable().retry_after_s == 2


def models_pool(**lists: tuple[str, ...] | None) -> UpstreamPool:
    """Build a healthy pool of servers with these lists, one place each and five who may wait."""
    pool = pool_of(*lists, max_in_flight=1, queue_length=5)
    for name, models in lists.items():
        pool.on_models(name, models, RNG)
    return pool


def test_a_model_goes_where_it_is_listed_or_might_be() -> None:
    """Servers that list it or tell nothing may get it; the one that lists others may not."""
    pool = models_pool(a=("m",), b=("n",), c=None)
    assert pool.picky
    assert {granted(pool.on_request(i, 0.0, RNG, "m")).server for i in (1, 2)} == {"a", "c"}
    assert pool.on_request(3, 0.0, RNG, "m") == Queued(3)
    assert granted(pool.on_request(4, 0.0, RNG, "n")).server == "b"


@pytest.mark.parametrize("model", ["nobody's", None])
def test_what_nobody_lists_goes_anywhere(model: str | None) -> None:
    """A front knows less than its servers: it passes on what it cannot place."""
    pool = models_pool(a=("m",), b=("n",))
    assert {granted(pool.on_request(i, 0.0, RNG, model)).server for i in (1, 2)} == {"a", "b"}


def test_equal_lists_make_no_difference() -> None:
    """Only where lists differ does anybody have to look into a body."""
    assert not models_pool(a=("m",), b=("m",)).picky
    assert not models_pool(a=("m",), b=None).picky
    assert not models_pool(a=("m",)).picky
    assert models_pool(a=("m", "n"), b=("m",)).picky


def test_full_and_gone_are_told_apart_by_model() -> None:
    """Full servers of a model are a 429, none healthy of them a 503, whatever others do."""
    pool = pool_of("a", "b", max_in_flight=1)
    pool.on_models("a", ("m",), RNG)
    pool.on_models("b", ("n",), RNG)
    granted(pool.on_request(1, 0.0, RNG, "m"))
    assert reason(pool.on_request(2, 0.0, RNG, "m")) == "queue_full"
    pool.on_failed("a", 1.0, RNG)
    refused = pool.on_request(3, 1.0, RNG, "m")
    assert reason(refused) == "no_nodes"
    assert isinstance(refused, Refused)
    assert "this model" in refused.failure.message
    assert pool.on_retry(3, frozenset(), 1.0, RNG, "m") is None
    assert (pool.on_glance(RNG, "m"), pool.on_glance(RNG, "n")) == (None, "b")


def test_who_waits_for_another_model_blocks_nobody() -> None:
    """A free place goes to the first who can use it; the others keep their order."""
    pool = models_pool(a=("m",), b=("n",))
    first = granted(pool.on_request(1, 0.0, RNG, "m"))
    other = granted(pool.on_request(2, 0.0, RNG, "n"))
    for ticket, model in ((3, "m"), (4, "n"), (5, "m"), (6, "n")):
        assert pool.on_request(ticket, 0.0, RNG, model) == Queued(ticket)
    (effect,) = pool.on_released(other, 1.0, RNG, served=True)
    assert isinstance(effect, Granted)
    assert effect.ticket == 4
    change, *refused = pool.on_failed("b", 2.0, RNG)
    assert (change, len(refused)) == (HealthChanged("b", healthy=False), 1)
    (effect,) = pool.on_released(first, 3.0, RNG, served=True)
    assert isinstance(effect, Granted)
    assert effect.ticket == 3
    assert pool.statistics().queued == 1


def test_a_list_that_grows_frees_who_waits() -> None:
    """A server that turns out to have the model takes from the queue at once."""
    pool = models_pool(a=("m",), b=("n",))
    granted(pool.on_request(1, 0.0, RNG, "m"))
    pool.on_request(2, 0.0, RNG, "m")
    (effect,) = pool.on_models("b", ("m", "n"), RNG)
    assert granted(effect).server == "b"
    assert pool.on_models("b", ("m", "n"), RNG) == []


def test_a_parked_server_gets_nothing_through_every_change_of_health() -> None:
    """What runs there ends; only the operator's word gives it work again."""
    pool = pool_of("a", "b", max_in_flight=1, queue_length=5)
    assert pool.on_parked("a", RNG, parked=True) == []
    assert granted(pool.on_request(1, 0.0, RNG)).server == "b"
    pool.on_failed("a", 1.0, RNG)
    assert pool.on_probed("a", 2.0, RNG, ok=True) == [HealthChanged("a", healthy=True)]
    assert pool.on_request(2, 2.0, RNG) == Queued(2)
    assert pool.statistics().servers[0].drained
    (effect,) = pool.on_parked("a", RNG, parked=False)
    assert granted(effect).server == "a"
    assert pool.on_request(3, 2.0, RNG) == Queued(3)
    assert pool.on_parked("a", RNG, parked=True) == []
    (refused,) = pool.on_parked("b", RNG, parked=True)
    assert reason(refused) == "no_nodes"
    assert not pool.ready


def test_the_list_of_servers_changes() -> None:
    """New ones prove themselves first; missing ones end what they have and are forgotten."""
    pool = pool_of("a", "b", max_in_flight=1)
    leases = [granted(pool.on_request(i, 0.0, RNG)) for i in (1, 2)]
    lease = next(one for one in leases if one.server == "a")
    assert pool.on_servers(["b", "c"], RNG) == []
    assert [(s.server, s.drained) for s in pool.statistics().servers] == [
        ("a", True),
        ("b", False),
        ("c", False),
    ]
    assert reason(pool.on_request(3, 0.0, RNG)) == "queue_full"
    pool.on_probed("c", 1.0, RNG, ok=True)
    assert granted(pool.on_request(4, 1.0, RNG)).server == "c"
    assert pool.on_released(lease, 2.0, RNG, served=True) == [Forgotten("a")]
    assert [s.server for s in pool.statistics().servers] == ["b", "c"]
    assert pool.on_servers(["b", "c", "d"], RNG) == []
    assert pool.on_servers(["b", "c"], RNG) == [Forgotten("d")]
    with pytest.raises(ValueError, match="name of its own"):
        pool.on_servers([], RNG)


def test_a_server_that_returns_to_the_list_in_time_stays() -> None:
    """Taken off and put back while it is busy, it goes on as if nothing had been."""
    pool = pool_of("a", "b", max_in_flight=1)
    leases = [granted(pool.on_request(i, 0.0, RNG)) for i in (1, 2)]
    pool.on_servers(["b"], RNG)
    pool.on_servers(["a", "b"], RNG)
    for lease in leases:
        assert pool.on_released(lease, 1.0, RNG, served=True) == []
    assert [s.drained for s in pool.statistics().servers] == [False, False]


def test_another_server_under_the_name_starts_anew() -> None:
    """Its health and its list are unknown again; what the old one has still counts."""
    pool = models_pool(a=("m",), b=("n",))
    lease = granted(pool.on_request(1, 0.0, RNG, "m"))
    assert pool.on_replaced("a", RNG) == [HealthChanged("a", healthy=False)]
    assert pool.on_replaced("a", RNG) == []
    view = pool.statistics().servers[0]
    assert (view.health, view.models, view.in_flight) == ("unknown", None, 1)
    assert pool.on_released(lease, 1.0, RNG, served=True) == []


def test_a_server_whose_answers_all_stand_still_gets_no_more() -> None:
    """Longer than `stall_s` is a stall until one moves; it counts as full, not as ill."""
    pool = pool_of("a", "b", max_in_flight=1, queue_length=5, stall_s=30.0)
    one, two = (granted(pool.on_request(ticket, 0.0, RNG)) for ticket in (1, 2))
    pool.on_released(one, 1.0, RNG, served=False)
    assert pool.on_silence(one.server, 30.0, RNG) == []
    assert pool.on_silence(one.server, 30.1, RNG) == [StallChanged(one.server, stalled=True)]
    assert pool.on_silence(one.server, 30.2, RNG) == []
    assert pool.on_request(3, 31.0, RNG) == Queued(3), "the other one works, and is full"
    assert [s.stalled for s in pool.statistics().servers if s.server == one.server] == [True]
    change, effect = pool.on_silence(one.server, 0.1, RNG)
    assert change == StallChanged(one.server, stalled=False)
    assert granted(effect).server == one.server
    pool.on_silence(two.server, 31.0, RNG)
    pool.on_released(two, 40.0, RNG, served=True)
    assert pool.on_request(4, 41.0, RNG) == Queued(4), "a place of one that stands still is none"


def test_where_all_stand_still_none_is_spared() -> None:
    """A lone server that is slow to begin, and not known to be so yet, is used to its limit."""
    pool = pool_of("a", max_in_flight=2, stall_s=30.0)
    granted(pool.on_request(1, 0.0, RNG))
    assert pool.on_silence("a", 31.0, RNG) == [StallChanged("a", stalled=True)]
    assert granted(pool.on_request(2, 31.0, RNG)).server == "a"
    assert reason(pool.on_request(3, 31.0, RNG)) == "queue_full"


@pytest.mark.parametrize(
    "last",
    [
        lambda pool: pool.on_silence("b", 31.0, RNG),
        lambda pool: pool.on_failed("b", 31.0, RNG),
        lambda pool: pool.on_probed("b", 31.0, RNG, ok=False),
        lambda pool: pool.on_parked("b", RNG, parked=True),
        lambda pool: pool.on_servers(["a"], RNG),
    ],
    ids=["stands still", "fails", "fails its probe", "is drained", "is off the list"],
)
def test_whoever_waits_gets_a_place_when_all_stand_still(
    last: Callable[[UpstreamPool], list[PoolEffect]],
) -> None:
    """The last one that moved stops, or falls ill: places of those that stand still count again."""
    pool = pool_of("a", "b", max_in_flight=1, queue_length=1, stall_s=30.0)
    pool.on_silence("a", 31.0, RNG)
    assert granted(pool.on_request(1, 0.0, RNG)).server == "b"
    assert pool.on_request(2, 0.0, RNG) == Queued(2)
    assert granted(last(pool)[-1]).server == "a"


def test_a_slow_server_is_given_its_own_time() -> None:
    """Four times its longest usual silence; what it once was fades."""
    pool = pool_of("a", stall_s=30.0)
    pool.on_gap("a", 20.0)
    assert pool.on_silence("a", 80.0, RNG) == []
    assert pool.on_silence("a", 80.1, RNG) == [StallChanged("a", stalled=True)]
    assert pool.on_silence("a", None, RNG) == [StallChanged("a", stalled=False)]
    for _ in range(50):
        pool.on_gap("a", 0.1)
    assert pool.on_silence("a", 31.0, RNG) == [StallChanged("a", stalled=True)]
    pool.on_failed("a", 5.0, RNG)
    assert pool.on_silence("a", 40.0, RNG) == [StallChanged("a", stalled=False)]
