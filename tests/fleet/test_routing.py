"""Filters, scorers and the picker."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
import pytest

from roost.core.ids import NodeId
from roost.fleet.routing import (
    Ask,
    Candidate,
    Choice,
    choose,
    hopeful,
    obstacle,
    score_inflight,
    score_random,
    score_weighted,
)
from roost.fleet.settings import Policy

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
FREE = Candidate(A, "alive", usable=True, draining=False, held=0, capacity=4, in_flight=0)


def candidate(node: NodeId = A, **changes: object) -> Candidate:
    """A free candidate with these changes."""
    return msgspec.structs.replace(FREE, node=node, **changes)


@pytest.mark.parametrize(
    ("one", "tried", "expected"),
    [
        (FREE, set(), ""),
        (FREE, {A}, "tried"),
        (candidate(usable=False), set(), "unusable"),
        (candidate(state="suspect"), set(), "suspect"),
        (candidate(state="stale"), set(), "suspect"),
        (candidate(draining=True), set(), "draining"),
        (candidate(held=4), set(), "busy"),
        (candidate(backing_off=True), set(), "busy"),
        (candidate(capacity=0), set(), "busy"),
    ],
)
def test_obstacles(one: Candidate, tried: set[NodeId], expected: str) -> None:
    """Each filter rules out for a reason that can be told."""
    assert obstacle(one, tried) == expected


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([], False),
        ([FREE], True),
        ([candidate(held=4)], True),
        ([candidate(state="suspect")], True),
        ([candidate(draining=True)], False),
        ([candidate(usable=False)], False),
        ([candidate(B), candidate(draining=True)], True),
    ],
)
def test_hope(candidates: list[Candidate], expected: bool) -> None:
    """Waiting helps against silence and fullness, not against failure and leaving."""
    assert hopeful(candidates, set()) is expected
    assert hopeful(candidates, {A, B}) is False


@pytest.mark.parametrize(
    ("ask", "candidates", "expected"),
    [
        (Ask(), [FREE], Choice(A, "cold", "no_home")),
        (Ask(), [candidate(held=4)], None),
        (Ask(home=A), [candidate(in_flight=3), candidate(B)], Choice(A, "warm", "home")),
        (Ask(home=A), [candidate(held=4), candidate(B)], Choice(B, "moved", "home_busy")),
        (Ask(home=A), [candidate(held=4), candidate(B, held=4)], None),
        (
            Ask(home=A),
            [candidate(state="suspect"), candidate(B)],
            Choice(B, "moved", "home_suspect"),
        ),
        (Ask(home=C), [candidate(B)], Choice(B, "moved", "home_unusable")),
        (Ask(lost="home_gone"), [candidate(B)], Choice(B, "lost", "home_gone")),
        (
            Ask(home=A, tried=frozenset({A})),
            [FREE, candidate(B)],
            Choice(B, "moved", "home_tried"),
        ),
    ],
)
def test_choice(ask: Ask, candidates: list[Candidate], expected: Choice | None) -> None:
    """Home first, somebody free second, waiting last."""
    assert choose(ask, candidates, "least_inflight", random.Random(1)) == expected


@pytest.mark.parametrize(
    ("policy", "winner"),
    [("least_inflight", B), ("weighted", A)],
)
def test_policies_differ(policy: Policy, winner: NodeId) -> None:
    """Fewest streams is not the same as most room."""
    big = candidate(A, held=4, capacity=16, in_flight=4, kv_share=0.1)
    small = candidate(B, held=3, capacity=4, in_flight=3, kv_share=0.9)
    choice = choose(Ask(), [big, small], policy, random.Random(1))
    assert choice is not None
    assert choice.node == winner


def test_scores() -> None:
    """Lower is better; unknown KV counts like the used places."""
    assert score_inflight(candidate(in_flight=3)) == 3
    assert score_weighted(candidate(held=2, kv_share=0.25)) == pytest.approx(0.4)
    assert score_weighted(candidate(held=2)) == pytest.approx(0.5)
    assert score_random(FREE) == score_random(candidate(in_flight=9))


@pytest.mark.parametrize("policy", ["least_inflight", "weighted", "random"])
def test_ties_are_even(policy: Policy) -> None:
    """Over many first requests every idle node gets its share."""
    dice = random.Random(1)
    idle = [candidate(node) for node in (A, B, C)]
    wins: Counter[NodeId] = Counter()
    for _ in range(900):
        choice = choose(Ask(), idle, policy, dice)
        assert choice is not None
        wins[choice.node] += 1
    assert all(240 <= count <= 360 for count in wins.values())
