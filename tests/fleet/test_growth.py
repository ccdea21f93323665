"""Conversations whose KV grows far beyond that of all others, by what nodes report."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.snapshots import RuntimeView, SlotView
from roost.fleet.watching.growth import RISES_MIN, TOKENS_MIN, Grown, Growth
from roost.fleet.watching.hints import Hints
from roost.fleet.watching.views import NodeView

M = ModelId("m")
CTX = 8192


def node(*tokens: int, runtime: str = "m#1", name: str = "a") -> NodeView:
    """A node whose slots hold so much."""
    slots = tuple(SlotView(slot, busy=True, tokens=held) for slot, held in enumerate(tokens))
    view = RuntimeView(M, "toy", "ready", RuntimeId(runtime), slots, CTX)
    return NodeView(NodeId(name), name, "alive", 0, draining=False, runtimes=(view,), reported=True)


def looks(growth: Growth, at: Callable[[int], NodeView], seconds: range) -> tuple[Grown, ...]:
    """Look once a second; give what the last look found."""
    found: tuple[Grown, ...] = ()
    for second in seconds:
        found = growth.on_look([at(second)], float(second))
    return found


def runaway(second: int) -> NodeView:
    """The first of four generates forty tokens a second, and the others hold a few hundred."""
    return node(min(CTX, 4000 + 40 * second), 300, 500, 400)


def test_a_conversation_that_grows_beyond_all_others_is_odd_until_it_ends() -> None:
    """With the slot, its size, what is usual, its pace, and when it will be full."""
    growth = Growth()
    assert looks(growth, runaway, range(RISES_MIN)) == ()
    (one,) = looks(growth, runaway, range(RISES_MIN, RISES_MIN + 1))
    assert (one.node, one.model, one.slot, one.tokens, one.usual) == ("a", "m", 0, 4800, 400)
    assert one.per_s == pytest.approx(40)
    assert one.full_in_s == pytest.approx((CTX - 4800) / 40)
    assert looks(growth, lambda _: node(0, 300, 500, 400), range(21, 22)) == ()


def test_a_long_prompt_is_none() -> None:
    """It is there at once and stays as it is, however much larger than the others it is."""
    growth = Growth()

    def prompt(second: int) -> NodeView:
        return node(0 if second < 5 else 7000 + min(second, 15), 300, 500, 400)

    assert not any(looks(growth, prompt, range(n, n + 1)) for n in range(120))


def test_many_that_grow_alike_are_none() -> None:
    """A fleet of long conversations is what it is."""
    growth = Growth()
    assert looks(growth, lambda n: node(*[4000 + 40 * n] * 4), range(60)) == ()


def test_who_is_alone_is_compared_with_nobody() -> None:
    """Three others have to hold something, on whichever node."""
    growth = Growth()
    assert looks(growth, lambda n: node(4000 + 40 * n, 300, 500, 0), range(60)) == ()
    found: tuple[Grown, ...] = ()
    for second in range(60, 90):
        far = node(250, name="b")
        found = growth.on_look([node(4000 + 40 * second, 300, 500, 0), far], float(second))
    assert [one.node for one in found] == ["a"]


def test_a_small_one_is_none_however_fast_it_grows() -> None:
    """Below two thousand tokens, or half of its context, nothing is at stake."""
    growth = Growth()
    most = max(TOKENS_MIN, CTX // 2) - 1
    assert looks(growth, lambda n: node(min(most, 40 * n), 30, 50, 40), range(100)) == ()


def test_another_runtimes_slots_are_others() -> None:
    """Numbers begin anew when a runtime does."""
    growth = Growth()
    looks(growth, runaway, range(RISES_MIN))
    again = node(4800, 300, 500, 400, runtime="m#2")
    assert growth.on_look([again], float(RISES_MIN)) == ()


def test_looking_more_often_finds_nothing_sooner() -> None:
    """A page that asks ten times a second makes nobody odd."""
    growth = Growth()
    found = [growth.on_look([runaway(n)], n / 10) for n in range(150)]
    assert found[-1] == ()
    assert not any(found)


def test_it_is_a_hint_of_the_fleet_that_begins_and_ends() -> None:
    """In words, told once at each end."""
    hints, news = Hints(), []
    for second in range(30):
        news += hints.on_look([runaway(second)], float(second), 1000 * second)
    news += hints.on_look([node(10, 300, 500, 400)], 30.0, 30_000)
    assert [(change.hint.kind, change.begins) for change in news] == [
        ("kv_growth", True),
        ("kv_growth", False),
    ]
    assert news[0].hint.text == (
        "slot 0 holds 4800 tokens, 12 times what others do, "
        "grows by 40 a second and is full in 85 s"
    )


HELD = st.lists(st.integers(0, CTX), min_size=1, max_size=6)


@given(st.lists(HELD, max_size=80))
def test_whatever_is_reported_it_is_judged_by_what_is_there(reports: list[list[int]]) -> None:
    """Slots that come and go break nothing, and what is odd is large and there."""
    growth = Growth()
    for second, held in enumerate(reports):
        for one in growth.on_look([node(*held)], float(second)):
            assert held[one.slot] == one.tokens >= CTX // 2
            assert one.full_in_s >= 0
