"""DECIDER: what a node is worth to a request: one scorer for each policy, the lowest score wins.

weighted         share of places and of KV in use
least_inflight   streams on the node
round_robin      how long ago it was chosen
random           nothing: everybody ties
power_of_two     streams, of two nodes drawn by lot
prefix_affinity  where conversations with this beginning meet, within a bound of load
predicted        when the answer would be complete
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec

from roost.core.ids import NodeId
from roost.fleet.settings import Policy

_MASK = 2**64 - 1
_ODD = 0x9E3779B97F4A7C15
_FAR = 1e9
LOAD_BOUND = 1.25
"""How much more than the mean a node may have before new conversations go elsewhere."""


class Candidate(msgspec.Struct, frozen=True):
    """A linked node that offers the model, as of the last event that changed it.

    `closed` says why it takes nothing now, "" if it does: unusable, suspect, draining, broken,
    busy. `held` of `capacity` places for this model are taken, `in_flight` counts streams of all
    models, `kv_share` is the part of KV reserved or in use (0..1) or None where unknown.
    `picked` counts up with choices, `salt` is the node's own number for hashing.
    With `sure`, the learned figures count: `ahead_s` until a prefill could begin, then seconds per
    prompt token and per answer token.
    `least_ctx` is the context in tokens and `token_bytes` the longest token, 0 where unknown.
    """

    node: NodeId
    closed: str = ""
    held: int = 0
    capacity: int = 1
    in_flight: int = 0
    kv_share: float | None = None
    picked: int = 0
    salt: int = 0
    sure: bool = False
    ahead_s: float = 0.0
    prefill_s: float = 0.0
    decode_s: float = 0.0
    ctx: int = 0
    token_bytes: int = 0


class Ask(msgspec.Struct, frozen=True):
    """What a request wants of a node.

    `home` holds its KV (`cached_tokens` of it); `lost` says why a home it had is of no use any more
    ("" otherwise); `tried` are nodes that already failed it, `resting` those that
    may have it again later. Lengths are estimates in tokens;
    `least_tokens` is exact or 0. `beginning` is a number that conversations with the same beginning
    share. `prompt_bytes` 0 is unknown.
    """

    home: NodeId | None = None
    lost: str = ""
    tried: frozenset[NodeId] = frozenset()
    resting: frozenset[NodeId] = frozenset()
    prompt_tokens: int = 0
    cached_tokens: int = 0
    answer_tokens: int = 1
    least_tokens: int = 0
    prompt_bytes: int = 0
    beginning: int = 0


Scorer: TypeAlias = Callable[[Ask, Sequence[Candidate]], list[float]]
"""Scores of these candidates for this request, in their order."""


def score_inflight(_ask: Ask, free: Sequence[Candidate]) -> list[float]:
    """Streams on the node."""
    return [one.in_flight for one in free]


def score_weighted(_ask: Ask, free: Sequence[Candidate]) -> list[float]:
    """0.6 of the used share of places plus 0.4 of the used share of KV."""
    return [
        0.6 * (used := one.held / one.capacity)
        + 0.4 * (used if one.kv_share is None else one.kv_share)
        for one in free
    ]


def score_round_robin(_ask: Ask, free: Sequence[Candidate]) -> list[float]:
    """When it was last chosen: the longest ago is the next one."""
    return [one.picked for one in free]


def score_random(_ask: Ask, free: Sequence[Candidate]) -> list[float]:
    """Nothing: every node ties with every other."""
    return [0.0] * len(free)


def score_prefix_affinity(ask: Ask, free: Sequence[Candidate]) -> list[float]:
    """Rendezvous: each beginning has its own order of nodes; those over the bound come last."""
    if not ask.beginning:
        return score_inflight(ask, free)
    bound = LOAD_BOUND * (sum(one.in_flight for one in free) + 1) / len(free)
    return [
        rank(ask.beginning, one.salt) if one.in_flight < bound else _FAR + one.in_flight
        for one in free
    ]


def rank(beginning: int, salt: int) -> float:
    """Where this node stands in the order of nodes for this beginning, 0..1."""
    mixed = ((beginning ^ salt) * _ODD) & _MASK
    mixed = ((mixed ^ (mixed >> 29)) * _ODD) & _MASK
    return (mixed ^ (mixed >> 32)) / _MASK


def score_predicted(ask: Ask, free: Sequence[Candidate]) -> list[float]:
    """Seconds until the answer is complete."""
    prompt, answer = ask.prompt_tokens, ask.answer_tokens
    scores = [
        one.ahead_s + one.prefill_s * prompt + one.decode_s * answer if one.sure else _FAR
        for one in free
    ]
    if ask.home is not None:
        for index, one in enumerate(free):
            if one.node == ask.home:
                scores[index] -= one.prefill_s * min(prompt, ask.cached_tokens)
    return scores


SCORERS: dict[Policy, Scorer] = {
    "weighted": score_weighted,
    "least_inflight": score_inflight,
    "round_robin": score_round_robin,
    "random": score_random,
    "power_of_two": score_inflight,
    "prefix_affinity": score_prefix_affinity,
    "predicted": score_predicted,
}
