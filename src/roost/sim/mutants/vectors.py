"""WIRING: defective machines that vectors and scores of texts go through, one defect each."""

from __future__ import annotations

from roost.core.engine import Mode
from roost.core.events import StreamEvent, Vectors
from roost.core.ids import RequestId
from roost.fleet.choice.board import Board
from roost.fleet.models.stages import Stages
from roost.fleet.streams.relay import Relay
from roost.fleet.streams.relay_effects import RelayEffect
from roost.sim.gateway.front import Front
from roost.sim.gateway.lines import Turn
from roost.sim.mutants import fittings
from roost.sim.mutants.fittings import Case
from roost.sim.mutants.losses import OverlooksWeights
from roost.sim.mutants.various import SeesAnOldBoard


class KeepsVectorsOfTheLost(Relay):
    """What an attempt has made stays when the next one makes all of them."""

    def on_restart(self, lost_to: str, now: float) -> list[RelayEffect]:
        """Throw nothing away."""
        kept = [*self._pending]
        effects = super().on_restart(lost_to, now)
        self._pending[:0] = kept
        return effects


class TakesVectorsForWords(Front):
    """With the first vectors an answer is taken to have begun."""

    def _note(
        self, turn: Turn | None, request: RequestId, attempt: int, event: StreamEvent
    ) -> None:
        super()._note(turn, request, attempt, event)
        if isinstance(event, Vectors):
            self._feed(self.coordinator.on_first_token(request, attempt, self._world.now))


class _OneForAll(Board):
    def _stages(self, known: dict[Mode, Stages], mode: Mode) -> Stages:
        """Count all runtimes of that name together."""
        return super()._stages(known, "generate")


class CountsRuntimesByName(SeesAnOldBoard):
    """A runtime for vectors is one for chats, if they have the same name."""

    board = _OneForAll


CASES: tuple[Case, ...] = (
    (
        "vectors of the lost kept",
        fittings.relay(KeepsVectorsOfTheLost),
        "vectors",
        "vectors_come_whole",
    ),
    (
        "vectors taken for words",
        fittings.front(TakesVectorsForWords),
        "vectors",
        "vectors_are_made_again",
    ),
    (
        "what a model is for overlooked",
        fittings.coordinator(OverlooksWeights),
        "vectors",
        "models_do_what_they_are_for",
    ),
    (
        "runtimes counted by name",
        fittings.coordinator(CountsRuntimesByName),
        "vectors",
        "places_are_used",
    ),
)
