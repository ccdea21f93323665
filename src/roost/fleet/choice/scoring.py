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

from collections.abc import Callable
from typing import TypeAlias

import msgspec

from roost.core.ids import NodeId
from roost.fleet.field import Field
from roost.fleet.settings import Policy

_MASK = 2**64 - 1
_ODD = 0x9E3779B97F4A7C15
_FAR = 1e9
LOAD_BOUND = 1.25
"""How much more than the mean a node may have before new conversations go elsewhere."""


class Ask(msgspec.Struct, frozen=True, gc=False):
    """What a request wants of a node.

    `home` holds its KV (`cached_tokens` of it, `sure_tokens` word for word); `lost` says why a home
    it had, with `sure_tokens`, is of no use any more ("" otherwise); `tried` are nodes that already
    failed it, `resting`
    those that may have it again later. Lengths are estimates in tokens;
    `least_tokens` is exact or 0. `beginning` is a hash that conversations with the same beginning
    share. `prompt_bytes` 0 is unknown.
    """

    home: NodeId | None = None
    lost: str = ""
    tried: frozenset[NodeId] = frozenset()
    resting: frozenset[NodeId] = frozenset()
    prompt_tokens: int = 0
    cached_tokens: int = 0
    sure_tokens: int = 0
    answer_tokens: int = 1
    least_tokens: int = 0
    prompt_bytes: int = 0
    beginning: bytes = b""


Scorer: TypeAlias = Callable[[Ask, Field], list[float]]
"""Scores of the open nodes for this request, in their order."""


def score_inflight(_ask: Ask, field: Field) -> list[float]:
    """Streams on the node."""
    return [*field.streams]


def score_weighted(_ask: Ask, field: Field) -> list[float]:
    """0.6 of the used share of places plus 0.4 of the used share of KV."""
    return [
        0.6 * (used := one.held / one.capacity)
        + 0.4 * (used if one.kv_share is None else one.kv_share)
        for one in field.free()
    ]


def score_round_robin(_ask: Ask, field: Field) -> list[float]:
    """When it was last chosen: the longest ago is the next one."""
    return [one.picked for one in field.free()]


def score_random(_ask: Ask, field: Field) -> list[float]:
    """Nothing: every node ties with every other."""
    return [0.0] * len(field.open)


def score_prefix_affinity(ask: Ask, field: Field) -> list[float]:
    """Rendezvous: each beginning has its own order of nodes; those over the bound come last."""
    if not ask.beginning or not field.open:
        return score_inflight(ask, field)
    beginning = int.from_bytes(ask.beginning[:8], "big")
    bound = LOAD_BOUND * (sum(field.streams) + 1) / len(field.open)
    return [
        rank(beginning, one.salt) if one.in_flight < bound else _FAR + one.in_flight
        for one in field.free()
    ]


def rank(beginning: int, salt: int) -> float:
    """Where this node stands in the order of nodes for this beginning, 0..1."""
    mixed = ((beginning ^ salt) * _ODD) & _MASK
    mixed = ((mixed ^ (mixed >> 29)) * _ODD) & _MASK
    return (mixed ^ (mixed >> 32)) / _MASK


def score_predicted(ask: Ask, field: Field) -> list[float]:
    """Seconds until the answer is complete."""
    # As floats: the interpreter multiplies two floats in half the time of a float and an integer.
    prompt, answer = float(ask.prompt_tokens), float(ask.answer_tokens)
    columns = zip(field.ahead_s, field.prefill_s, field.decode_s, strict=True)
    scores = [
        ahead_s + prefill_s * prompt + decode_s * answer for ahead_s, prefill_s, decode_s in columns
    ]
    home = None if ask.home is None else field.column(ask.home)
    if home is not None:
        scores[home] -= field.prefill_s[home] * min(prompt, ask.cached_tokens)
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
