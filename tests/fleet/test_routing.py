"""Filters, the picker, and what a choice says about itself."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
import pytest

from roost.core.ids import NodeId
from roost.fleet.choice.routing import Choice, choose, hopeful, obstacle, only_too_long
from roost.fleet.choice.scoring import SCORERS, Ask
from roost.fleet.field import Candidate, field_of
from roost.fleet.settings import Policy

A, B, C = NodeId("a"), NodeId("b"), NodeId("c")
FREE = Candidate(A, capacity=4)
SURE = Candidate(A, capacity=4, sure=True, prefill_s=0.01, decode_s=0.1)


def candidate(node: NodeId = A, base: Candidate = FREE, **changes: object) -> Candidate:
    """A free candidate with these changes."""
    return msgspec.structs.replace(base, node=node, **changes)


def chosen(ask: Ask, candidates: list[Candidate], policy: Policy, seed: int = 1) -> Choice:
    """The choice, where there has to be one."""
    choice = choose(ask, field_of(candidates), policy, random.Random(seed))
    assert choice is not None
    return choice


@pytest.mark.parametrize(
    ("one", "ask", "expected"),
    [
        (FREE, Ask(), ""),
        (FREE, Ask(tried=frozenset({A})), "tried"),
        (candidate(closed="draining"), Ask(), "draining"),
        (candidate(ctx=100), Ask(least_tokens=99), ""),
        (candidate(ctx=100), Ask(least_tokens=100), "too_long"),
        (candidate(ctx=100, token_bytes=10), Ask(prompt_bytes=990), ""),
        (candidate(ctx=100, token_bytes=10), Ask(prompt_bytes=991), "too_long"),
        (candidate(ctx=100), Ask(prompt_bytes=10**6, prompt_tokens=10**5), ""),
    ],
)
def test_obstacles(one: Candidate, ask: Ask, expected: str) -> None:
    """Each filter rules out for a reason that can be told; an estimate rules out nobody."""
    assert obstacle(one, ask) == expected


@pytest.mark.parametrize(
    ("candidates", "expected"),
    [
        ([], False),
        ([FREE], True),
        ([candidate(closed="busy")], True),
        ([candidate(closed="suspect")], True),
        ([candidate(closed="broken")], True),
        ([candidate(closed="draining")], False),
        ([candidate(closed="unusable")], False),
        ([candidate(B), candidate(closed="draining")], True),
    ],
)
def test_hope(candidates: list[Candidate], expected: bool) -> None:
    """Waiting helps against silence, fullness and a tripped breaker, not against leaving."""
    assert hopeful(field_of(candidates), Ask()) is expected
    assert hopeful(field_of(candidates), Ask(tried=frozenset({A, B}))) is False


def test_too_long_for_all() -> None:
    """Only if the length is everybody's reason is it the client's fault."""
    ask = Ask(least_tokens=200)
    assert only_too_long(field_of([candidate(ctx=100)]), ask)
    both = [candidate(ctx=100), candidate(B, ctx=300, closed="busy")]
    assert not only_too_long(field_of(both), ask)
    assert not only_too_long(field_of([]), ask)


@pytest.mark.parametrize(
    ("ask", "candidates", "expected"),
    [
        (Ask(), [FREE], (A, "cold", "no_home")),
        (Ask(), [candidate(closed="busy")], None),
        (Ask(home=A), [candidate(in_flight=3), candidate(B)], (A, "warm", "home")),
        (Ask(home=A), [candidate(closed="busy"), candidate(B)], (B, "moved", "home_busy")),
        (Ask(home=A), [candidate(closed="busy"), candidate(B, closed="busy")], None),
        (Ask(home=A), [candidate(closed="suspect"), candidate(B)], (B, "moved", "home_suspect")),
        (Ask(home=C), [candidate(B)], (B, "moved", "home_unusable")),
        (Ask(lost="home_gone"), [candidate(B)], (B, "lost", "home_gone")),
        (Ask(home=A, tried=frozenset({A})), [FREE, candidate(B)], (B, "moved", "home_tried")),
    ],
)
def test_choice(
    ask: Ask, candidates: list[Candidate], expected: tuple[NodeId, str, str] | None
) -> None:
    """Home first, somebody free second, waiting last."""
    choice = choose(ask, field_of(candidates), "least_inflight", random.Random(1))
    found = None if choice is None else (choice.node, choice.placement, choice.why)
    assert found == expected


@pytest.mark.parametrize(
    ("policy", "winner"),
    [("least_inflight", B), ("weighted", A), ("power_of_two", B), ("round_robin", A)],
)
def test_policies_differ(policy: Policy, winner: NodeId) -> None:
    """Fewest streams is not the same as most room, nor as longest unchosen."""
    big = candidate(A, held=4, capacity=16, in_flight=4, kv_share=0.1, picked=3)
    small = candidate(B, held=3, capacity=4, in_flight=3, kv_share=0.9, picked=7)
    choice = chosen(Ask(), [big, small], policy)
    assert choice.node == winner
    assert choice.runner_up == (A if winner == B else B)
    assert choice.policy == policy


def test_power_of_two_never_takes_the_worst() -> None:
    """Of any two the busier one loses, so the busiest of all never wins."""
    nodes = [candidate(node, in_flight=n) for n, node in enumerate((A, B, C))]
    wins = {chosen(Ask(), nodes, "power_of_two", seed).node for seed in range(40)}
    assert wins == {A, B}


def test_predicted_weighs_the_cache_against_the_queue() -> None:
    """The home wins by the prefill that it saves, and loses where waiting for it costs more."""
    ask = Ask(home=A, prompt_tokens=1000, cached_tokens=900, answer_tokens=10)
    home = candidate(A, SURE, ahead_s=5.0)
    other = candidate(B, SURE)
    assert chosen(ask, [home, other], "predicted").placement == "warm"
    slow = candidate(A, SURE, ahead_s=20.0)
    choice = chosen(ask, [slow, other], "predicted")
    assert (choice.node, choice.placement, choice.why) == (B, "moved", "home_slower")
    assert choice.score == pytest.approx(11.0)


@pytest.mark.parametrize(
    ("home_decode_s", "placement"), [(0.1, "warm"), (0.13, "warm"), (0.2, "moved")]
)
def test_predicted_leaves_home_only_for_what_is_much_better(
    home_decode_s: float, placement: str
) -> None:
    """The home's KV serves the turns after this one too, so a little time is no reason to go."""
    ask = Ask(home=A, prompt_tokens=10, cached_tokens=10, answer_tokens=100)
    home, other = candidate(A, SURE, decode_s=home_decode_s), candidate(B, SURE, decode_s=0.09)
    for seed in range(5):
        assert chosen(ask, [home, other], "predicted", seed).placement == placement


def test_predicted_leaves_no_home_for_milliseconds() -> None:
    """Half of next to nothing is nothing: such differences are noise."""
    ask = Ask(home=A, prompt_tokens=10, answer_tokens=10)
    home, other = candidate(A, SURE, decode_s=0.004), candidate(B, SURE, decode_s=0.001)
    assert chosen(ask, [home, other], "predicted").placement == "warm"


def test_predicted_falls_back_to_load_when_unsure() -> None:
    """Who is not known well enough makes the comparison a guess: load decides, and says so."""
    fast, unknown = candidate(A, SURE, in_flight=2), candidate(B, in_flight=1)
    choice = chosen(Ask(), [fast, unknown], "predicted")
    assert (choice.node, choice.policy) == (B, "least_inflight")


@pytest.mark.parametrize("policy", [*SCORERS])
def test_ties_are_even(policy: Policy) -> None:
    """Over many first requests every idle node gets its share."""
    dice = random.Random(1)
    idle = field_of(candidate(node) for node in (A, B, C))
    wins: Counter[NodeId] = Counter()
    for _ in range(900):
        choice = choose(Ask(), idle, policy, dice)
        assert choice is not None
        wins[choice.node] += 1
    assert all(240 <= count <= 360 for count in wins.values())
