"""Placement: what a load costs, what it is worth, where it should be, and when nobody is asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.ids import ModelId, NodeId
from roost.fleet.models.placement import (
    HORIZON_S,
    Aim,
    Demand,
    Evicted,
    Site,
    SiteState,
    cheapest,
    count,
    eviction_s,
    price_s,
    to_ask,
    wanted,
)

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
OTHER = ModelId("other")
NOBODY = Demand()
ONE = Aim()
LONG = Demand(waiting=9, waited_s=1.0, eta_s=60.0)
FULL = Demand(full=True)


def cold(node: NodeId, load_s: float = 2.0, *evicts: Evicted, **how: object) -> Site:
    """A node without a runtime; `how` are other fields of `Site`."""
    return Site(node, "cold", load_s, evicts=evicts, **how)  # type: ignore[arg-type]


def ready(node: NodeId) -> Site:
    """A node that runs the model."""
    return Site(node, "ready", 2.0)


def loading(node: NodeId) -> Site:
    """A node that loads it."""
    return Site(node, "loading", 2.0, progress=0.25)


# What it costs.


@pytest.mark.parametrize(
    ("evicted", "cost_s"),
    [
        (Evicted(OTHER, 8.0, 0.0), 8.0),
        (Evicted(OTHER, 8.0, HORIZON_S), 4.0),
        (Evicted(OTHER, 8.0, 3 * HORIZON_S), 2.0),
        (Evicted(OTHER, 8.0, 0.0, others=1), 4.0),
        (Evicted(OTHER, 0.0, 0.0), 0.0),
    ],
)
def test_what_is_lost_is_the_reload_by_the_chance_that_it_is_missed(
    evicted: Evicted, cost_s: float
) -> None:
    """The longer it has been idle, and the more others there are, the less its loss costs."""
    assert eviction_s(evicted) == cost_s


@pytest.mark.parametrize(
    ("site", "price"),
    [
        (ready(A), 0.0),
        (Site(A, "ready", 2.0, ahead_s=0.5), 0.5),
        (loading(A), 1.5),
        (cold(A), 2.0),
        (cold(A, 2.0, Evicted(OTHER, 8.0, HORIZON_S), wait_s=1.0, ahead_s=0.5), 7.5),
        (cold(A, wait_s=None, why="busy"), None),
        (Site(A, "closed", 2.0, why="draining"), None),
    ],
)
def test_a_price_is_everything_that_has_to_pass_first(site: Site, price: float | None) -> None:
    """Wait, load, what is ahead and what is lost, in seconds; unknown where room is."""
    assert price_s(site) == price


def test_a_node_with_room_beats_one_that_would_evict() -> None:
    """With equal loads, what would go decides; what has long been idle counts little."""
    recent, old = Evicted(OTHER, 8.0, 1.0), Evicted(OTHER, 8.0, 10_000.0)
    assert cheapest([cold(A, 2.0, recent), cold(B)]) == {B}
    assert cheapest([cold(A, 2.0, recent), cold(B, 3.0)]) == {B}
    assert cheapest([cold(A, 2.0, old), cold(B, 3.0)]) == {A}
    assert cheapest([cold(A, 2.0, old), cold(B)]) == {A, B}
    assert cheapest([cold(A, wait_s=None), ready(B), loading(C)]) == frozenset()


# How many.


@pytest.mark.parametrize(
    ("aim", "sites", "demand", "expected"),
    [
        (ONE, [cold(A)], NOBODY, 0),
        (ONE, [cold(A)], LONG, 1),
        (ONE, [loading(A), cold(B)], LONG, 1),
        (ONE, [ready(A), cold(B)], NOBODY, 0),
        (ONE, [ready(A), cold(B)], LONG, 2),
        (ONE, [ready(A), cold(B)], Demand(9, 1.0, 1.9), 1),
        (ONE, [ready(A), cold(B)], Demand(9, 2.1), 2),
        (ONE, [ready(A), cold(B, 70.0)], LONG, 1),
        (ONE, [ready(A), cold(B, wait_s=None)], LONG, 1),
        (ONE, [ready(A), loading(B), cold(C)], LONG, 1),
        (ONE, [ready(A), ready(B), cold(C)], LONG, 3),
        (ONE, [ready(A), cold(B)], FULL, 2),
        (ONE, [ready(A), cold(B, 2.0, Evicted(OTHER, 8.0, 9.0))], FULL, 0),
        (ONE, [ready(A), cold(B, wait_s=1.0, why="young")], FULL, 0),
        (ONE, [ready(A), loading(B), cold(C)], FULL, 0),
        (ONE, [cold(A)], FULL, 0),
        (Aim(replicas=0), [ready(A), cold(B)], FULL, 0),
        (Aim(keep=2), [cold(A), cold(B), cold(C)], NOBODY, 2),
        (Aim(keep=2), [ready(A), cold(B)], LONG, 2),
        (Aim(replicas=0), [ready(A), cold(B)], LONG, 1),
    ],
)
def test_more_are_wanted_where_the_line_takes_longer_than_a_load(
    aim: Aim, sites: list[Site], demand: Demand, expected: int
) -> None:
    """One more at a time, and none while a load is under way."""
    assert wanted(aim, sites, demand) == expected


# Whom to ask.


def test_nobody_is_asked_for_what_nobody_wants() -> None:
    """Without a line and without a setting there is nothing to ask for."""
    assert to_ask(ONE, [cold(A)], NOBODY) is None
    assert to_ask(ONE, [loading(A), cold(B)], LONG) is None
    assert to_ask(ONE, [], LONG) is None


def test_the_cheapest_is_asked_and_of_equals_the_least_busy() -> None:
    """The price decides, then the streams there."""
    assert to_ask(ONE, [cold(A, 9.0), cold(B)], LONG) == cold(B)
    busy = cold(A, streams=3)
    assert to_ask(ONE, [busy, cold(B)], LONG) == cold(B)
    assert to_ask(ONE, [ready(C), busy, cold(B)], LONG) == cold(B)


def test_who_does_not_understand_is_not_asked() -> None:
    """An older node loads for requests only."""
    assert to_ask(ONE, [cold(A, hears=False), cold(B, 9.0)], LONG) == cold(B, 9.0)


def test_a_model_that_nobody_runs_is_asked_for_where_all_are_busy() -> None:
    """It needs its turn; a second runtime does not, and what can never fit is not asked for."""
    stuck = cold(A, wait_s=None, why="busy", streams=2)
    large = cold(B, wait_s=None, why="too_large")
    assert to_ask(ONE, [stuck, large], LONG) == stuck
    assert to_ask(ONE, [ready(C), stuck], LONG) is None
    assert to_ask(ONE, [large], LONG) is None
    before = cold(B, wait_s=None, why="busy", streams=9, asked=True)
    assert to_ask(ONE, [stuck, before], LONG) == before


def test_what_is_good_to_have_takes_nobodys_place() -> None:
    """Full runtimes and a short line: where there is room, and nowhere else."""
    evicting = cold(A, 0.1, Evicted(OTHER, 8.0, 1e9))
    short = Demand(1, 0.0, 0.05, full=True)
    assert to_ask(ONE, [ready(C), evicting, cold(B)], FULL) == cold(B)
    assert to_ask(ONE, [ready(C), evicting, cold(B)], short) == cold(B)
    assert to_ask(ONE, [ready(C), evicting], short) is None
    assert to_ask(ONE, [ready(C), evicting, cold(B)], LONG) == evicting


def test_what_is_kept_takes_nobodys_place() -> None:
    """Two models that are kept in room for one would evict each other for ever."""
    evicting = cold(A, 2.0, Evicted(OTHER, 8.0, 1e9))
    young = cold(B, wait_s=1.0, why="young")
    assert to_ask(Aim(keep=1), [evicting, young], NOBODY) is None
    assert to_ask(Aim(keep=1), [evicting, cold(C)], NOBODY) == cold(C)
    assert to_ask(Aim(keep=1), [evicting], LONG) == evicting


STATES: st.SearchStrategy[SiteState] = st.sampled_from(["ready", "loading", "cold", "closed"])
SITES = st.lists(
    st.builds(
        Site,
        node=st.sampled_from([A, B, C]),
        state=STATES,
        load_s=st.floats(0, 100),
        why=st.sampled_from(["", "busy", "young", "too_large"]),
        wait_s=st.one_of(st.none(), st.floats(0, 10)),
        streams=st.integers(0, 5),
    ),
    max_size=3,
    unique_by=lambda site: site.node,
)
DEMANDS = st.builds(
    Demand,
    st.integers(0, 9),
    st.floats(0, 90),
    st.one_of(st.none(), st.floats(0, 90)),
    st.booleans(),
)


@given(sites=SITES, demand=DEMANDS, keep=st.integers(0, 3), replicas=st.integers(0, 3))
def test_whoever_is_asked_is_cold_and_wanted(
    sites: list[Site], demand: Demand, keep: int, replicas: int
) -> None:
    """Whatever the fleet looks like: one node without a runtime, and no more than are wanted."""
    aim = Aim(keep, replicas)
    asked = to_ask(aim, sites, demand)
    have = sum(count(sites))
    assert wanted(aim, sites, demand) <= max(keep, have + 1)
    if asked is not None:
        assert asked.state == "cold"
        assert have < wanted(aim, sites, demand)
        assert demand.waiting or keep > have or (demand.full and not asked.evicts)
