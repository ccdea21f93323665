"""DECIDER: what is odd in the fleet, in words that say what it may come from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from roost.core.about import Anomaly
from roost.core.ids import ModelId, NodeId
from roost.fleet.views import NodeView

_WORDS: dict[Anomaly, str] = {
    "slow_decode": "answers come at less than half of its usual pace",
    "slow_prefill": "prompts take five times as long as usual",
    "memory_growth": "memory grows faster than its tokens can explain",
}


class Hint(msgspec.Struct, frozen=True):
    """One thing that is odd now; `text` says what and, where somebody knows, why."""

    kind: str
    text: str
    node: NodeId | None = None
    model: ModelId | None = None


def runtime_hints(nodes: Iterable[NodeView]) -> Iterator[Hint]:
    """List what nodes find odd about their runtimes."""
    for node in nodes:
        for view in node.runtimes:
            for kind in view.vitals.anomalies if view.vitals is not None else ():
                yield Hint(kind, _WORDS.get(kind, kind), node.id, view.model)
