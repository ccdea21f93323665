"""MACHINE: who has had how much: deficit round robin over flows, as tags on a virtual clock.

A flow's tag is where its service ends so far, in tokens by weight. The clock stands where what was
served last began. A flow that was idle begins at the clock: it saves nothing up. The one with
the lowest tag is served next, so two flows that both wait drift apart by no more than the largest
request of each, whatever the sizes.
"""

from __future__ import annotations

from collections.abc import Container, Hashable
from typing import Generic, TypeVar

F = TypeVar("F", bound=Hashable)


class Shares(Generic[F]):
    """Tags of the flows that are ahead of the clock; the others need none."""

    def __init__(self) -> None:
        self._tags: dict[F, float] = {}
        self.clock = 0.0
        self._crowd = 64

    def __len__(self) -> int:
        return len(self._tags)

    def arrive(self, flow: F) -> None:
        """The flow has something waiting from now on: it begins here, or where it was ahead to."""
        self._tags[flow] = max(self._tags.get(flow, 0.0), self.clock)

    def tag(self, flow: F) -> float:
        """Where this flow's next request begins."""
        return self._tags.get(flow, self.clock)

    def serve(self, flow: F, cost: float, weight: float) -> None:
        """A request of this flow is served now."""
        begins = self._tags.get(flow, self.clock)
        self.clock = max(self.clock, begins)
        self._tags[flow] = begins + cost / weight

    def correct(self, flow: F, cost: float, weight: float) -> None:
        """A request that was served before cost so much more than was charged, or less."""
        self._tags[flow] = self.tag(flow) + cost / weight

    def tidy(self, waiting: Container[F]) -> None:
        """Forget flows that neither wait nor are ahead; cheap enough to be called all the time."""
        if len(self._tags) >= self._crowd:
            kept = {f: tag for f, tag in self._tags.items() if tag > self.clock or f in waiting}
            self._tags = kept
            # Twice what could not be forgotten: the cost of looking is shared out.
            self._crowd = max(64, 2 * len(kept))
