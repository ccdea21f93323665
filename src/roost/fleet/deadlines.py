"""MACHINE: points in time at which something is due, each under a key that can be dropped."""

from __future__ import annotations

from collections.abc import Hashable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)


class Deadlines(Generic[K]):
    """A heap with lazy deletion that never holds more than twice what is alive, plus a few."""

    def __init__(self) -> None:
        self._when: dict[K, tuple[float, int]] = {}
        self._heap: list[tuple[float, int, K]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._when)

    def set(self, key: K, when_s: float) -> None:
        """Make `key` due at `when_s`; replaces an earlier time of the same key."""
        # The count keeps keys out of comparisons and equal times in the order they were set.
        self._count += 1
        self._when[key] = (when_s, self._count)
        heappush(self._heap, (when_s, self._count, key))
        if len(self._heap) > 2 * len(self._when) + 16:
            self._compact()

    def drop(self, key: K) -> None:
        """Forget `key`, if it is known."""
        self._when.pop(key, None)

    def next_s(self) -> float | None:
        """The earliest time at which something is due."""
        self._discard()
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[K]:
        """Take out every key whose time has come, earliest first."""
        keys: list[K] = []
        self._discard()
        while self._heap and self._heap[0][0] <= now:
            _, _, key = heappop(self._heap)
            del self._when[key]
            keys.append(key)
            self._discard()
        return keys

    def _discard(self) -> None:
        while self._heap and self._when.get(self._heap[0][2]) != self._heap[0][:2]:
            heappop(self._heap)

    def _compact(self) -> None:
        self._heap = [(when, count, key) for key, (when, count) in self._when.items()]
        heapify(self._heap)
