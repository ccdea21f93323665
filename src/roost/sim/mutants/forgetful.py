"""WIRING: defective memories: of keys and what was told, of streams and their readers."""

from __future__ import annotations

from collections.abc import Callable

from roost.core.ids import TenantId
from roost.fleet.streams.idempotency import Claim, Idempotency, IdempotencySettings, Name, Verdict
from roost.fleet.streams.stream_log import StreamLog
from roost.sim.mutants.fittings import Case
from roost.sim.play import Parts
from roost.sim.traffic.workload import ClientParts


class SharesKeys(Idempotency):
    """A key is a key, whoever sends it."""

    def _name(self, claim: Claim) -> Name:
        return (TenantId(""), claim.key)


class TakesAnyBody(Idempotency):
    """Whatever comes under a known key is the same request."""

    def _same(self, known: object, claim: Claim) -> bool:
        return True


class KeepsRefusals(Idempotency):
    """A request that came to nothing is remembered as one that was answered."""

    _now = 0.0

    def on_request(self, claim: Claim, now: float) -> Verdict:
        """Remember the time."""
        self._now = now
        return super().on_request(claim, now)

    def on_untold(self, claim: Claim) -> None:
        """Tell nothing again."""
        self.on_told(claim, b"", self._now)


class ForgetsTheRunning(Idempotency):
    """A key is known once its request has ended, and not before."""

    def on_request(self, claim: Claim, now: float) -> Verdict:
        """Forget who runs, and look then."""
        entry = self._entries.get(self._name(claim))
        if entry is not None and entry.running:
            del self._entries[self._name(claim)]
        return super().on_request(claim, now)


class ForgetsTheAnswered(Idempotency):
    """A key is free again once its request has ended, however it did."""

    def on_told(self, claim: Claim, answer: bytes | None, now: float) -> None:
        """Free the key."""
        self.on_untold(claim)


class ForgetsTooEarly(Idempotency):
    """What was told is remembered for a moment only."""

    def __init__(self, settings: IdempotencySettings) -> None:
        super().__init__(IdempotencySettings(ttl_s=0.5))


class SkipsOne(StreamLog):
    """Whoever comes back is a step too far."""

    def on_attach(self, wanted: int) -> bool:
        """Begin after the event that is wanted, where something has been read."""
        return super().on_attach(min(wanted + 1, self.next) if wanted else wanted)


class RepeatsOne(StreamLog):
    """Whoever comes back hears the last event again."""

    def on_attach(self, wanted: int) -> bool:
        """Begin before the event that is wanted."""
        return super().on_attach(max(wanted - 1, self.first))


class GivesWhatThereIs(StreamLog):
    """What has fallen out is passed over in silence."""

    def on_attach(self, wanted: int) -> bool:
        """Begin with the oldest where that is younger."""
        return super().on_attach(max(wanted, self.first))


def keys(kind: Callable[[IdempotencySettings], Idempotency]) -> Parts:
    """Production parts but for the memory of keys."""
    return Parts(clients=ClientParts(keys=kind))


def log(kind: Callable[[float, int], StreamLog]) -> Parts:
    """Production parts but for the logs of streams."""
    return Parts(clients=ClientParts(log=kind))


CASES: tuple[Case, ...] = (
    (
        "keys of all tenants in one",
        keys(SharesKeys),
        "keyed",
        "repeats_get_their_own_answer",
    ),
    (
        "another body under a key",
        keys(TakesAnyBody),
        "keyed",
        "repeats_get_their_own_answer",
    ),
    (
        "refusals kept under a key",
        keys(KeepsRefusals),
        "keyed",
        "repeats_get_their_own_answer",
    ),
    (
        "key of the running lost",
        keys(ForgetsTheRunning),
        "keyed",
        "one_run_per_key",
    ),
    (
        "key of the answered lost",
        keys(ForgetsTheAnswered),
        "keyed",
        "one_run_per_key",
    ),
    (
        "keys forgotten too early",
        keys(ForgetsTooEarly),
        "keyed",
        "one_run_per_key",
    ),
    (
        "reader back a step too far",
        log(SkipsOne),
        "wandering",
        "returned_readers_miss_nothing",
    ),
    (
        "reader back a step too early",
        log(RepeatsOne),
        "wandering",
        "returned_readers_miss_nothing",
    ),
    (
        "what has fallen out passed over",
        log(GivesWhatThereIs),
        "wandering",
        "returned_readers_miss_nothing",
    ),
)
