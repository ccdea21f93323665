"""MACHINE: a conversation whose KV grows far beyond that of all others, by what nodes report.

A report says how many tokens each slot holds. One that has grown for a third of a minute's looks,
holds over half of its context and eight times what the others of its model hold is odd: an answer
that does not end, an agent that goes round in a circle, a client that sends its past twice. A long
prompt is in its slot at once and grows no further, so that it is none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from statistics import median
from typing import NamedTuple, TypeAlias

from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.fleet.watching.views import NodeView

LOOK_S = 0.9
WINDOW_S = 60.0
RISES_MIN = 20
"""So many looks within the window, each of which has found more tokens than the one before."""
TOKENS_MIN = 2048
CTX_SHARE = 0.5
FACTOR = 8
OTHERS_MIN = 3
"""Without so many conversations to compare it with nobody is odd."""

_Place: TypeAlias = tuple[NodeId, RuntimeId, int]


class Grown(NamedTuple):
    """A slot that holds `tokens`, where the others hold `usual`, and grows by so many a second.

    It is full after `full_in_s`.
    """

    node: NodeId
    model: ModelId
    slot: int
    tokens: int
    usual: int
    per_s: float
    full_in_s: float


class _Seen(NamedTuple):
    model: ModelId
    tokens: int
    ctx: int


class Growth:
    """Fed with looks at the fleet; remembers a minute of each slot that grows."""

    def __init__(self) -> None:
        self._looked_s = float("-inf")
        self._odd: tuple[Grown, ...] = ()
        self._held: dict[_Place, int] = {}
        self._rises: dict[_Place, deque[tuple[float, int]]] = {}

    def on_look(self, nodes: Iterable[NodeView], now: float) -> tuple[Grown, ...]:
        """Give the slots that are odd now, of each node and model the one that holds most.

        Whoever looks more often than once in `LOOK_S` sees what the last one has seen.
        """
        if now >= self._looked_s + LOOK_S:
            self._looked_s = now
            self._odd = tuple(self._found(nodes, now))
        return self._odd

    def _found(self, nodes: Iterable[NodeView], now: float) -> Iterable[Grown]:
        seen = dict(_slots(nodes))
        by_model: dict[ModelId, list[int]] = {}
        for one in seen.values():
            if one.tokens:
                by_model.setdefault(one.model, []).append(one.tokens)
        self._follow(seen, now)
        worst: dict[tuple[NodeId, ModelId], Grown] = {}
        for place in self._rises:
            grown = self._judged(place, seen[place], by_model.get(seen[place].model, []))
            if grown is None:
                continue
            key = grown.node, grown.model
            if key not in worst or grown.tokens > worst[key].tokens:
                worst[key] = grown
        return worst.values()

    def _follow(self, seen: dict[_Place, _Seen], now: float) -> None:
        for place, one in seen.items():
            before = self._held.get(place)
            if before is None or one.tokens < before:
                # Somebody else's conversation, or the beginning of another one.
                self._rises.pop(place, None)
            elif one.tokens > before:
                self._rises.setdefault(place, deque()).append((now, one.tokens - before))
        self._held = {place: one.tokens for place, one in seen.items()}
        for place in list(self._rises):
            rises = self._rises[place]
            while rises and rises[0][0] <= now - WINDOW_S:
                rises.popleft()
            if not rises or place not in seen:
                del self._rises[place]

    def _judged(self, place: _Place, one: _Seen, all_held: list[int]) -> Grown | None:
        rises = self._rises[place]
        if len(rises) < RISES_MIN or one.tokens < max(TOKENS_MIN, CTX_SHARE * one.ctx):
            return None
        others = all_held.copy()
        others.remove(one.tokens)
        if len(others) < OTHERS_MIN or one.tokens < FACTOR * median(others):
            return None
        # What the first of these rises brought came before it was seen.
        steady = [tokens for _, tokens in rises][1:]
        per_s = sum(steady) / max(1.0, rises[-1][0] - rises[0][0])
        full_in_s = max(0, one.ctx - one.tokens) / per_s if per_s else 0.0
        usual = round(median(others))
        return Grown(place[0], one.model, place[2], one.tokens, usual, per_s, full_in_s)


def _slots(nodes: Iterable[NodeView]) -> Iterator[tuple[_Place, _Seen]]:
    for node in nodes:
        for view in node.runtimes:
            if view.state != "ready" or view.runtime is None:
                continue
            for slot in view.slots:
                yield (
                    (node.id, view.runtime, slot.slot),
                    _Seen(view.model, slot.tokens, view.ctx),
                )
