"""WIRING: more defective machines: how answers are gone on with after a death."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from roost.core.events import Delta, Started, StreamEvent, Usage
from roost.core.ids import NodeId
from roost.errors import Failure
from roost.fleet.assigning import Assigner
from roost.fleet.calls import Call
from roost.fleet.choice.routing import Dice
from roost.fleet.coordinator import Coordinator
from roost.fleet.field import Field
from roost.fleet.line.line import Entry, Line
from roost.fleet.mishaps import Mishaps
from roost.fleet.retrying import Recovery, Verdict
from roost.fleet.settings import FleetSettings
from roost.fleet.streams.relay import Relay
from roost.fleet.streams.relay_effects import Mark, RelayEffect
from roost.sim.mutants import fittings
from roost.sim.mutants.fittings import Case


class IsATokenBehind(Relay):
    """What it keeps to be gone on with lacks the newest token."""

    _newest: Delta | None = None

    def _take(self, event: StreamEvent) -> None:
        said = self.said
        if said is not None and isinstance(event, Delta):
            self.said = None
            super()._take(event)
            self.said = said
            if self._newest is not None:
                said.add(self._newest)
            self._newest = event
        else:
            super()._take(event)


class MarksTooEarly(Relay):
    """Whoever is asked to go on is told of, also one that refuses."""

    def on_restart(self, lost_to: str, now: float) -> list[RelayEffect]:
        """Say so at once."""
        super().on_restart(lost_to, now)
        if self._answering and self._streamed:
            self._pending.append(Mark(f"replayed after {lost_to}"))
        return self._flush(now)

    def _take(self, event: StreamEvent) -> None:
        told = self._streamed
        self._streamed = told and not isinstance(event, Started)
        super()._take(event)
        self._streamed = told


class CountsTheLastAttempt(Relay):
    """Of an answer that took several attempts it tells the usage of the last."""

    def whole(self, usage: Usage) -> Usage:
        """Hand it on as it is."""
        return usage


class _AnyWeights(Assigner):
    def _field(self, call: Call, now: float) -> Field:
        return self._books.prospects.candidates(call.model, now)


class OverlooksWeights(Coordinator):
    """Whatever has the model's name may go on with an answer."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice)
        self._assigner = _AnyWeights(self._books, self._placer)
        self._mishaps = Mishaps(self._books, self._assigner.hope)


class _Lavish(Recovery):
    def judge(
        self,
        call: Call,
        node: NodeId,
        failure: Failure,
        now: float,
        *,
        elsewhere: Callable[[], bool],
        again: Callable[[], bool],
    ) -> Verdict:
        if call.resumes_at:
            return "elsewhere" if elsewhere() else "answer"
        return super().judge(call, node, failure, now, elsewhere=elsewhere, again=again)


class ReplaysBeyondTheBudget(Coordinator):
    """To go on with an answer costs nothing, however often."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice)
        self._books.recovery = _Lavish(settings)


class _LongestFirst(Line):
    def push_front(self, entry: Entry) -> None:
        super().push_front(msgspec.structs.replace(entry, again=-entry.again))


class ReplaysTheLongestFirst(Coordinator):
    """Whoever needs most is computed anew first."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice)
        self._books.queue = _LongestFirst(settings.class_one_in)


CASES: tuple[Case, ...] = (
    ("replay a token behind", fittings.relay(IsATokenBehind), "replayed", "replays_go_on"),
    (
        "replay told before it is one",
        fittings.relay(MarksTooEarly),
        "deaths",
        "replays_are_told",
    ),
    (
        "replay told by its last part",
        fittings.relay(CountsTheLastAttempt),
        "replayed",
        "usage_adds_up",
    ),
    (
        "replay on other weights",
        fittings.coordinator(OverlooksWeights),
        "replayed",
        "replays_go_on",
    ),
    (
        "replay beyond the budget",
        fittings.coordinator(ReplaysBeyondTheBudget),
        "deaths",
        "retry_budget",
    ),
    (
        "longest replays first",
        fittings.coordinator(ReplaysTheLongestFirst),
        "replayed",
        "shorter_first",
    ),
)
