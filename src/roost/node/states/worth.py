"""MACHINE: what computing and moving a conversation take on one runtime, learned.

Bringing a session back is worth it when that takes less time than computing what it holds. On most
machines it does by far; on a quick one with a slow disk it may not.
"""

from __future__ import annotations

SLOWER = 0.05
"""The weight of a move that took longer than usual: most of those waited for a step of a neighbour,
which the stream's own first step would have waited for as well."""
COMPUTED_MIN = 32
"""A prefill of fewer tokens says nothing of the rate."""
MEMORY = 0.3
"""The weight of the newest observation."""


class Worth:
    """Rates in seconds, per token computed and per byte moved; unknown is None."""

    def __init__(self) -> None:
        self._token_s: float | None = None
        self._byte_s: float | None = None

    def on_prefill(self, tokens: int, took_s: float) -> None:
        """So many tokens of a prompt were computed in this time."""
        if tokens >= COMPUTED_MIN and took_s > 0:
            self._token_s = _learned(self._token_s, took_s / tokens, MEMORY)

    def on_move(self, size_bytes: int, took_s: float) -> None:
        """A file of this size was written or read in this time."""
        if size_bytes > 0 and took_s >= 0:
            before, now = self._byte_s, took_s / size_bytes
            slower = before is not None and now > before
            self._byte_s = _learned(before, now, SLOWER if slower else MEMORY)

    def compute_s(self, tokens: int) -> float | None:
        """How long so many tokens take to compute."""
        return None if self._token_s is None else tokens * self._token_s

    def is_worth(self, tokens: int, moved_bytes: int) -> bool:
        """Whether so many tokens take longer to compute than so many bytes to move."""
        if self._token_s is None or self._byte_s is None:
            return True
        return tokens * self._token_s > moved_bytes * self._byte_s


def _learned(before: float | None, now: float, weight: float) -> float:
    return now if before is None else before + weight * (now - before)
