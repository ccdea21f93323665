"""MACHINE: one server of a stateless gateway, and which servers may answer for which model."""

from __future__ import annotations

import math
from collections.abc import Iterable

from roost.fleet.upstream.effects import Health, ServerView

GAPS = 4.0
"""How many times its longest usual silence makes a server's silence a stall."""
_FADES = 0.9
"""What an old longest silence counts after each answer that was quicker."""


class PoolServer:
    """What the pool knows of one server."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.health: Health = "unknown"
        self.in_flight = 0
        self.served = 0
        self.errors_in_row = 0
        self.failed_at = -math.inf
        self.drained = False
        self.leaving = False
        self.stalled = False
        self.models: tuple[str, ...] | None = None
        self._gap_s = 0.0

    @property
    def working(self) -> bool:
        """Whether it may get new work, as soon as it has room."""
        return self.health == "healthy" and not self.drained and not self.leaving

    def learn(self, longest_s: float) -> None:
        """Take in the longest silence of an answer that came through.

        The time to the first byte counts as one: of an answer that is not streamed it is all.
        """
        faded_s = _FADES * self._gap_s + (1 - _FADES) * longest_s
        self._gap_s = max(longest_s, faded_s)

    def stalls(self, silence_s: float | None, stall_s: float) -> bool:
        """Whether this silence, the shortest of those on it, means that it hangs."""
        if silence_s is None or self.health != "healthy":
            return False
        return silence_s > max(stall_s, GAPS * self._gap_s)

    def renew(self) -> None:
        """Forget what was learnt: another server stands behind the name."""
        self.errors_in_row = 0
        self.failed_at = -math.inf
        self.models = None
        self._gap_s = 0.0

    def view(self) -> ServerView:
        """Show it."""
        return ServerView(
            self.name,
            self.health,
            self.in_flight,
            self.served,
            self.drained or self.leaving,
            self.stalled,
            self.models,
        )


class Catalogue:
    """Who may answer for a model: who lists it, and who tells nothing; for one nobody lists, all.

    A front without knowledge of its own must not refuse what a server might take: some serve
    their one model under any name.
    """

    def __init__(self, servers: Iterable[PoolServer]) -> None:
        self._all = tuple(server for server in servers if not server.leaving)
        lists = [(server, frozenset(server.models or ())) for server in self._all]
        known = frozenset(model for _, models in lists for model in models)
        self._by_model = {
            model: tuple(s for s, models in lists if s.models is None or model in models)
            for model in known
        }

    @property
    def picky(self) -> bool:
        """Whether a request's model makes a difference."""
        return any(len(servers) < len(self._all) for servers in self._by_model.values())

    def servers_for(self, model: str | None) -> tuple[PoolServer, ...]:
        """Return those that may get a request for this model; None for one that names none."""
        return self._all if model is None else self._by_model.get(model, self._all)
