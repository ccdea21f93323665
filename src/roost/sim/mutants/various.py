"""WIRING: more defective machines: the line, caps, breakers, operators, the board."""

from __future__ import annotations

from roost.core.events import Finished
from roost.core.ids import ModelId, NodeId, RequestId, TenantId
from roost.errors import Failure
from roost.fleet.books import Books
from roost.fleet.calls import Call, Stopped, Stopper
from roost.fleet.choice.board import Board
from roost.fleet.choice.routing import Dice
from roost.fleet.coordinator import Coordinator
from roost.fleet.effects import Effect, Report
from roost.fleet.line.line import Entry, Line
from roost.fleet.mishaps import Mishaps
from roost.fleet.settings import FleetSettings
from roost.sim.mutants import fittings
from roost.sim.mutants.fittings import Case


class _Fifo(Line):
    def _merged(self, fresh: list[Entry]) -> list[Entry]:
        return fresh


class _Free(Line):
    def charge(self, tenant: TenantId, cost: float, weight: float, talk: bytes) -> None:
        pass


class _Classless(Line):
    def _merged(self, fresh: list[Entry]) -> list[Entry]:
        return self._by_share(fresh)


class _Upside(Line):
    def _merged(self, fresh: list[Entry]) -> list[Entry]:
        return super()._merged(fresh)[::-1]


class _Stubborn(Line):
    def surplus(self, newcomer: RequestId) -> RequestId:
        return newcomer


class FirstComeFirstServed(Coordinator):
    """The line knows no tenants."""

    line: type[Line] = _Fifo

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice)
        self._books.queue = self.line(settings.class_one_in)


class ChargesNobody(FirstComeFirstServed):
    """Service is on nobody's account."""

    line = _Free


class KnowsNoClasses(FirstComeFirstServed):
    """Bulk is as good as interactive."""

    line = _Classless


class ServesTheLastFirst(FirstComeFirstServed):
    """The line is walked from its end."""

    line = _Upside


class RefusesNewcomers(FirstComeFirstServed):
    """A full line is full for everybody, whoever filled it."""

    line = _Stubborn


class IgnoresCancelById(Coordinator):
    """A cancel by id is heard and forgotten."""

    def on_cancel(self, request: RequestId, tenant: TenantId | None, now: float) -> list[Effect]:
        """Do nothing."""
        return []


class _Unstoppable(Books):
    def stop(self, call: Call, by: Stopper, now: float) -> None:
        call.stopped = Stopped(by, call.phase, None)


class StopsWithoutWithdrawing(Coordinator):
    """Stopped requests run on at their nodes."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice, _Unstoppable(settings, dice))


class IgnoresTheOperator(Coordinator):
    """A drained node gets work all the same."""

    def on_drain_node(self, node: NodeId, now: float) -> list[Effect]:
        """Do nothing."""
        return []


class NeverTakesBack(Coordinator):
    """A node that was drained once stays out."""

    def on_undrain_node(self, node: NodeId, now: float) -> list[Effect]:
        """Do nothing."""
        return []


class _Touchy(Mishaps):
    def setback(self, call: Call, failure: Failure, now: float) -> None:
        node = call.node
        if failure.reason == "node_busy" and node is not None:
            self._blame(node, call, now)
        super().setback(call, failure, now)


class BreakerCountsBusy(Coordinator):
    """A refusal for lack of room counts as a failure."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice)
        self._mishaps = _Touchy(self._books, self._assigner.hope)


class _Zeroing(Mishaps):
    def _blame(self, node: NodeId, call: Call, now: float) -> None:
        super()._blame(node, call, now)
        self._books.leases.release_node(node)


class FailureZeroesCounters(Coordinator):
    """A failure of one request gives back the places of all."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice)
        self._mishaps = _Zeroing(self._books, self._assigner.hope)


class BreakerNeverCloses(Coordinator):
    """Nobody counts what went well."""

    def _served(self, call: Call, node: NodeId, now: float) -> None:
        """Count nothing."""


class _Frozen(Board):
    def touch(self, node: NodeId) -> None:
        """See nothing of leases and reports."""


class SeesAnOldBoard(Coordinator):
    """Candidates are not remade when their leases change."""

    board: type[Board] = _Frozen

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice)
        books = self._books
        books.prospects.board = self.board(settings, books.registry, books.leases)


class AnswersTheFinished(Coordinator):
    """A request that has finished is cancelled as well."""

    def on_finished(
        self, request: RequestId, attempt: int, finished: Finished, answer: str, now: float
    ) -> list[Effect]:
        """Cancel first, finish then."""
        effects = self.on_cancel(request, None, now)
        return effects + super().on_finished(request, attempt, finished, answer, now)


class TripsForNothing(Coordinator):
    """A breaker is reported open although nothing has failed."""

    def on_node_joined(self, node: NodeId, name: str, instance: str, now: float) -> list[Effect]:
        """Report what is not."""
        effects = super().on_node_joined(node, name, instance, now)
        return [*effects, Report("node_state", node=node, reason="breaker_open", model=ModelId(""))]


CASES: tuple[Case, ...] = (
    (
        "line without tenants",
        fittings.coordinator(FirstComeFirstServed),
        "flood",
        "newcomers_are_served",
    ),
    (
        "nobody charged",
        fittings.coordinator(ChargesNobody),
        "flood",
        "newcomers_are_served",
    ),
    (
        "newcomers refused",
        fittings.coordinator(RefusesNewcomers),
        "flood",
        "floods_give_way",
    ),
    (
        "classes not known",
        fittings.coordinator(KnowsNoClasses),
        "classes",
        "better_classes_first",
    ),
    (
        "line walked backwards",
        fittings.coordinator(ServesTheLastFirst),
        "classes",
        "better_classes_first",
    ),
    (
        "cancel by id ignored",
        fittings.coordinator(IgnoresCancelById),
        "cancelled",
        "cancelled_requests_end",
    ),
    (
        "stopped and not withdrawn",
        fittings.coordinator(StopsWithoutWithdrawing),
        "cancelled",
        "cancelled_work_stops",
    ),
    (
        "cancelled after the end",
        fittings.coordinator(AnswersTheFinished),
        "calm",
        "fleet_recovers",
    ),
    (
        "operator's drain ignored",
        fittings.coordinator(IgnoresTheOperator),
        "parked",
        "no_work_for_draining",
    ),
    (
        "drained for ever",
        fittings.coordinator(NeverTakesBack),
        "parked",
        "places_are_used",
    ),
    (
        "breaker counts busy",
        fittings.coordinator(BreakerCountsBusy),
        "crowded",
        "breakers_have_causes",
    ),
    (
        "breaker without cause",
        fittings.coordinator(TripsForNothing),
        "calm",
        "breakers_have_causes",
    ),
    (
        "breaker never closes",
        fittings.coordinator(BreakerNeverCloses),
        "load_failures",
        "breakers_close",
    ),
    (
        "failure zeroes the counters",
        fittings.coordinator(FailureZeroesCounters),
        "poison",
        "places_within_limits",
    ),
    (
        "board blind to leases",
        fittings.coordinator(SeesAnOldBoard),
        "calm",
        "places_within_limits",
    ),
)
