"""WIRING: defective machines, one defect each, that the checkers have to find.

They are variants of the production machines, made by subclass or by setting; what each breaks is
its docstring. The wiring is the production one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from roost.core.events import Delta, Finished, StreamEvent
from roost.core.fence import Fence
from roost.core.ids import ModelId, NodeId, RequestId
from roost.core.snapshots import LinkState, ModelOffer
from roost.errors import Failure
from roost.fleet.books import Books
from roost.fleet.calls import Call, Calls
from roost.fleet.choice.routing import Dice
from roost.fleet.coordinator import Coordinator
from roost.fleet.effects import Dispatch, Effect, Withdraw
from roost.fleet.field import Field, field_of
from roost.fleet.mishaps import Mishaps
from roost.fleet.prospects import Prospects
from roost.fleet.settings import FleetSettings
from roost.fleet.streams.relay import Relay
from roost.fleet.streams.relay_effects import Abandon, Done, Grant, RelayEffect, Send
from roost.node import effects as node_effects
from roost.node.agent import Agent
from roost.node.fence import Fences, Standing
from roost.node.settings import AgentSettings
from roost.sim.gateway.front import Front
from roost.sim.mutants import fittings
from roost.sim.play import Parts
from roost.wire.messages import Cancel, Credit, Open, Released

T = TypeVar("T")


class FirstInOrder:
    """Dice that always fall on the first side."""

    def choice(self, seq: Sequence[T], /) -> T:
        """Always the first."""
        return seq[0]


class KeepsLeasesOfTheGone(Coordinator):
    """A cancelled request's lease is never given back."""

    _forgotten: frozenset[RequestId] = frozenset()

    def on_client_gone(self, request: RequestId, now: float) -> list[Effect]:
        """Forget what is to be released."""
        self._forgotten |= {request}
        return super().on_client_gone(request, now)

    def on_released(self, request: RequestId, attempt: int, now: float) -> list[Effect]:
        """Release everything else."""
        return [] if request in self._forgotten else super().on_released(request, attempt, now)


class _ReleasingBooks(Books):
    def end(self, call: Call, outcome: str, now: float) -> None:
        super().end(call, outcome, now)
        self.leases.release(call.id, call.attempt)


class ReleasesBeforeTheNode(Coordinator):
    """A place counts as free when the request ends, not when the node says so."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice, _ReleasingBooks(settings, dice))


class RetriesAfterAByte(Coordinator):
    """The first byte is not remembered."""

    def on_first_token(self, request: RequestId, attempt: int, now: float) -> list[Effect]:
        """Remember the home and forget the byte."""
        effects = super().on_first_token(request, attempt, now)
        call = self._books.calls.get(request)
        if call is not None:
            call.answered = False
        return effects


class _AnyAttempt(Calls):
    def current(self, request: RequestId, attempt: int) -> Call | None:
        call = self._calls.get(request)
        return call if call is not None and call.node is not None else None


class BelievesLateEvents(Coordinator):
    """Events of an attempt that is over count for the current one."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice)
        self._books.calls = _AnyAttempt()


class _Patient(Mishaps):
    def fell_silent(self, node: NodeId, state: LinkState, now: float) -> None:
        if state == "dead":
            super().fell_silent(node, state, now)


class _InPlace(Mishaps):
    def setback(self, call: Call, failure: Failure, now: float) -> None:
        super().setback(call, failure, now)
        call.tried.clear()


class NeverGivesUpOnSilence(Coordinator):
    """What runs on a stale node is waited for until the link is dead."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice)
        self._mishaps = _Patient(self._books, self._assigner.hope)


class RetriesInPlace(Coordinator):
    """The node that failed a request is a candidate for it again."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice)
        self._mishaps = _InPlace(self._books, self._assigner.hope)


class _Blind(Prospects):
    blind_to: str = ""

    def candidates(self, model: ModelId, now: float) -> Field:
        return field_of(
            msgspec.structs.replace(one, closed="") if one.closed == self.blind_to else one
            for one in super().candidates(model, now).candidates
        )


class OverlooksDraining(Coordinator):
    """The filter for draining nodes is missing."""

    blind_to = "draining"

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice)
        books = self._books
        blind = _Blind(settings, books.registry, books.leases)
        blind.blind_to = self.blind_to
        books.prospects = blind


class OverlooksLeases(OverlooksDraining):
    """Capacity is judged without what is already out."""

    blind_to = "busy"


class _Hintless(Books):
    def answer(self, call: Call, failure: Failure, now: float) -> None:
        super().answer(call, Failure(failure.reason, failure.message), now)


class AnswersWithoutHint(Coordinator):
    """Refusals do not say when to come back."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice, _Hintless(settings, dice))


class _Speechless(Books):
    def answer(self, call: Call, failure: Failure, now: float) -> None:
        if failure.reason == "node_lost":
            self.end(call, failure.reason, now)
        else:
            super().answer(call, failure, now)


class ForgetsTheLost(Coordinator):
    """Requests of a lost node are dropped without a word."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice, _Speechless(settings, dice))


class _Possessive(Books):
    def drained(self) -> list[Effect]:
        return [effect for effect in super().drained() if not isinstance(effect, Withdraw)]


