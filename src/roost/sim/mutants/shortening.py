"""WIRING: defective machines: pasts that are made shorter as they should not be; see `mutants`."""

from __future__ import annotations

import msgspec

from roost.core.compacted import Trigger
from roost.core.ids import ConversationKey, ModelId, RequestId
from roost.core.pin import Pin
from roost.core.request import Terms
from roost.fleet.conversations.compacting import CompactionSettings
from roost.fleet.conversations.compaction import Asked, Compaction
from roost.fleet.conversations.compaction_effects import CompactionEffect, GiveUp, Go
from roost.fleet.coordinator import Coordinator
from roost.fleet.effects import Effect
from roost.fleet.streams.said import Said
from roost.sim.gateway.talks import Talks
from roost.sim.mutants import fittings
from roost.sim.mutants.fittings import Case
from roost.sim.world import Action


class NeverWaits(Compaction):
    """There is no debounce."""

    def __init__(self, settings: CompactionSettings) -> None:
        super().__init__(msgspec.structs.replace(settings, debounce_s=0.0))


class GoesOnWhole(Compaction):
    """A summary is noted, and the turn goes on from the whole past all the same."""

    def _finish(self, job: RequestId, text: str, now: float) -> list[CompactionEffect]:
        whole = self._jobs[job].kept
        effects = super()._finish(job, text, now)
        return [Go(job, whole) if isinstance(one, Go) else one for one in effects]


class GivesUpAtOnce(Compaction):
    """What does not fit is refused: nobody foresees it and nobody tries a rung lower."""

    def on_turn(self, job: RequestId, asked: Asked, now: float) -> list[CompactionEffect]:
        """Look at the budget alone."""
        return super().on_turn(job, msgspec.structs.replace(asked, ctx=0), now)

    def on_too_long(self, job: RequestId, now: float) -> list[CompactionEffect]:
        """Leave it at that."""
        return [GiveUp(job)]


class WaitsForWhatFailed(Compaction):
    """A summary that failed is fatal to its turn."""

    def on_summary(self, job: RequestId, text: str | None, now: float) -> list[CompactionEffect]:
        """Hear only of success."""
        if text is None:
            self._patience.drop(job)
            return []
        return super().on_summary(job, text, now)


class KeepsItQuiet(Coordinator):
    """A turn that goes on from a summary looks like any other."""

    def on_request(
        self, terms: Terms, model: ModelId, now: float, said: Said | None = None
    ) -> list[Effect]:
        """Hear nothing of it."""
        untold = msgspec.structs.replace(terms, compacted=None)
        return super().on_request(untold, model, now, said)


class TakesNoLock(Talks):
    """Work in the background looks whether a conversation is idle, and then does not take it."""

    def take(self, key: ConversationKey, job: RequestId) -> bool:
        """Only look."""
        return self.registry.state(key) == "idle"


class ThrowsWordsAway(Talks):
    """A summary takes the place of what it stands for."""

    def work(self, key: ConversationKey, trigger: Trigger) -> None:
        """Leave the background alone: there what is thrown away would be needed at once."""

    def over(self, request: RequestId, answered: str, pin: Pin | None) -> Action:
        """Keep the tail alone of what was summarised for this turn."""
        speech = self._speeches.get(request)
        after = super().over(request, answered, pin)
        if speech is not None and self.shortening.covers(speech.key):
            self._said[speech.key] = self._said[speech.key][2:]
        return after


class CountsPromptsAlone(Talks):
    """What a model has said is not counted until it comes back in a prompt."""

    def over(self, request: RequestId, answered: str, pin: Pin | None) -> Action:
        """Count what was there before the answer."""
        if pin is not None:
            tokens = pin.tokens - len(answered.split())
            pin = msgspec.structs.replace(pin, tokens=tokens)
        return super().over(request, answered, pin)


CASES: tuple[Case, ...] = (
    (
        "compacted without a pause",
        fittings.compaction(NeverWaits),
        "long_talks",
        "compactions_keep_their_distance",
    ),
    (
        "another past than the one that is noted",
        fittings.compaction(GoesOnWhole),
        "long_talks",
        "conversations_never_fork",
    ),
    (
        "too long taken for the end",
        fittings.compaction(GivesUpAtOnce),
        "long_talks",
        "long_talks_go_on",
    ),
    (
        "failed summaries fatal",
        fittings.compaction(WaitsForWhatFailed),
        "long_talks",
        "one_ending",
    ),
    (
        "compaction untold",
        fittings.coordinator(KeepsItQuiet),
        "long_talks",
        "shortenings_are_told",
    ),
    (
        "compacted without the lock",
        fittings.talks(TakesNoLock),
        "long_talks",
        "nobody_talks_meanwhile",
    ),
    (
        "words thrown away",
        fittings.talks(ThrowsWordsAway),
        "long_talks",
        "words_are_never_lost",
    ),
    (
        "answers not counted",
        fittings.talks(CountsPromptsAlone),
        "long_talks",
        "due_pasts_are_compacted",
    ),
)
