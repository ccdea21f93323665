"""Columns say what the nodes say, and decisions made of them are those of the plain rules."""

from __future__ import annotations

import random
from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from roost.core.ids import NodeId
from roost.fleet.choice.routing import choose, obstacle
from roost.fleet.choice.scoring import Ask
from roost.fleet.field import Candidate, field_of
from roost.fleet.settings import Policy
from tests.fleet.plain_routing import plain_choice

NAMES = [NodeId(name) for name in "abcdefgh"]
CLOSED = ("", "", "", "busy", "suspect", "draining")
SECONDS = st.sampled_from((0.0, 0.001, 0.01, 0.0105, 0.3, 2.0))
POLICIES: tuple[Policy, ...] = get_args(Policy)


@st.composite
def records(draw: st.DrawFn, node: NodeId, *, sure: bool = False) -> Candidate:
    """A node in any state; few different figures, so that many nodes tie."""
    return Candidate(
        node=node,
        closed=draw(st.sampled_from(CLOSED)),
        held=draw(st.integers(0, 2)),
        capacity=3,
        in_flight=draw(st.integers(0, 3)),
        kv_share=draw(st.sampled_from((None, 0.0, 0.5))),
        picked=draw(st.integers(0, 3)),
        salt=draw(st.integers(0, 2**64 - 1)),
        sure=sure or draw(st.booleans()),
        ahead_s=draw(SECONDS),
        prefill_s=draw(SECONDS),
        decode_s=draw(SECONDS),
        ctx=draw(st.sampled_from((0, 100, 1000))),
        token_bytes=draw(st.sampled_from((0, 10))),
    )


@st.composite
def fleets(draw: st.DrawFn) -> list[Candidate]:
    """Up to eight nodes in any order; half of the fleets are known well enough to predict."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    sure = draw(st.booleans())
    return [draw(records(name, sure=sure)) for name in names]


@st.composite
def asks(draw: st.DrawFn) -> Ask:
    """Any wish: with and without a home, tried and resting nodes, long and short."""
    nobody: st.SearchStrategy[frozenset[NodeId]] = st.just(frozenset())
    some = st.one_of(nobody, st.frozensets(st.sampled_from(NAMES), max_size=3))
    return Ask(
        home=draw(st.sampled_from((None, *NAMES))),
        lost=draw(st.sampled_from(("", "", "home_gone"))),
        tried=draw(some),
        resting=draw(some),
        prompt_tokens=draw(st.integers(0, 2000)),
        cached_tokens=draw(st.integers(0, 2000)),
        answer_tokens=draw(st.integers(1, 300)),
        least_tokens=draw(st.sampled_from((0, 0, 90, 200, 5000))),
        prompt_bytes=draw(st.sampled_from((0, 500, 20_000))),
        beginning=draw(st.sampled_from((b"", b"a", b"begins alike"))),
    )


@settings(max_examples=300)
@given(asks(), fleets(), st.sampled_from(POLICIES), st.integers(0, 9))
def test_choices_are_those_of_the_plain_rules(
    ask: Ask, fleet: list[Candidate], policy: Policy, seed: int
) -> None:
    """Same node, same reason, same scores, same runner-up, and the dice fall as often."""
    fast, plain = random.Random(seed), random.Random(seed)
    choice = choose(ask, field_of(fleet), policy, fast)
    expected = plain_choice(ask, fleet, policy, plain)
    assert fast.getstate() == plain.getstate()
    assert (choice is None) == (expected is None)
    if choice is None or expected is None:
        return
    node, placement, why, used, score, second, ranking = expected
    assert (choice.node, choice.placement, choice.why) == (node, placement, why)
    assert (choice.policy, choice.score, choice.runner_up) == (used, score, second)
    assert choice.ranking(len(ranking)) == sorted(ranking)
    assert choice.candidates == len(ranking)
    assert obstacle(choice.chosen, ask) == ""


@given(st.data(), fleets())
def test_new_records_make_the_field_that_would_be_made_anew(
    data: st.DataObject, fleet: list[Candidate]
) -> None:
    """Each node keeps its place, and every column and count follows; the old field stays."""
    before = field_of(fleet)
    newer = [data.draw(records(one.node)) for one in fleet if data.draw(st.booleans())]
    by_node = {one.node: one for one in newer}
    after = before.updated(newer)
    assert after == field_of(by_node.get(one.node, one) for one in fleet)
    assert before == field_of(fleet)
    assert [after.get(one.node) for one in after.candidates] == after.candidates
    free = [one for one in after.candidates if not one.closed]
    assert after.free() == free
    columns = [after.column(one.node) for one in after.candidates]
    assert [column for column in columns if column is not None] == [*range(len(free))]
    assert after.get(NodeId("nobody")) is None
    assert after.column(NodeId("nobody")) is None


def test_filters_leave_the_rest_in_order() -> None:
    """A field of some of its nodes."""
    field = field_of(Candidate(node, in_flight=n) for n, node in enumerate(NAMES))
    odd = field.only(lambda one: one.in_flight % 2 == 1)
    assert [*odd.places] == NAMES[1::2]
    assert odd.streams == [1, 3, 5, 7]
