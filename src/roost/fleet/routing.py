"""DECIDER: which node gets a request: filters rule out, scorers rank, a picker breaks ties by lot.

Ties are common (an idle fleet is one big tie) and a tie break by order sends every first request to
the same node, so they go to chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

import msgspec

from roost.core.ids import NodeId
from roost.fleet.effects import Placement
from roost.fleet.scoring import SCORERS, Ask, Candidate
from roost.fleet.settings import Policy

T = TypeVar("T")
ALIKE = 0.1
"""Predictions that differ by less than this share are equal: they are not known any better."""
HOME_FACTOR, HOME_MARGIN_S = 1.5, 0.25
"""A home is left for what is predicted to be better by more than this: nobody notices less."""

WAIT_FOR = frozenset({"", "busy", "suspect", "broken", "resting"})
"""Obstacles that time may remove."""


class Dice(Protocol):
    """The one thing asked of a random source (`random.Random` fits)."""

    def choice(self, seq: Sequence[T], /) -> T:
        """One of these, each equally likely."""
        ...


class Choice(msgspec.Struct, frozen=True):
    """The decision, how it relates to the conversation's home, and what it was made from.

    `policy` is the scorer that decided, "home" where affinity did; `free` and `scores` go together.
    """

    chosen: Candidate
    placement: Placement
    why: str
    policy: str = "home"
    score: float = 0.0
    runner_up: NodeId | None = None
    free: Sequence[Candidate] = ()
    scores: Sequence[float] = ()

    @property
    def node(self) -> NodeId:
        """Where to."""
        return self.chosen.node


def obstacle(candidate: Candidate, ask: Ask) -> str:
    """Why this node cannot take the request now; "" if it can."""
    if candidate.node in ask.tried:
        return "tried"
    if candidate.node in ask.resting:
        return "resting"
    if surely_too_long(ask, candidate):
        return "too_long"
    return candidate.closed


def surely_too_long(ask: Ask, candidate: Candidate) -> bool:
    """Whether the prompt cannot fit this node's context, whatever its tokens turn out to be.

    An estimate is not enough to turn anybody away: only a known count, or a text with more bytes
    than a whole context of the model's longest tokens could hold.
    """
    if candidate.ctx <= 0:
        return False
    if ask.least_tokens:
        return ask.least_tokens >= candidate.ctx
    return 0 < candidate.token_bytes * (candidate.ctx - 1) < ask.prompt_bytes


def hopeful(candidates: Sequence[Candidate], ask: Ask) -> bool:
    """Whether waiting may help: some node is at most silent or full, not failed or leaving."""
    return any(obstacle(candidate, ask) in WAIT_FOR for candidate in candidates)


def only_too_long(candidates: Sequence[Candidate], ask: Ask) -> bool:
    """Whether the prompt's length is what keeps every one of these from it."""
    return bool(candidates) and all(obstacle(one, ask) == "too_long" for one in candidates)


def choose(ask: Ask, candidates: Sequence[Candidate], policy: Policy, dice: Dice) -> Choice | None:
    """Pick a node for the request, or None if it has to wait.

    The home comes first, but for `predicted`, where it is worth exactly the prefill that it saves.
    When the home is merely full the request moves to a node that is free: affinity saves one
    prefill, and a prefill started now beats one saved later. Nobody free: wait.
    """
    free = [one for one in candidates if not one.closed]
    if ask.tried or ask.resting:
        free = [one for one in free if one.node not in ask.tried and one.node not in ask.resting]
    choice = _choose(ask, candidates, free, policy, dice)
    if choice is None or not surely_too_long(ask, choice.chosen):
        return choice
    # Rare enough that nobody pays for it who need not: look only at those where it fits.
    free = [one for one in free if not surely_too_long(ask, one)]
    return _choose(ask, candidates, free, policy, dice)


def _choose(
    ask: Ask,
    candidates: Sequence[Candidate],
    free: Sequence[Candidate],
    policy: Policy,
    dice: Dice,
) -> Choice | None:
    if not free:
        return None
    if policy == "predicted" and not all(one.sure for one in free):
        # Unsure of one is unsure of the comparison. The idlest goes first, and will be known soon.
        policy = "least_inflight"
    if ask.home is not None and policy != "predicted":
        for one in free:
            if one.node == ask.home:
                return Choice(one, "warm", "home", free=(one,), scores=(0.0,))
    if policy == "power_of_two" and len(free) > 2:
        free = two_of(free, dice)
    return _judged(ask, candidates, free, policy, dice)


def two_of(free: Sequence[Candidate], dice: Dice) -> list[Candidate]:
    """Two different ones by lot."""
    first = dice.choice(free)
    return [first, dice.choice([one for one in free if one is not first])]


def _judged(
    ask: Ask,
    candidates: Sequence[Candidate],
    free: Sequence[Candidate],
    policy: Policy,
    dice: Dice,
) -> Choice:
    scores = SCORERS[policy](ask, free)
    index = pick(scores, dice, ALIKE if policy == "predicted" else 0.0)
    if policy == "predicted":
        index = _home_if_alike(ask, free, scores, index)
    second = runner_up(scores, index)
    chosen = free[index]
    placement, why = _placement(ask, candidates, chosen.node)
    rival = None if second is None else free[second].node
    return Choice(chosen, placement, why, policy, scores[index], rival, free, scores)


def _home_if_alike(ask: Ask, free: Sequence[Candidate], scores: Sequence[float], best: int) -> int:
    """Prefer the home to a best that is not much better: its KV serves the turns after this too."""
    if ask.home is None:
        return best
    for index, one in enumerate(free):
        if one.node == ask.home:
            limit = max(0.0, scores[best]) * HOME_FACTOR + HOME_MARGIN_S
            return index if scores[index] <= limit else best
    return best


def pick(scores: Sequence[float], dice: Dice, alike: float = 0.0) -> int:
    """Where the best of these scores is; those within a share of `alike` of it tie, by lot."""
    best = min(scores)
    limit = best + alike * abs(best)
    ties = [index for index, score in enumerate(scores) if score <= limit]
    return ties[0] if len(ties) == 1 else dice.choice(ties)


def runner_up(scores: Sequence[float], chosen: int) -> int | None:
    """Where the best of the others is."""
    others = [*scores[:chosen], *scores[chosen + 1 :]]
    if not others:
        return None
    index = others.index(min(others))
    return index if index < chosen else index + 1


def _placement(ask: Ask, candidates: Sequence[Candidate], chosen: NodeId) -> tuple[Placement, str]:
    if ask.lost:
        return "lost", ask.lost
    if ask.home is None:
        return "cold", "no_home"
    if chosen == ask.home:
        return "warm", "home"
    for one in candidates:
        if one.node == ask.home:
            return "moved", f"home_{obstacle(one, ask) or 'slower'}"
    return "moved", "home_unusable"
