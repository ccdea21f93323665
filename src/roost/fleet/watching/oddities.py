"""MACHINE: what is odd about a node's runtimes, told when it begins and when it is over."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from roost.core.about import Anomaly
from roost.core.ids import ModelId
from roost.core.snapshots import RuntimeView


class Oddity(NamedTuple):
    """A model's runtime, and what is odd about it."""

    model: ModelId
    kind: Anomaly


class Oddities:
    """Remembers what the last report of one link has said."""

    def __init__(self) -> None:
        self._odd: frozenset[Oddity] = frozenset()

    def news(self, views: Iterable[RuntimeView]) -> list[tuple[Oddity, bool]]:
        """Return what has become odd since the last report, and what is so no more (False)."""
        odd = frozenset(
            Oddity(view.model, kind)
            for view in views
            if view.vitals is not None
            for kind in view.vitals.anomalies
        )
        changed = sorted(odd ^ self._odd)
        self._odd = odd
        return [(one, one in odd) for one in changed]
