"""A load that has failed while it was called off: nobody waits for ever for it to be gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from roost.errors import Failure
from roost.node.agent import Agent
from roost.node.effects import Effect, Load, Unload
from roost.node.hands import Hands, Report
from roost.node.inbox import Inbox
from roost.node.perform import perform
from roost.observe import logs
from roost.wire.messages import Order
from tests.node.kit import FIRST, LINK, MODEL, SETTINGS, offer
from tests.node.tiny import TinyLaunch

BROKEN = Failure("load_failed", "the file is no model")
HUNG_S = 1.0 + SETTINGS.pace.load_stall_s
Eventually = Callable[..., Awaitable[None]]
CallsOff = Callable[[Agent], list[Effect]]


def _by_force(agent: Agent) -> list[Effect]:
    return agent.on_order(Order("job", MODEL, "unload", force=True), 1.0)


def _at_the_end(agent: Agent) -> list[Effect]:
    return agent.on_drain(1.0) + agent.on_shutdown(1.0)


def _as_hung(agent: Agent) -> list[Effect]:
    effects: list[Effect] = []
    for second in range(2, int(HUNG_S) + 2):
        effects += agent.on_tick(float(second))
    return effects


@pytest.mark.parametrize("calls_off", [_by_force, _at_the_end, _as_hung])
async def test_a_failure_that_is_overtaken_by_the_unload_is_the_end_of_the_runtime(
    calls_off: CallsOff, eventually: Eventually
) -> None:
    """Its report waits while what is before it has the runtime stopped: the lane is free then.

    Two reports wait: how far the load has come, and that it has failed.
    """
    agent, launch, inbox = Agent(SETTINGS, [offer()]), TinyLaunch(), Inbox[Report](9)
    launch.failure = BROKEN
    agent.on_link_up(LINK, 0.0)
    hands = Hands(agent, launch, inbox, logs.get())
    async with asyncio.TaskGroup() as group:
        hands.group = group
        (load,) = (one for one in agent.on_preload(MODEL, 0.0) if isinstance(one, Load))
        perform(hands, load)
        await eventually(lambda: len(inbox) == 2)
        (unload,) = (one for one in calls_off(agent) if isinstance(one, Unload))
        assert unload.runtime == FIRST
        perform(hands, unload)
        while (report := inbox.take()) is not None:
            report(HUNG_S + 9.0)
    assert agent.statistics().runtimes == 0
    assert hands.loads == {}