class NeverWithdraws(Coordinator):
    """Nodes are not told that a request is over."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice, _Possessive(settings, dice))


class NeverLooksAgain(Coordinator):
    """A place that becomes free is not offered to those who wait."""

    def on_released(self, request: RequestId, attempt: int, now: float) -> list[Effect]:
        """Release, and leave it at that."""
        self._books.leases.release(request, attempt)
        return []


class Lenient(Relay):
    """A relay that lets an answer begin again, so that the damage reaches the client."""

    def on_restart(self, lost_to: str, now: float) -> list[RelayEffect]:
        """Begin again without asking."""
        return []


class LosesMerged(Relay):
    """Of what piled up behind a slow reader only the newest piece is sent."""

    def _send(self, now: float) -> list[RelayEffect]:
        deltas = [event for event in self._pending if isinstance(event, Delta)]
        ends = [event for event in self._pending if isinstance(event, Finished)]
        self._pending = [*deltas[-1:], *ends]
        return super()._send(now)


class SendsTwice(Relay):
    """A piece that was sent is sent again with the next one."""

    _last: tuple[StreamEvent, ...] = ()

    def _send(self, now: float) -> list[RelayEffect]:
        effects = super()._send(now)
        again = [
            Send((*self._last, *effect.events)) if isinstance(effect, Send) else effect
            for effect in effects
        ]
        self._last = tuple(
            event
            for effect in effects
            if isinstance(effect, Send)
            for event in effect.events
            if isinstance(event, Delta)
        )
        return again


class EndsCleanly(Relay):
    """A cut stream looks like a finished one."""

    def on_answer(self, failure: Failure, now: float) -> list[RelayEffect]:
        """Say goodbye as if all were well."""
        if self.outcome is None and self.committed:
            return self._end("complete", Done())
        return super().on_answer(failure, now)


class WaitsForEver(Relay):
    """A stuck writer has no deadline."""

    def on_tick(self, now: float) -> list[RelayEffect]:
        """Ignore the writer's deadline."""
        if self._writing_since_s is not None:
            self._writing_since_s = now
        return super().on_tick(now)


class GrantsNothing(Relay):
    """The node's credit is never renewed."""

    def _grant(self) -> list[RelayEffect]:
        return []


class GrantsTooMuch(Relay):
    """Credit is renewed while the reader is stuck."""

    def _flush(self, now: float) -> list[RelayEffect]:
        return [*super()._flush(now), *([] if self._finished else [Grant(1)])]


class HangsUpSilently(Relay):
    """A client that leaves is not reported."""

    def on_client_gone(self, now: float) -> list[RelayEffect]:
        """Keep it to ourselves."""
        effects = super().on_client_gone(now)
        return [effect for effect in effects if not isinstance(effect, Abandon)]


class IgnoresCancel(Agent):
    """A node that goes on computing for nobody."""

    def on_message(
        self, link: int, message: Open | Credit | Cancel, now: float
    ) -> list[node_effects.Effect]:
        """Hear everything but a Cancel."""
        return [] if isinstance(message, Cancel) else super().on_message(link, message, now)


class IgnoresLostLinks(Agent):
    """A node that goes on for a gateway that is gone."""

    def on_link_down(self, link: int, now: float) -> list[node_effects.Effect]:
        """Keep the streams of a link that is down."""
        return []


class ReleasesTwice(Agent):
    """A node that says Released twice."""

    def on_closed(
        self, key: node_effects.StreamKey, failure: Failure | None, now: float
    ) -> list[node_effects.Effect]:
        """Repeat the last word."""
        effects = super().on_closed(key, failure, now)
        twice = [
            effect
            for effect in effects
            if isinstance(effect, node_effects.Send) and isinstance(effect.message, Released)
        ]
        return [*effects, *twice]


class _Fenceless(Fences):
    def admit(self, fence: Fence) -> Standing:
        return "first"


class KnowsNoFences(Agent):
    """A node that works for whoever asks."""

    def __init__(self, given: AgentSettings, offers: Sequence[ModelOffer]) -> None:
        super().__init__(given, offers)
        self._fences = _Fenceless(given.fences_max)


class _Timeless(Books):
    def drained(self) -> list[Effect]:
        return [
            msgspec.structs.replace(effect, epoch=1) if isinstance(effect, Dispatch) else effect
            for effect in super().drained()
        ]


class NeverRaisesTheEpoch(Coordinator):
    """Every attempt carries the same epoch."""

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice, _Timeless(settings, dice))


class OverlooksItsLimit(Agent):
    """A node that takes whatever comes and never says that it is full."""

    def _why_not(self, message: Open) -> Failure | None:
        failure = super()._why_not(message)
        return None if failure is not None and failure.reason == "node_busy" else failure


class LetsLateEventsThrough(Front):
    """A shell that shows a client what a withdrawn attempt still says."""

    def _withdraw(self, effect: Withdraw) -> None:
        super()._withdraw(effect)
        turn = self.turns.get(effect.request)
        if turn is not None:
            turn.withdrawn = False


def tie_by_order() -> Parts:
    """Ties go to the first node."""
    return Parts(coordinator=lambda given, _dice: Coordinator(given, FirstInOrder()))


def retries_after_a_byte() -> Parts:
    """The byte is forgotten, and the relay does not mind."""
    return msgspec.structs.replace(fittings.relay(Lenient), coordinator=RetriesAfterAByte)
