"""DECIDER: which node gets a request: filters rule out, scorers rank, a picker breaks ties by lot.

Ties are common (an idle fleet is one big tie) and a tie break by order sends every first request to
the same node, so they go to chance.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Protocol, TypeVar

import msgspec

from roost.core.ids import NodeId
from roost.core.snapshots import LinkState
from roost.fleet.effects import Placement
from roost.fleet.settings import Policy

T = TypeVar("T")


class Dice(Protocol):
    """The one thing asked of a random source (`random.Random` fits)."""

    def choice(self, seq: Sequence[T], /) -> T:
        """One of these, each equally likely."""
        ...


class Candidate(msgspec.Struct, frozen=True):
    """A linked node that offers the model, as seen at this moment.

    `held` of `capacity` places for this model are taken, `in_flight` counts leases of all models,
    `kv_share` is the part of the runtime's KV cells in use (0..1) or None where unknown,
    `backing_off` means that the node has just refused for lack of room.
    """

    node: NodeId
    state: LinkState
    usable: bool
    draining: bool
    held: int
    capacity: int
    in_flight: int
    kv_share: float | None = None
    backing_off: bool = False


class Ask(msgspec.Struct, frozen=True):
    """What a request wants of a node.

    `home` holds its KV; `lost` says why a home it had is of no use any more ("" otherwise);
    `tried` are nodes that already failed it.
    """

    home: NodeId | None = None
    lost: str = ""
    tried: frozenset[NodeId] = frozenset()


class Choice(msgspec.Struct, frozen=True):
    """The decision, and how it relates to the conversation's home."""

    node: NodeId
    placement: Placement
    why: str


def obstacle(candidate: Candidate, tried: Collection[NodeId]) -> str:
    """Why this node cannot take the request now; "" if it can."""
    if candidate.node in tried:
        return "tried"
    if not candidate.usable:
        return "unusable"
    if candidate.state != "alive":
        return "suspect"
    if candidate.draining:
        return "draining"
    full = candidate.held >= candidate.capacity
    return "busy" if full or candidate.backing_off else ""


def hopeful(candidates: Sequence[Candidate], tried: Collection[NodeId]) -> bool:
    """Whether waiting may help: some node is at most silent or full, not failed or leaving."""
    return any(obstacle(candidate, tried) in {"", "busy", "suspect"} for candidate in candidates)


def score_inflight(candidate: Candidate) -> float:
    """Streams on the node; lower is better."""
    return candidate.in_flight


def score_weighted(candidate: Candidate) -> float:
    """0.6 of the used share of places plus 0.4 of the used share of KV; lower is better."""
    used = candidate.held / candidate.capacity
    return 0.6 * used + 0.4 * (used if candidate.kv_share is None else candidate.kv_share)


def score_random(_candidate: Candidate) -> float:
    """Nothing: every node ties with every other."""
    return 0.0


SCORERS: dict[Policy, Callable[[Candidate], float]] = {
    "least_inflight": score_inflight,
    "weighted": score_weighted,
    "random": score_random,
}


def choose(ask: Ask, candidates: Sequence[Candidate], policy: Policy, dice: Dice) -> Choice | None:
    """Pick a node for the request, or None if it has to wait.

    The home comes first. When the home is merely full the request moves to a node that is free:
    affinity saves one prefill, and a prefill started now beats one saved later. Nobody free: wait.
    """
    free = [one for one in candidates if not obstacle(one, ask.tried)]
    if not free:
        return None
    if any(one.node == ask.home for one in free):
        assert ask.home is not None
        return Choice(ask.home, "warm", "home")
    chosen = pick(free, SCORERS[policy], dice)
    if ask.lost:
        return Choice(chosen, "lost", ask.lost)
    if ask.home is None:
        return Choice(chosen, "cold", "no_home")
    return Choice(chosen, "moved", _why_not_home(ask, candidates))


def pick(free: Sequence[Candidate], score: Callable[[Candidate], float], dice: Dice) -> NodeId:
    """The best of these by score, ties by lot."""
    scores = [score(candidate) for candidate in free]
    best = min(scores)
    return dice.choice([one.node for one, its in zip(free, scores, strict=True) if its == best])


def _why_not_home(ask: Ask, candidates: Sequence[Candidate]) -> str:
    for one in candidates:
        if one.node == ask.home:
            return f"home_{obstacle(one, ask.tried)}"
    return "home_unusable"
