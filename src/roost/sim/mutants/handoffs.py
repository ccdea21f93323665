"""WIRING: machines that keep handoffs wrongly, one defect each."""

from __future__ import annotations

import msgspec

from roost.core.ids import NodeId, TenantId
from roost.errors import Failure
from roost.fleet.conversations.handoffs import Handoff, Handoffs
from roost.sim.mutants.fittings import Case
from roost.sim.play import Parts


class GivesToAnybody(Handoffs):
    """Whoever has the secret gets the answer."""

    def spend(self, tenant: TenantId, secret: str, now: float) -> Handoff | Failure:
        """Try it as everybody."""
        found = super().spend(tenant, secret, now)
        for other in [*self._held]:
            if isinstance(found, Failure):
                found = super().spend(other, secret, now)
        return found


class GivesTwice(Handoffs):
    """What is spent is there again."""

    def spend(self, tenant: TenantId, secret: str, now: float) -> Handoff | Failure:
        """Put it back."""
        found = super().spend(tenant, secret, now)
        if isinstance(found, Handoff) and self.reserve(tenant, now) is None:
            self.place(tenant, secret, found, now)
        return found


class KeepsForEver(Handoffs):
    """Nothing is ever too old."""

    def _sweep(self, now: float) -> None:
        """Look at nothing."""


class MakesRoom(Handoffs):
    """The oldest give way to whoever comes."""

    def reserve(self, tenant: TenantId, now: float) -> Failure | None:
        """Drop until there is room."""
        failure = super().reserve(tenant, now)
        while failure is not None and self._kept:
            _, gone = self._kept.popitem(last=False)
            self.give_up(gone.tenant)
            failure = super().reserve(tenant, now)
        return failure


class KnowsNoLimit(Handoffs):
    """There is room for everybody."""

    def reserve(self, tenant: TenantId, now: float) -> Failure | None:
        """Count, and no more."""
        self._held[tenant] += 1
        return None


class GivesNoPlaceBack(Handoffs):
    """Every place that was ever reserved stays so."""

    def give_up(self, tenant: TenantId) -> None:
        """Keep it."""


class ForgetsWhere(Handoffs):
    """Of a prompt that is computed it is not known where."""

    def place(self, tenant: TenantId, secret: str, handoff: Handoff, now: float) -> None:
        """Name a node that nobody knows."""
        pin = msgspec.structs.replace(handoff.pin, node=NodeId("nowhere"))
        super().place(tenant, secret, msgspec.structs.replace(handoff, pin=pin), now)


CASES: tuple[Case, ...] = (
    (
        "handoffs for anybody",
        Parts(handoffs=GivesToAnybody),
        "handoffs",
        "handoffs_are_answered_once",
    ),
    ("handoffs spent twice", Parts(handoffs=GivesTwice), "handoffs", "handoffs_are_answered_once"),
    ("handoffs for ever", Parts(handoffs=KeepsForEver), "handoffs", "handoffs_are_answered_once"),
    ("handoffs give way", Parts(handoffs=MakesRoom), "handoffs", "handoffs_are_kept"),
    (
        "handoffs without limit",
        Parts(handoffs=KnowsNoLimit),
        "handoffs",
        "handoffs_keep_to_their_room",
    ),
    (
        "handoffs' places kept",
        Parts(handoffs=GivesNoPlaceBack),
        "handoffs",
        "handoff_places_return",
    ),
    ("handoffs without a home", Parts(handoffs=ForgetsWhere), "handoffs", "second_turn_is_warm"),
)
