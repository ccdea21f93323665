"""One effect that cannot be carried out costs itself, and nothing that comes behind it."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING

import pytest

from roost.core.events import Delta, Finished, Started, Usage
from roost.core.ids import ModelId, RequestId, TenantId
from roost.core.request import ChatPrompt, GenerateRequest, Message, Terms
from roost.fleet.coordinator import Coordinator
from roost.fleet.settings import FleetSettings
from roost.fleet.streams.relay import Relay, RelaySettings
from roost.fleet.streams.relay_effects import Commit, Done, Reject, RelayEffect, Send
from roost.gateway.mind import Mind
from roost.gateway.turns.turn import Turn
from roost.observe import logs
from roost.observe.metrics import Metrics
from tests.conftest import until

if TYPE_CHECKING:
    from roost.fleet.effects import Effect


class Clumsy:
    """A scribe that fails at effects of one kind."""

    blocked = False

    def __init__(self, fails_at: type[RelayEffect]) -> None:
        self._fails_at = fails_at
        self.seen: list[RelayEffect] = []

    def carry_out(self, turn: Turn, effect: RelayEffect) -> None:
        """Write down what is to be done, or fail."""
        if isinstance(effect, self._fails_at):
            raise ZeroDivisionError
        self.seen.append(effect)


class Ticking(Coordinator):
    """The production coordinator; it counts the looks at its clock."""

    ticks = 0

    def on_tick(self, now: float) -> list[Effect]:
        """Count one more."""
        self.ticks += 1
        return super().on_tick(now)


def turn_of(name: str, scribe: Clumsy) -> Turn:
    """A request that has arrived, written through this scribe."""
    model, now = ModelId("m"), asyncio.get_running_loop().time()
    request = GenerateRequest(model, ChatPrompt((Message("user", "hello"),)))
    terms = Terms(RequestId(name), TenantId("t"))
    return Turn(request, terms, Relay(RelaySettings(), streamed=True, now=now), scribe, "openai")


def mind_of(coordinator: Coordinator) -> Mind:
    """A mind without nodes."""
    return Mind(coordinator, Metrics(), logs.get())


async def test_a_turn_acts_on_after_an_effect_that_failed() -> None:
    """Its writer is asked for what follows, and its end is its end."""
    mind = mind_of(Coordinator(FleetSettings(), Random(1)))
    scribe = Clumsy(Commit)
    turn = turn_of("r", scribe)
    mind.expect(turn)
    with pytest.raises(ZeroDivisionError):
        turn.on_events([Started(5, 0, 0), Delta("Hel")])
    await until(lambda: bool(scribe.seen), what="the text behind what failed")
    turn.on_events([Delta("lo"), Finished("stop", Usage(5, 0, 2))])
    assert [type(effect) for effect in scribe.seen] == [Send, Send, Done]
    assert mind.turns == {}
    mind.close()


async def test_a_mind_keeps_its_clock_after_an_effect_that_failed() -> None:
    """The turn is over all the same, and time goes on for the others."""
    coordinator = Ticking(FleetSettings(idle_tick_s=0.01), Random(1))
    mind = mind_of(coordinator)
    with pytest.raises(ZeroDivisionError):
        mind.arrive(turn_of("r", Clumsy(Reject)))
    assert mind.turns == {}
    await until(lambda: coordinator.ticks > 1, what="the clock is looked at")
    scribe = Clumsy(Send)
    mind.arrive(turn_of("s", scribe))
    assert [type(effect) for effect in scribe.seen] == [Reject]
    mind.close()
