"""WIRING: defective machines: named conversations, kept answers, dropped text; see `mutants`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from roost.core.events import Delta, StreamEvent
from roost.core.ids import ConversationKey, ModelId, RequestId
from roost.core.pin import Pin
from roost.core.request import GenerateRequest, Message, Terms
from roost.fleet.choice.routing import Dice
from roost.fleet.conversations.effects import Begin, ConversationEffect
from roost.fleet.conversations.registry import Conversations
from roost.fleet.coordinator import Coordinator
from roost.fleet.effects import Effect
from roost.fleet.line.line import Entry, Line
from roost.fleet.settings import FleetSettings
from roost.fleet.streams.relay import Relay, RelaySettings
from roost.fleet.streams.relay_effects import RelayEffect, Send
from roost.fleet.streams.said import Said
from roost.sim.gateway.talks import Speech, Talks
from roost.sim.mutants import fittings
from roost.sim.mutants.fittings import Case
from roost.sim.world import Action


class BeginsAtOnce(Conversations):
    """Turns of a conversation do not wait for each other."""

    def on_turn(
        self, key: ConversationKey, request: RequestId, now: float
    ) -> list[ConversationEffect]:
        """Take every turn for a conversation of its own."""
        return super().on_turn(ConversationKey(key + request.encode()), request, now)


class ServesTheLatest(Conversations):
    """Of those that wait the last one goes first."""

    def on_ended(self, request: RequestId, pin: Pin | None, now: float) -> list[ConversationEffect]:
        """Turn the line around first."""
        key = self._keys.get(request)
        talk = self._active.get(key) if key is not None else None
        if talk is not None and talk.waiting is not None:
            talk.waiting.reverse()
        return super().on_ended(request, pin, now)


class SweepsTheActive(Conversations):
    """Idle time counts from the beginning of a turn, so a long answer is swept away."""

    def on_turn(
        self, key: ConversationKey, request: RequestId, now: float
    ) -> list[ConversationEffect]:
        """Forget whoever has talked for too long."""
        talk = self._active.get(key)
        if talk is not None and talk.active_s + self._settings.idle_ttl_s < now:
            return [Begin(key, request)]
        return super().on_turn(key, request, now)


class RecallsTooEarly(Talks):
    """What was said before is looked up when a turn comes, not when it begins."""

    early: dict[RequestId, tuple[Message, ...]]

    def come(self, key: ConversationKey, request: GenerateRequest, terms: Terms) -> None:
        """Look it up at once."""
        self.early = {**getattr(self, "early", {}), terms.request_id: self._said.get(key, ())}
        super().come(key, request, terms)

    def recall(self, speech: Speech) -> tuple[Message, ...]:
        """Remember what it was then."""
        return self.early[speech.terms.request_id]


class ForgetsCutAnswers(Talks):
    """Only complete answers are kept, although clients have read the others."""

    def over(self, request: RequestId, answered: str, pin: Pin | None) -> Action:
        """Keep nothing here."""
        return super().over(request, "", pin)


class KeepsTheUnanswered(Talks):
    """A question stays in the past even where nobody has answered it."""

    def over(self, request: RequestId, answered: str, pin: Pin | None) -> Action:
        """Keep the question whatever came of it."""
        speech = self._speeches.get(request)
        if speech is not None and not speech.kept and not answered:
            past = self._said.get(speech.key, ())
            self._said[speech.key] = (*past, Message("user", speech.words))
        return super().over(request, answered, pin)


class IgnoresRequire(Coordinator):
    """Who requires its home is treated like everybody else."""

    def on_request(
        self, terms: Terms, model: ModelId, now: float, said: Said | None = None
    ) -> list[Effect]:
        """Hear nothing of it."""
        return super().on_request(msgspec.structs.replace(terms, require=False), model, now, said)


class ForgetsHomes(Coordinator):
    """Whoever requires its home is told that it is gone, whatever is known of it."""

    def on_request(
        self, terms: Terms, model: ModelId, now: float, said: Said | None = None
    ) -> list[Effect]:
        """Look nothing up."""
        chain = () if terms.require else terms.chain
        return super().on_request(msgspec.structs.replace(terms, chain=chain), model, now, said)


class _Rigid(Line):
    def append(self, entry: Entry) -> None:
        super().append(msgspec.structs.replace(entry, choosy=False))


class BlockedByTheChoosy(Coordinator):
    """Who waits for one node alone is taken for a sign that there is no room anywhere."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice)
        self._books.queue = _Rigid(settings.class_one_in)


class TellsTheEndFirst(Relay):
    """The end is told before the answer is kept."""

    def __init__(
        self, settings: RelaySettings, *, streamed: bool, now: float, said: Said | None = None
    ) -> None:
        changed = msgspec.structs.replace(settings, sealed=False)
        super().__init__(changed, streamed=streamed, now=now, said=said)


class DropsUntold(Relay):
    """Nobody is told what was dropped."""

    def _send(self, now: float) -> list[RelayEffect]:
        return [
            Send(effect.events) if isinstance(effect, Send) else effect
            for effect in super()._send(now)
        ]


class DropsTheNewest(Relay):
    """What comes last gives way, not what has waited longest."""

    def on_events(self, events: Sequence[StreamEvent], now: float) -> list[RelayEffect]:
        """Drop what comes while the buffer is full."""
        full = len(self._pending) >= self._settings.buffer_events
        if self._dropping and full and self._writing_since_s is not None:
            late = [event for event in events if isinstance(event, Delta)]
            self._dropped += len(late)
            self._overflowed = True
            events = [event for event in events if not isinstance(event, Delta)]
        return super().on_events(events, now)


class DropsUnasked(Relay):
    """Text is dropped for readers who did not ask for it."""

    def __init__(
        self, settings: RelaySettings, *, streamed: bool, now: float, said: Said | None = None
    ) -> None:
        changed = msgspec.structs.replace(settings, on_full="drop_oldest")
        super().__init__(changed, streamed=streamed, now=now, said=said)


CASES: tuple[Case, ...] = (
    (
        "turns begin at once",
        fittings.registry(BeginsAtOnce),
        "named",
        "turns_take_turns",
    ),
    (
        "the latest turn first",
        fittings.registry(ServesTheLatest),
        "named",
        "turns_take_turns",
    ),
    (
        "running turns swept away",
        fittings.registry(SweepsTheActive),
        "named",
        "turns_take_turns",
    ),
    (
        "past recalled too early",
        fittings.talks(RecallsTooEarly),
        "named",
        "conversations_never_fork",
    ),
    (
        "cut answers forgotten",
        fittings.talks(ForgetsCutAnswers),
        "named",
        "conversations_never_fork",
    ),
    (
        "unanswered questions kept",
        fittings.talks(KeepsTheUnanswered),
        "named",
        "conversations_never_fork",
    ),
    (
        "the choosy block the line",
        fittings.coordinator(BlockedByTheChoosy),
        "insisting",
        "places_are_used",
    ),
    ("end told first", fittings.relay(TellsTheEndFirst), "named", "ends_are_kept"),
    ("drops untold", fittings.relay(DropsUntold), "dropping", "tokens_contiguous"),
    (
        "the newest dropped",
        fittings.relay(DropsTheNewest),
        "dropping",
        "drops_are_told",
    ),
    (
        "dropped unasked",
        fittings.relay(DropsUnasked),
        "slow_clients",
        "drops_are_told",
    ),
)
