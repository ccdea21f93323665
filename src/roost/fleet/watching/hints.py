"""MACHINE: what is odd in the fleet, in words that say what it may come from, and since when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from roost.core.about import Anomaly
from roost.core.ids import ModelId, NodeId
from roost.fleet.watching.cache_misses import CacheMisses
from roost.fleet.watching.growth import Grown, Growth
from roost.fleet.watching.picks import Picks
from roost.fleet.watching.runtime_views import runtime_lines
from roost.fleet.watching.views import NodeView

_WORDS: dict[Anomaly, str] = {
    "slow_decode": "answers come at less than half of its usual pace",
    "slow_prefill": "prompts take five times as long as usual",
    "memory_growth": "memory grows faster than its tokens can explain",
}
UNEVEN, LOW_CACHE, KV_GROWTH = "uneven_picks", "low_cache", "kv_growth"
FLEET_KINDS = (UNEVEN, LOW_CACHE, KV_GROWTH)
"""What the gateway finds itself; the others are found by nodes."""


class Hint(msgspec.Struct, frozen=True):
    """One thing that is odd now; `text` says what and, where somebody knows, why.

    `since_ms` is when it was first seen, in wall time.
    """

    kind: str
    text: str
    node: NodeId | None = None
    model: ModelId | None = None
    since_ms: int = 0


class Changed(NamedTuple):
    """A hint, and whether it begins or is over."""

    hint: Hint
    begins: bool


class Hints:
    """Looks at what nodes have reported and at what was seen here; remembers since when."""

    def __init__(self) -> None:
        self.picks = Picks()
        self.misses = CacheMisses()
        self.growth = Growth()
        self._now: dict[tuple[str, NodeId | None, ModelId | None], Hint] = {}

    def on_look(self, nodes: Iterable[NodeView], now: float, unix_ms: int) -> list[Changed]:
        """Look again; what has begun and what is over of `FLEET_KINDS` is to be told."""
        here = [node for node in nodes if node.state != "dead"]
        found = {(one.kind, one.node, one.model): one for one in self._found(here, now)}
        was, self._now = self._now, {}
        for key, hint in found.items():
            since_ms = was[key].since_ms if key in was else unix_ms
            self._now[key] = msgspec.structs.replace(hint, since_ms=since_ms)
        news = [Changed(self._now[key], begins=True) for key in self._now if key not in was]
        news += [Changed(hint, begins=False) for key, hint in was.items() if key not in self._now]
        return [one for one in news if one.hint.kind in FLEET_KINDS]

    def hints(self) -> tuple[Hint, ...]:
        """What is odd, as of the last look."""
        return tuple(self._now.values())

    def _found(self, nodes: list[NodeView], now: float) -> Iterator[Hint]:
        yield from _of_runtimes(nodes)
        able = [node for node in nodes if node.state == "alive" and not node.draining]
        for one in self.picks.uneven(runtime_lines(able), now):
            share = f"{one.had} of the last {one.picks} picks, {one.due} were due by its slots"
            text = f"passed over: {share}, and its pace does not explain it"
            yield Hint(UNEVEN, text, one.node, one.model)
        for grown in self.growth.on_look(nodes, now):
            yield Hint(KV_GROWTH, _of_growth(grown), grown.node, grown.model)
        for habit in self.misses.habits():
            turns = f"{habit.misses} of the last {habit.turns} turns computed their past again"
            yield Hint(LOW_CACHE, f"{turns}, mostly: {habit.mostly}", None, habit.model)


def _of_growth(grown: Grown) -> str:
    times = grown.tokens // max(1, grown.usual)
    size = f"slot {grown.slot} holds {grown.tokens} tokens, {times} times what others do"
    return f"{size}, grows by {grown.per_s:.0f} a second and is full in {grown.full_in_s:.0f} s"


def _of_runtimes(nodes: Iterable[NodeView]) -> Iterator[Hint]:
    for node in nodes:
        for view in node.runtimes:
            for kind in view.vitals.anomalies if view.vitals is not None else ():
                yield Hint(kind, _WORDS.get(kind, kind), node.id, view.model)
