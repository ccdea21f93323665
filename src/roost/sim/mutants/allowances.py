"""WIRING: gateways that count wrongly what keys use, one defect each."""

from __future__ import annotations

from roost.core.ids import ModelId, RequestId
from roost.core.request import Terms
from roost.fleet.line.allowances import Allowances, Refused
from roost.sim.gateway.front import Front
from roost.sim.gateway.lines import Turn
from roost.sim.mutants import fittings
from roost.sim.mutants.fittings import Case
from roost.sim.play import Parts


class KeepsPlacesOfTheGone(Front):
    """Who leaves keeps its place on its account."""

    def settle(self, turn: Turn) -> None:
        """Settle with those who stay to the end."""
        if turn.relay.outcome != "client_disconnect":
            super().settle(turn)


class KeepsPlacesOfFailures(Front):
    """What has failed is never settled."""

    def settle(self, turn: Turn) -> None:
        """Settle what went well, and what was never let in."""
        if turn.relay.outcome == "complete" or turn.dispatch is None:
            super().settle(turn)


class ChargesWhatWasReserved(Allowances):
    """What a request did not take does not come back."""

    def on_spent(self, request: RequestId, tokens: int, now: float, unix_s: float) -> None:
        """Believe the estimate."""
        ticket = self._tickets.get(request)
        super().on_spent(request, ticket.tokens if ticket is not None else 0, now, unix_s)


class ForgetsWhatRuns(Allowances):
    """Places are free again at once."""

    def on_request(
        self, terms: Terms, model: ModelId, now: float, unix_s: float, *, is_free: bool = False
    ) -> Refused | None:
        """Let in, and free the place."""
        refused = super().on_request(terms, model, now, unix_s, is_free=is_free)
        if refused is None and terms.account is not None:
            self._uses[terms.account.key].under_way = 0
        return refused

    def on_spent(self, request: RequestId, tokens: int, now: float, unix_s: float) -> None:
        """Free no place twice."""
        ticket = self._tickets.get(request)
        super().on_spent(request, tokens, now, unix_s)
        if ticket is not None:
            self._uses[ticket.account.key].under_way = 0


class ReservesBeforeItRefuses(Allowances):
    """Who is refused has taken a request from the minute all the same."""

    def on_request(
        self, terms: Terms, model: ModelId, now: float, unix_s: float, *, is_free: bool = False
    ) -> Refused | None:
        """Count it, whatever becomes of it."""
        refused = super().on_request(terms, model, now, unix_s, is_free=is_free)
        if refused is not None and terms.account is not None:
            self._uses[terms.account.key].requests_missing += 1
        return refused


CASES: tuple[Case, ...] = (
    (
        "places kept for the gone",
        fittings.front(KeepsPlacesOfTheGone),
        "limited",
        "accounts_return",
    ),
    (
        "places kept for failures",
        fittings.front(KeepsPlacesOfFailures),
        "limited",
        "accounts_return",
    ),
    (
        "estimates charged",
        Parts(allowances=ChargesWhatWasReserved),
        "limited",
        "keys_refuse_with_cause",
    ),
    ("places not counted", Parts(allowances=ForgetsWhatRuns), "limited", "allowances_hold"),
    (
        "refusals charged",
        Parts(allowances=ReservesBeforeItRefuses),
        "limited",
        "keys_refuse_with_cause",
    ),
)
