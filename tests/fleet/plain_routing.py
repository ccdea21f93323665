"""Routing in its plainest form, node after node: what `roost.fleet.choice.routing` has to equal.

It is the specification that fast code is held to. It reads nodes, not columns, and makes every list
that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from roost.core.ids import NodeId
from roost.fleet.choice.routing import (
    ALIKE,
    HOME_FACTOR,
    HOME_MARGIN_S,
    Dice,
    obstacle,
    surely_too_long,
)
from roost.fleet.choice.scoring import LOAD_BOUND, Ask, rank
from roost.fleet.effects import Placement
from roost.fleet.field import Candidate
from roost.fleet.settings import Policy

Plain = tuple[NodeId, Placement, str, str, float, NodeId | None, list[tuple[float, NodeId]]]
"""Node, placement, why, policy, score, runner-up, and everybody's score in order of places."""


def plain_choice(
    ask: Ask, candidates: Sequence[Candidate], policy: Policy, dice: Dice
) -> Plain | None:
    """What `choose` decides."""
    free = [one for one in candidates if not one.closed]
    free = [one for one in free if one.node not in ask.tried and one.node not in ask.resting]
    choice = _choose(ask, candidates, free, policy, dice)
    if choice is None or not surely_too_long(ask, _named(free, choice[0])):
        return choice
    free = [one for one in free if not surely_too_long(ask, one)]
    return _choose(ask, candidates, free, policy, dice)


def _choose(
    ask: Ask,
    candidates: Sequence[Candidate],
    free: Sequence[Candidate],
    policy: Policy,
    dice: Dice,
) -> Plain | None:
    if not free:
        return None
    if policy == "predicted" and not all(one.sure for one in free):
        policy = "least_inflight"
    if policy != "predicted" and any(one.node == ask.home for one in free):
        home = _named(free, ask.home)
        return home.node, "warm", "home", "home", 0.0, None, [(0.0, home.node)]
    if policy == "power_of_two" and len(free) > 2:
        first = dice.choice(free)
        free = [first, dice.choice([one for one in free if one is not first])]
    scores = SCORES[policy](ask, free)
    best = min(scores)
    limit = best + (ALIKE if policy == "predicted" else 0.0) * abs(best)
    ties = [place for place, score in enumerate(scores) if score <= limit]
    chosen = ties[0] if len(ties) == 1 else dice.choice(ties)
    if policy == "predicted":
        for place, one in enumerate(free):
            worth = max(0.0, scores[chosen]) * HOME_FACTOR + HOME_MARGIN_S
            if one.node == ask.home and scores[place] <= worth:
                chosen = place
                break
    others = [(score, place) for place, score in enumerate(scores) if place != chosen]
    second = free[min(others)[1]].node if others else None
    node = free[chosen].node
    placement, why = _placement(ask, candidates, node)
    ranking = list(zip(scores, (one.node for one in free), strict=True))
    return node, placement, why, policy, scores[chosen], second, ranking


def _named(candidates: Sequence[Candidate], node: NodeId | None) -> Candidate:
    return next(one for one in candidates if one.node == node)


def _placement(ask: Ask, candidates: Sequence[Candidate], node: NodeId) -> tuple[Placement, str]:
    if ask.lost:
        return "lost", ask.lost
    if ask.home is None:
        return "cold", "no_home"
    if node == ask.home:
        return "warm", "home"
    for one in candidates:
        if one.node == ask.home:
            return "moved", f"home_{obstacle(one, ask) or 'slower'}"
    return "moved", "home_unusable"


def _inflight(_ask: Ask, free: Sequence[Candidate]) -> list[float]:
    return [one.in_flight for one in free]


def _weighted(_ask: Ask, free: Sequence[Candidate]) -> list[float]:
    scores = []
    for one in free:
        places = one.held / one.capacity
        cells = places if one.kv_share is None else one.kv_share
        scores.append(0.6 * places + 0.4 * cells)
    return scores


def _round_robin(_ask: Ask, free: Sequence[Candidate]) -> list[float]:
    return [one.picked for one in free]


def _random(_ask: Ask, free: Sequence[Candidate]) -> list[float]:
    return [0.0 for _ in free]


def _affinity(ask: Ask, free: Sequence[Candidate]) -> list[float]:
    if not ask.beginning:
        return _inflight(ask, free)
    beginning = int.from_bytes(ask.beginning[:8], "big")
    bound = LOAD_BOUND * (sum(one.in_flight for one in free) + 1) / len(free)
    return [
        rank(beginning, one.salt) if one.in_flight < bound else 1e9 + one.in_flight for one in free
    ]


def _predicted(ask: Ask, free: Sequence[Candidate]) -> list[float]:
    scores = []
    for one in free:
        score = one.ahead_s + one.prefill_s * ask.prompt_tokens + one.decode_s * ask.answer_tokens
        if one.node == ask.home:
            score -= one.prefill_s * min(ask.prompt_tokens, ask.cached_tokens)
        scores.append(score)
    return scores


SCORES: dict[Policy, Callable[[Ask, Sequence[Candidate]], list[float]]] = {
    "weighted": _weighted,
    "least_inflight": _inflight,
    "round_robin": _round_robin,
    "random": _random,
    "power_of_two": _inflight,
    "prefix_affinity": _affinity,
    "predicted": _predicted,
}
