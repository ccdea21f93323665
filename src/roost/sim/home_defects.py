"""WIRING: gateways that are wrong about homes, one defect each."""

from __future__ import annotations

import msgspec

from roost.fleet.books import Books
from roost.fleet.coordinator import Coordinator
from roost.fleet.effects import Dispatch, Effect
from roost.fleet.routing import Dice
from roost.fleet.settings import FleetSettings
from roost.sim import mutants, talk_defects
from roost.sim.play import Parts


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


CASES: tuple[tuple[str, Parts, str, str], ...] = (
    ("homes forgotten", mutants.settings(affinity_entries=0), "calm", "second_turn_is_warm"),
    (
        "one token taken for proof",
        mutants.coordinator(TakesAnyTokenForProof),
        "node_killed",
        "warm_was_held",
    ),
    (
        "one token taken for proof, and nothing had failed",
        mutants.coordinator(TakesAnyTokenForProof),
        "unequal",
        "warm_was_held",
    ),
    (
        "required homes ignored",
        mutants.coordinator(talk_defects.IgnoresRequire),
        "insisting",
        "homes_are_kept",
    ),
    (
        "required homes forgotten",
        mutants.coordinator(talk_defects.ForgetsHomes),
        "insisting",
        "homes_are_kept",
    ),
)
