"""One scorer for each policy."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

from roost.core.ids import NodeId
from roost.fleet.choice.scoring import (
    SCORERS,
    Ask,
    rank,
    score_inflight,
    score_predicted,
    score_prefix_affinity,
    score_random,
    score_round_robin,
    score_weighted,
)
from roost.fleet.field import Candidate, field_of
from roost.fleet.nodes.registry import number
from roost.fleet.settings import Policy

FREE = Candidate(NodeId("a"), capacity=4)


def candidate(**changes: object) -> Candidate:
    """A free candidate with these changes."""
    return msgspec.structs.replace(FREE, **changes)


def other(**changes: object) -> Candidate:
    """Another one."""
    return candidate(node=NodeId("b"), **changes)


def test_simple_scores() -> None:
    """Lower is better; unknown KV counts like the used places."""
    assert score_inflight(Ask(), field_of([candidate(in_flight=3)])) == [3]
    full = field_of([candidate(held=2, kv_share=0.25)])
    assert score_weighted(Ask(), full) == pytest.approx([0.4])
    assert score_weighted(Ask(), field_of([candidate(held=2)])) == pytest.approx([0.5])
    assert score_random(Ask(), field_of([FREE, other(in_flight=9)])) == [0.0, 0.0]
    assert score_round_robin(Ask(), field_of([candidate(picked=7)])) == [7]


@pytest.mark.parametrize("policy", SCORERS)
def test_nobody_scores_behind_a_closed_door(policy: Policy) -> None:
    """A node that takes nothing is no better than any other at any policy."""
    shut = candidate(closed="busy", sure=True, capacity=0)
    open_one = other(sure=True, in_flight=3, ahead_s=2.0)
    scores = SCORERS[policy](Ask(beginning=b"7", home=shut.node), field_of([shut, open_one]))
    assert len(scores) == 1


def test_predicted_adds_up() -> None:
    """What is ahead, the part of the prompt that is not cached, and the answer."""
    ask = Ask(home=NodeId("a"), prompt_tokens=100, cached_tokens=60, answer_tokens=20)
    sure = candidate(sure=True, ahead_s=1.0, prefill_s=0.01, decode_s=0.1)
    away = msgspec.structs.replace(sure, node=NodeId("b"))
    assert score_predicted(ask, field_of([sure, away])) == pytest.approx([3.4, 4.0])


def test_rendezvous_spreads_beginnings_and_keeps_them() -> None:
    """Each beginning has one node, in fair shares; a node that leaves moves only its own."""
    salts = {name: number(name.encode()) for name in ("a", "b", "c", "d")}

    def best(beginning: int, among: list[str]) -> str:
        return min(among, key=lambda name: rank(beginning, salts[name]))

    beginnings = [number(f"conversation {n}".encode()) for n in range(2000)]
    before = {one: best(one, ["a", "b", "c", "d"]) for one in beginnings}
    shares = Counter(before.values())
    assert all(400 <= count <= 600 for count in shares.values())
    after = {one: best(one, ["a", "b", "c"]) for one in beginnings}
    assert all(before[one] in {after[one], "d"} for one in beginnings)


def test_affinity_has_a_bound_of_load() -> None:
    """A beginning that everybody shares does not pile up on one node."""
    nodes = [
        Candidate(NodeId(name), capacity=9, salt=number(name.encode())) for name in ("a", "b", "c")
    ]
    ask = Ask(beginning=b"12345678")
    loads: Counter[NodeId] = Counter()
    for _ in range(12):
        nodes = [msgspec.structs.replace(one, in_flight=loads[one.node]) for one in nodes]
        scores = score_prefix_affinity(ask, field_of(nodes))
        loads[nodes[scores.index(min(scores))].node] += 1
    assert max(loads.values()) <= 6
    assert len(loads) == 3
    assert score_prefix_affinity(Ask(), field_of(nodes)) == [one.in_flight for one in nodes]
