"""WIRING: gateways that are wrong about homes, one defect each."""

from __future__ import annotations

import msgspec

from roost.core.events import Started, Usage
from roost.core.ids import NodeId, RequestId
from roost.fleet.books import Books
from roost.fleet.calls import Call
from roost.fleet.choice.routing import Dice
from roost.fleet.coordinator import Coordinator
from roost.fleet.effects import Dispatch, Effect
from roost.fleet.prospects import Prospects
from roost.fleet.settings import FleetSettings
from roost.sim.mutants import fittings
from roost.sim.mutants import talks as talk_defects
from roost.sim.mutants.fittings import Case


class _Trusting(Books):
    def drained(self) -> list[Effect]:
        return [
            msgspec.structs.replace(effect, home_tokens=0)
            if isinstance(effect, Dispatch)
            else effect
            for effect in super().drained()
        ]


class TakesAnyTokenForProof(Coordinator):
    """A home with one token cached counts as one that has kept everything."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice, _Trusting(settings, dice))


class _Unmoved(Books):
    def drained(self) -> list[Effect]:
        return [
            msgspec.structs.replace(effect, home_tokens=0)
            if isinstance(effect, Dispatch) and effect.placement != "warm"
            else effect
            for effect in super().drained()
        ]


class CountsOnlyWhatAHomeForgot(Coordinator):
    """Whoever goes elsewhere, or whose home is gone, is told no cost."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice, _Unmoved(settings, dice))


class CountsWhatWasSaid(Prospects):
    """What an answer that was gone on with had said is taken for prompt."""

    def answered(self, call: Call, node: NodeId, usage: Usage, answer: str, now: float) -> None:
        """Overlook where it went on."""
        resumed, call.resumes_at = call.resumes_at, 0
        super().answered(call, node, usage, answer, now)
        call.resumes_at = resumed


class _Talkative(Books):
    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice)
        self.prospects = CountsWhatWasSaid(settings, self.registry, self.leases)


class CountsAnswersAsKept(Coordinator):
    """Of an answer that went on elsewhere a home is believed to keep every word."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice, _Talkative(settings, dice))


class ComputesAnew(Coordinator):
    """Who requires its home is served there, whatever it has forgotten."""

    def on_started(
        self, request: RequestId, attempt: int, started: Started, now: float
    ) -> list[Effect]:
        """Believe that everything is there."""
        call = self._books.calls.get(request)
        if call is not None:
            call.terms = msgspec.structs.replace(call.terms, require=False)
        return super().on_started(request, attempt, started, now)


CASES: tuple[Case, ...] = (
    ("homes forgotten", fittings.settings(affinity_entries=0), "calm", "second_turn_is_warm"),
    (
        "one token taken for proof",
        fittings.coordinator(TakesAnyTokenForProof),
        "node_killed",
        "labels_are_true",
    ),
    (
        "one token taken for proof, and nothing had failed",
        fittings.coordinator(TakesAnyTokenForProof),
        "unequal",
        "labels_are_true",
    ),
    (
        "costs of moves untold",
        fittings.coordinator(CountsOnlyWhatAHomeForgot),
        "parked",
        "losses_are_counted",
    ),
    (
        "answers that went on counted as prompt",
        fittings.coordinator(CountsAnswersAsKept),
        "replayed",
        "losses_are_counted",
    ),
    (
        "what is required computed anew",
        fittings.coordinator(ComputesAnew),
        "insisting_in_trouble",
        "homes_are_kept",
    ),
    (
        "required homes ignored",
        fittings.coordinator(talk_defects.IgnoresRequire),
        "insisting",
        "homes_are_kept",
    ),
    (
        "required homes forgotten",
        fittings.coordinator(talk_defects.ForgetsHomes),
        "insisting",
        "homes_are_kept",
    ),
)
