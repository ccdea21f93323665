"""MACHINE: looks for the most users that a server carries, for several bounds at once.

First coarse: doubled levels, once each, until every bound was broken or the last level is reached.
Then fine: for each bound the levels between the last that held and the first that did not, halved
until they are neighbours, each played several times and judged by its median. What was played for
one bound is known to the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median


class Search:
    """One search. `bounds` names what is looked for; every level up to `users_max` can be played.

    Ask `next_level` what to play, and tell `on_played` for each bound how far it was exceeded:
    above 0 is broken.
    """

    def __init__(self, bounds: tuple[str, ...], users_max: int, repeats: int, step: int) -> None:
        if users_max < 1 or repeats < 1 or step < 1:
            raise ValueError("levels, repeats and steps are at least 1")
        self._bounds = bounds
        self._users_max = users_max
        self._repeats = repeats
        self._step = step
        self._seen: dict[int, list[Mapping[str, float]]] = {}
        self._coarse: list[int] = []

    def next_level(self) -> int | None:
        """Return how many users to play next; None when every bound's level is known."""
        coarse = self._next_coarse()
        if coarse is not None:
            return coarse
        fine = (self._next_fine(bound) for bound in self._bounds)
        return next((users for users in fine if users is not None), None)

    def on_played(self, users: int, excess: Mapping[str, float]) -> None:
        """Note one play of a level."""
        self._seen.setdefault(users, []).append(excess)
        if users not in self._coarse and self._next_coarse() == users:
            self._coarse.append(users)

    def found(self, bound: str) -> int:
        """Return the highest level that holds below the first that does not; 0 for none."""
        held = 0
        for users in sorted(self._seen):
            if self._broken(users, bound):
                break
            held = users
        return held

    def _next_coarse(self) -> int | None:
        if not self._coarse:
            return 1
        last = self._coarse[-1]
        if last >= self._users_max or all(self._broken(last, bound) for bound in self._bounds):
            return None
        return min(2 * last, self._users_max)

    def _next_fine(self, bound: str) -> int | None:
        """Return a level in the middle of what is not known, or one that was played too seldom."""
        held = self.found(bound)
        broken = min((u for u in self._seen if u > held and self._broken(u, bound)), default=None)
        if broken is None:
            return None
        for users in (broken, held):
            if 0 < len(self._seen.get(users, ())) < self._repeats:
                return users
        if broken - held <= self._step:
            return None
        return (held + broken) // 2

    def _broken(self, users: int, bound: str) -> bool:
        return median(play[bound] for play in self._seen[users]) > 0
