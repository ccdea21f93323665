"""Shares: nobody who waits falls behind by more than a request, and memory stays small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from roost.fleet.line.shares import Shares


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 500)), min_size=1, max_size=300),
    st.tuples(*[st.sampled_from([0.5, 1.0, 2.0]) for _ in range(4)]),
)
def test_served_by_lowest_tag_stays_within_one_request_of_each(
    costs: list[tuple[int, int]], weights: tuple[float, ...]
) -> None:
    """All flows wait all the time: by weight, no two differ by more than a largest request each."""
    shares: Shares[int] = Shares()
    own = {flow: [cost for f, cost in costs if f == flow] or [1] for flow in range(4)}
    had = dict.fromkeys(range(4), 0.0)
    for turn in range(200):
        flow = min(range(4), key=shares.tag)
        cost = own[flow][turn % len(own[flow])]
        shares.serve(flow, cost, weights[flow])
        had[flow] += cost / weights[flow]
        for one in range(4):
            for other in range(one):
                bound = max(own[one]) / weights[one] + max(own[other]) / weights[other]
                assert abs(had[one] - had[other]) <= bound + 1e-6


def test_an_idle_flow_saves_nothing_up() -> None:
    """Who comes after a long silence is next, but not for long."""
    shares: Shares[str] = Shares()
    for _ in range(100):
        shares.serve("busy", 10, 1.0)
    shares.arrive("new")
    assert shares.tag("new") == 990.0
    shares.serve("new", 10, 1.0)
    shares.serve("new", 10, 1.0)
    assert shares.tag("new") > shares.tag("busy")


def test_a_correction_counts_later() -> None:
    """What turned out larger than thought is paid for by what comes next."""
    shares: Shares[str] = Shares()
    shares.serve("a", 10, 2.0)
    shares.correct("a", 30, 2.0)
    assert shares.tag("a") == 20.0


def test_memory_is_for_those_ahead_of_the_clock() -> None:
    """Ten thousand tenants that come once leave little behind."""
    shares: Shares[int] = Shares()
    for flow in range(10_000):
        shares.serve(flow, 1, 1.0)
        shares.serve(-1, 5, 1.0)
        shares.tidy({3})
    assert len(shares) <= 128


def test_who_waits_keeps_its_place_while_others_are_served() -> None:
    """The clock moves on past somebody whose model is full; that is no loss to them."""
    shares: Shares[str] = Shares()
    shares.serve("other", 10, 1.0)
    shares.arrive("waits")
    before = shares.tag("waits")
    for _ in range(100):
        shares.serve("other", 10, 1.0)
        shares.tidy({"waits"})
    assert shares.tag("waits") == before
