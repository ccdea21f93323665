"""MACHINE: how many bytes of request bodies are held, of all connections together.

Each body has its own limit, but that times the number of connections is more than a machine has.
"""

from __future__ import annotations


class Bodies:
    """A budget in bytes: every piece of body takes from it, every finished request gives back.

    `max_bytes` may change at any time: what is held already stays.
    """

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0

    def room_for(self, count: int) -> bool:
        """Whether this many bytes more would fit now."""
        return self.held_bytes + count <= self.max_bytes

    def take(self, count: int) -> None:
        """Hold this many bytes more."""
        self.held_bytes += count

    def give_back(self, count: int) -> None:
        """Hold this many bytes less."""
        self.held_bytes -= count
