"""MACHINE: the line in front of the fleet: first come, first served.

It is one line for all models; the coordinator walks it from the front and passes over those whose
model has no room, so that a full model blocks only itself.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from typing import TypeAlias

import msgspec

from roost.core.ids import ModelId, RequestId


class Entry(msgspec.Struct, frozen=True):
    """One waiting request."""

    request: RequestId
    model: ModelId


News: TypeAlias = tuple[RequestId, int, int]
"""A request, its place in line from 1, and the line's length."""


class Waiting:
    """Requests in the order in which they will be looked at.

    It does not refuse by itself: a request that returns from a node was already admitted and comes
    back in front, whatever the length. The coordinator holds new arrivals to the limit.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[RequestId, Entry] = OrderedDict()
        self._told: dict[RequestId, tuple[int, int]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, request: RequestId) -> bool:
        return request in self._entries

    def append(self, entry: Entry) -> None:
        """Add a new arrival at the end."""
        assert entry.request not in self._entries, "a request waits once"
        self._entries[entry.request] = entry

    def push_front(self, entry: Entry) -> None:
        """Put a request back at the head: it waited its turn before."""
        self.append(entry)
        self._entries.move_to_end(entry.request, last=False)

    def remove(self, request: RequestId) -> bool:
        """Take a request out, for whatever reason; False if it does not wait."""
        self._told.pop(request, None)
        return self._entries.pop(request, None) is not None

    def entries(self) -> tuple[Entry, ...]:
        """Everybody who waits, in order; a copy, so that they may be taken out meanwhile."""
        return tuple(self._entries.values())

    def tell_last(self) -> News:
        """The place of the newest arrival."""
        request, length = next(reversed(self._entries)), len(self._entries)
        self._told[request] = (length, length)
        return request, length, length

    def news(self) -> list[News]:
        """Everybody whose place, or the line's length, has changed since they were last told."""
        length = len(self._entries)
        changed = [
            (request, position, length)
            for position, request in enumerate(self._entries, start=1)
            if self._told.get(request) != (position, length)
        ]
        self._told.update((request, (position, length)) for request, position, _ in changed)
        return changed

    def by_model(self) -> dict[ModelId, int]:
        """How many wait for each model."""
        return dict(Counter(entry.model for entry in self._entries.values()))
