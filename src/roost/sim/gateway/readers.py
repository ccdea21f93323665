"""MACHINE: the clients of a simulated gateway: what their relays want written, and when it is."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from roost.core.events import Delta
from roost.core.ids import RequestId
from roost.core.request import GenerateRequest, Terms
from roost.fleet.streams import relay_effects as relayed
from roost.fleet.streams.relay import Relay
from roost.sim.gateway.ledger import Ledger
from roost.sim.gateway.lines import Reader, Turn
from roost.sim.world import Alarm, Process, World


class Clerk(Protocol):
    """Who hears what is no client's business."""

    def grant(self, turn: Turn, messages: int) -> None:
        """There is room for so many more messages of its node."""
        ...

    def keep(self, turn: Turn) -> None:
        """Its client has everything but the end: what was said may be kept."""
        ...

    def over(self, turn: Turn) -> None:
        """It has ended, however it did."""
        ...

    def client_gone(self, request: RequestId) -> None:
        """Nobody reads it any more."""
        ...


class Readers:
    """`turns` are the live requests, whoever they are for."""

    def __init__(self, world: World, ledger: Ledger, clerk: Clerk) -> None:
        self.turns: dict[RequestId, Turn] = {}
        self._world = world
        self._ledger = ledger
        self._clerk = clerk

    def expect(
        self,
        process: Process,
        request: GenerateRequest,
        terms: Terms,
        reader: Reader,
        relay: Relay,
    ) -> None:
        """A client waits for this; what becomes of it happens in the process."""
        alarm = Alarm(process, partial(self._tick, terms.request_id))
        turn = Turn(request, terms, relay, reader, alarm)
        self.turns[terms.request_id] = turn
        turn.alarm.set(relay.next_tick())

    def sealed(self, request: RequestId) -> None:
        """What was said in a turn is kept."""
        turn = self.turns.get(request)
        if turn is not None:
            self.carry_out(turn, turn.relay.on_sealed(self._world.now))

    def hang_up(self, request: RequestId) -> None:
        """The client's connection is seen to be gone."""
        turn = self.turns.get(request)
        if turn is not None:
            self.carry_out(turn, turn.relay.on_client_gone(self._world.now))

    def carry_out(self, turn: Turn, effects: list[relayed.RelayEffect]) -> None:
        """Do what a relay asks for, and see whether that was the end."""
        for effect in effects:
            self._do(turn, effect)
        if turn.relay.outcome is None:
            turn.alarm.set(turn.relay.next_tick())
        elif self.turns.pop(turn.terms.request_id, None) is not None:
            turn.reader.ended()
            self._clerk.over(turn)

    def _do(self, turn: Turn, effect: relayed.RelayEffect) -> None:
        request = turn.terms.request_id
        match effect:
            case relayed.Commit():
                self._ledger.committed(request)
            case relayed.Send():
                self._ledger.sent(request, effect.events, effect.dropped)
                turn.offered = "".join(e.text for e in effect.events if isinstance(e, Delta))
                turn.reader.take(effect.events, partial(self._written, request))
            case relayed.KeepAlive():
                turn.reader.comment(partial(self._written, request))
            case relayed.Grant():
                self._clerk.grant(turn, effect.messages)
            case relayed.Seal():
                self._clerk.keep(turn)
            case relayed.Done():
                self._ledger.ended(request, "complete", None)
            case relayed.Reject():
                self._ledger.ended(request, "rejected", effect.failure)
            case relayed.Break():
                self._ledger.ended(request, "broken", effect.failure)
            case relayed.Abandon():
                gone = effect.reason == "client_gone"
                self._ledger.ended(request, "client_gone" if gone else "write_timeout", None)
                self._clerk.client_gone(request)

    def _written(self, request: RequestId) -> None:
        turn = self.turns.get(request)
        if turn is not None:
            turn.reached, turn.offered = turn.reached + turn.offered, ""
            self._ledger.written(request)
            self.carry_out(turn, turn.relay.on_written(self._world.now))

    def _tick(self, request: RequestId) -> None:
        turn = self.turns.get(request)
        if turn is not None:
            self.carry_out(turn, turn.relay.on_tick(self._world.now))
