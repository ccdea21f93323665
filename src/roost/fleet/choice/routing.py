"""DECIDER: which node gets a request: filters rule out, scorers rank, a picker breaks ties by lot.

Ties are common (an idle fleet is one big tie) and a tie break by order sends every first request to
the same node, so they go to chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import nsmallest
from typing import Literal, Protocol, TypeVar

import msgspec

from roost.core.ids import NodeId
from roost.fleet.choice.scoring import SCORERS, Ask
from roost.fleet.effects import Placement
from roost.fleet.field import Candidate, Field, field_of
from roost.fleet.settings import Policy

T = TypeVar("T")
ALIKE = 0.1
"""Predictions that differ by less than this share are equal: they are not known any better."""
HOME_FACTOR, HOME_MARGIN_S = 1.5, 0.25
"""A home is left for what is predicted to be better by more than this: nobody notices less."""

WAIT_FOR = frozenset({"", "busy", "suspect", "broken", "resting", "cold", "loading", "no_room"})
"""Obstacles that time may remove."""


class Dice(Protocol):
    """The one thing asked of a random source (`random.Random` fits)."""

    def choice(self, seq: Sequence[T], /) -> T:
        """One of these, each equally likely."""
        ...


class Choice(msgspec.Struct, frozen=True, gc=False):
    """The decision, how it relates to the conversation's home, and what it was made from.

    `policy` is the scorer that decided, "home" where affinity did; `ask` and `among` are what it
    was given, and give its scores again.
    """

    chosen: Candidate
    placement: Placement
    why: str
    policy: Policy | Literal["home"] = "home"
    score: float = 0.0
    runner_up: NodeId | None = None
    ask: Ask = Ask()
    among: Field = Field()

    @property
    def node(self) -> NodeId:
        """Where to."""
        return self.chosen.node

    @property
    def candidates(self) -> int:
        """How many nodes had room for it; a home that was taken unseen is the only one."""
        return 1 if self.policy == "home" else len(self.among.open)

    def ranking(self, most: int) -> list[tuple[float, NodeId]]:
        """The best nodes with their scores, lowest first."""
        if self.policy == "home":
            return [(self.score, self.node)]
        # Made again for who asks, and not kept: most requests are over before anybody wants them.
        scores = SCORERS[self.policy](self.ask, self.among)
        nodes = (one.node for one in self.among.free())
        return nsmallest(most, zip(scores, nodes, strict=True))


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


def least_tokens(ask: Ask, candidate: Candidate) -> int:
    """Return how many tokens a prompt has at least, in a vocabulary of this node's; 0: unknown."""
    return ask.least_tokens or -(-ask.prompt_bytes // max(1, candidate.token_bytes))


def hopeful(field: Field, ask: Ask) -> bool:
    """Whether waiting may help: some node is at most silent or full, not failed or leaving."""
    return any(obstacle(candidate, ask) in WAIT_FOR for candidate in field.candidates)


def only_too_long(field: Field, ask: Ask) -> bool:
    """Whether the prompt's length is what keeps every one of these from it."""
    candidates = field.candidates
    return bool(candidates) and all(obstacle(one, ask) == "too_long" for one in candidates)


def choose(ask: Ask, field: Field, policy: Policy, dice: Dice) -> Choice | None:
    """Pick a node for the request, or None if it has to wait.

    The home comes first, but for `predicted`, where it is worth exactly the prefill that it saves.
    When the home is merely full the request moves to a node that is free: affinity saves one
    prefill, and a prefill started now beats one saved later. Nobody free: wait.
    """
    among = field
    if ask.tried or ask.resting:
        out = ask.tried | ask.resting
        among = field.only(lambda one: one.node not in out)
    choice = _choose(ask, field, among, policy, dice)
    if choice is None or not surely_too_long(ask, choice.chosen):
        return choice
    # Rare enough that nobody pays for it who need not: look only at those where it fits.
    among = among.only(lambda one: not surely_too_long(ask, one))
    return _choose(ask, field, among, policy, dice)


def _choose(ask: Ask, field: Field, among: Field, policy: Policy, dice: Dice) -> Choice | None:
    if not among.open:
        return None
    if policy == "predicted":
        if not among.unsure:
            return _judged(ask, field, among, policy, dice)
        # Unsure of one is unsure of the comparison. The idlest goes first, and will be known soon.
        policy = "least_inflight"
    home = None if ask.home is None else among.get(ask.home)
    if home is not None and not home.closed:
        return Choice(home, "warm", "home")
    if policy == "power_of_two" and len(among.open) > 2:
        among = field_of(two_of(among.free(), dice))
    return _judged(ask, field, among, policy, dice)


def two_of(free: Sequence[Candidate], dice: Dice) -> list[Candidate]:
    """Two different ones by lot."""
    first = dice.choice(free)
    return [first, dice.choice([one for one in free if one is not first])]


def _judged(ask: Ask, field: Field, among: Field, policy: Policy, dice: Dice) -> Choice:
    scores = SCORERS[policy](ask, among)
    ranks = sorted(scores)
    best = pick(scores, ranks, dice, ALIKE if policy == "predicted" else 0.0)
    if policy == "predicted" and ask.home is not None:
        best = _home_if_alike(scores, best, among.column(ask.home))
    second = runner_up(scores, ranks, best)
    chosen = among.candidates[among.open[best]]
    rival = None if second is None else among.candidates[among.open[second]].node
    placement, why = _placement(ask, field, chosen.node)
    return Choice(chosen, placement, why, policy, scores[best], rival, ask, among)


def _home_if_alike(scores: Sequence[float], best: int, home: int | None) -> int:
    """Prefer the home to a best that is not much better: its KV serves the turns after this too."""
    if home is None or scores[home] > max(0.0, scores[best]) * HOME_FACTOR + HOME_MARGIN_S:
        return best
    return home


def pick(scores: Sequence[float], ranks: Sequence[float], dice: Dice, alike: float = 0.0) -> int:
    """Where the best of these scores is; those within a share of `alike` of it tie, by lot.

    `ranks` are the scores in ascending order: sorting them is cheaper than to look for ties.
    """
    best = ranks[0]
    limit = best + alike * abs(best)
    if len(ranks) == 1 or ranks[1] > limit:
        return scores.index(best)
    return dice.choice([place for place, score in enumerate(scores) if score <= limit])


def runner_up(scores: Sequence[float], ranks: Sequence[float], chosen: int) -> int | None:
    """Where the best of the others is."""
    if len(ranks) == 1:
        return None
    second = ranks[scores[chosen] == ranks[0]]
    place = scores.index(second)
    return place if place != chosen else scores.index(second, chosen + 1)


def _placement(ask: Ask, field: Field, chosen: NodeId) -> tuple[Placement, str]:
    if ask.lost:
        return "lost", ask.lost
    if ask.home is None:
        return "cold", "no_home"
    if chosen == ask.home:
        return "warm", "home"
    home = field.get(ask.home)
    if home is None:
        return "moved", "home_unusable"
    return "moved", f"home_{obstacle(home, ask) or 'slower'}"
