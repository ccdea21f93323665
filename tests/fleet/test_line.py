"""The line: shares, classes, deadlines, conversations, who gives way, positions told once."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.ids import ModelId, RequestId, TenantId
from roost.core.request import CLASSES, ServiceClass
from roost.fleet.line.line import Entry, Line


def entry(name: str, tenant: str = "t", cost: float = 10.0, **rest: object) -> Entry:
    """One waiting request."""
    return Entry(
        RequestId(name),
        ModelId("m"),
        TenantId(tenant),
        cost=cost,
        **rest,  # type: ignore[arg-type]
    )


def line(*entries: Entry) -> Line:
    """A line of these."""
    waiting = Line()
    for one in entries:
        waiting.append(one)
    return waiting


def names(waiting: Line) -> list[str]:
    """Who waits, in order."""
    return [one.request for one in waiting.entries()]


def served(waiting: Line, count: int) -> list[str]:
    """Serve so many, first come first."""
    order = []
    for _ in range(count):
        first = waiting.entries()[0]
        waiting.served(first.request)
        order.append(str(first.request))
    return order


def test_one_tenant_is_first_come_first_served() -> None:
    """Arrivals go to the end, those who come back to the front."""
    waiting = line(entry("a"), entry("b"))
    waiting.push_front(entry("c"))
    waiting.push_front(entry("d"))
    assert names(waiting) == ["d", "c", "a", "b"]
    assert waiting.by_model() == {"m": 4}


def test_a_flood_waits_behind_itself() -> None:
    """Whoever comes with one request stands behind one of the flood's, not behind all."""
    waiting = line(*(entry(f"f{n}", "flood") for n in range(10)), entry("x", "other"))
    assert names(waiting)[:3] == ["f0", "x", "f1"]


def test_cost_and_weight_make_the_share() -> None:
    """A tenant of twice the weight gets twice the tokens, whatever the sizes of its requests."""
    waiting = line(
        *(entry(f"a{n}", "a", cost=40, weight=2.0) for n in range(40)),
        *(entry(f"b{n}", "b", cost=10, weight=1.0) for n in range(40)),
    )
    got = Counter(name[0] for name in served(waiting, 30))
    assert got["a"] * 40 == pytest.approx(2 * got["b"] * 10, rel=0.2)


def test_classes_come_in_order_but_nobody_starves() -> None:
    """Better classes first; a class that waits gets one place in eight."""
    classes: dict[str, ServiceClass] = {"i": "interactive", "g": "agent", "b": "bulk"}
    waiting = line(
        *(entry(f"{key}{n}", class_=class_) for key, class_ in classes.items() for n in range(40))
    )
    order = served(waiting, 40)
    assert "".join(name[0] for name in order[:7]) == "iiiiiii"
    for begin in range(32):
        assert {name[0] for name in order[begin : begin + 9]} == {"i", "g", "b"}


def test_deadlines_first_inside_a_tenant() -> None:
    """The earliest deadline goes first, but not before another tenant's turn."""
    waiting = line(
        entry("late", "a", deadline_s=90.0), entry("soon", "a", deadline_s=5.0), entry("b", "b")
    )
    assert names(waiting) == ["soon", "b", "late"]
    assert entry("x").deadline_s == math.inf


def test_conversations_share_an_address() -> None:
    """Without keys one address is one tenant, and inside it no conversation blocks another."""
    waiting = line(
        *(entry(f"a{n}", "addr:1", talk=b"a") for n in range(3)), entry("b0", "addr:1", talk=b"b")
    )
    assert names(waiting) == ["a0", "b0", "a1", "a2"]


def test_surplus_is_the_heaviest_tenants_newest() -> None:
    """One too many: the flood gives way to a newcomer, and a newcomer to its equals."""
    waiting = line(*(entry(f"f{n}", "flood") for n in range(3)), entry("x", "other"))
    assert waiting.surplus(RequestId("x")) == "f2"
    waiting.append(entry("f3", "flood"))
    assert waiting.surplus(RequestId("f3")) == "f3"


def test_removed_once() -> None:
    """Leaving twice is no error and changes nothing."""
    waiting = line(entry("a"), entry("b"))
    assert RequestId("a") in waiting
    assert waiting.remove(RequestId("a"))
    assert not waiting.remove(RequestId("a"))
    assert len(waiting) == 1
    with pytest.raises(AssertionError, match="waits once"):
        waiting.append(entry("b"))


def test_waits_for_counts_those_who_have_not_run_yet() -> None:
    """Who comes back says nothing about room for others."""
    waiting = Line()
    waiting.push_front(entry("back"))
    assert not waiting.waits_for(ModelId("m"))
    waiting.append(entry("new"))
    assert waiting.waits_for(ModelId("m"))
    waiting.remove(RequestId("new"))
    assert not waiting.waits_for(ModelId("m"))


def test_news_are_told_once() -> None:
    """Only changes of place or length are news."""
    waiting = line(entry("a"), entry("b"))
    told = waiting.tell(RequestId("b"))
    assert (told.position, told.length, told.ahead) == (2, 2, 1)
    assert [(one.request, one.position) for one in waiting.news()] == [("a", 1)]
    assert waiting.news() == []
    waiting.remove(RequestId("a"))
    assert [(one.request, one.position, one.length) for one in waiting.news()] == [("b", 1, 1)]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 100)), min_size=9, max_size=90))
def test_shares_stay_within_the_bound_while_all_wait(sizes: list[tuple[int, int]]) -> None:
    """As long as two tenants both wait, they differ by at most a largest request of each."""
    waiting = line(*(entry(f"{n}", f"t{who}", cost) for n, (who, cost) in enumerate(sizes)))
    had: dict[str, float] = {f"t{who}": 0.0 for who in range(3)}
    largest = {f"t{who}": max([c for w, c in sizes if w == who], default=0) for who in range(3)}
    while len(waiting):
        tenants = {one.tenant for one in waiting.entries()}
        first = waiting.entries()[0]
        waiting.served(first.request)
        had[first.tenant] += first.cost
        for one in tenants:
            for other in tenants:
                assert had[one] - had[other] <= largest[one] + largest[other] + 1e-6


STEPS = st.lists(
    st.tuples(
        st.sampled_from(("append", "remove", "served", "push_front", "correct", "turned away")),
        st.integers(0, 2),
        st.integers(1, 100),
        st.sampled_from(CLASSES),
    ),
    max_size=40,
)


def take(waiting: Line, number: int, step: tuple[str, int, int, ServiceClass]) -> None:
    """Let one thing happen to a line."""
    what, who, size, class_ = step
    one = entry(f"r{number}", f"t{who}", float(size), class_=class_, deadline_s=float(size % 7))
    other = RequestId(f"r{size % (number + 1)}")
    match what:
        case "append":
            waiting.append(one)
        case "push_front":
            waiting.push_front(one)
        case "turned away":
            waiting.append(one)
            waiting.remove(one.request)
        case "remove":
            waiting.remove(other)
        case "served":
            waiting.served(other)
        case _:
            waiting.correct(one.tenant, float(size), 1.0)


@given(STEPS)
def test_the_order_is_the_same_whenever_it_is_looked_at(
    steps: list[tuple[str, int, int, ServiceClass]],
) -> None:
    """What is kept of an order for those who are turned away is what would be made anew."""
    seen, unseen = Line(), Line()
    for number, step in enumerate(steps):
        take(seen, number, step)
        take(unseen, number, step)
        names(seen)
    assert names(seen) == names(unseen)
