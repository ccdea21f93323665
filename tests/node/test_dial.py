"""Staying joined: growing, jittered pauses, and the few reasons to stop trying."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable

import pytest

from roost.errors import Failure, fail
from roost.node.joining.dial import DialSettings, keep_joined, wait_s
from roost.observe import logs
from roost.wire.link_tables import Close
from roost.wire.memory import NodeConnection, memory_pair

SETTINGS = DialSettings(first_s=0.2, max_s=5.0)
AT_ONCE = DialSettings(first_s=0.0, max_s=5.0)
LOST = Close(Failure("node_lost", "the connection was lost"))
BYE = Close(Failure("draining", "shutting down"), again=False)
Eventually = Callable[..., Awaitable[None]]


class Ends:
    """Dice that fall on one end of the range."""

    def __init__(self, *, high: bool) -> None:
        self._high = high

    def uniform(self, a: float, b: float, /) -> float:
        """The end that was chosen."""
        return b if self._high else a


class Gateways:
    """Answers dials with what it was given, one after the other."""

    def __init__(self, *answers: Close | Failure) -> None:
        self._answers = list(answers)
        self.dials = 0

    async def dial(self) -> NodeConnection:
        """Connect, or fail as told."""
        self.dials += 1
        if isinstance(self._answers[0], Failure):
            failure = self._answers.pop(0)
            assert isinstance(failure, Failure)
            raise fail(failure.reason, failure.message)
        return memory_pair()[0]

    async def serve(self, connection: NodeConnection) -> Close:
        """Serve the link until its end, which comes at once."""
        close = self._answers.pop(0)
        assert isinstance(close, Close)
        return close


def test_pauses_double_up_to_a_limit() -> None:
    """From 0.2 s to 5 s, and not beyond, however long it takes."""
    pauses = [wait_s(SETTINGS, failures, Ends(high=True)) for failures in (1, 2, 3, 4, 5, 6, 9999)]
    assert pauses == pytest.approx([0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0])


def test_pauses_are_spread() -> None:
    """Between half and all of the step, so that nodes come back one by one."""
    assert wait_s(SETTINGS, 1, Ends(high=False)) == pytest.approx(0.1)
    dice = random.Random(1)
    spread = {round(wait_s(SETTINGS, 6, dice), 3) for _ in range(50)}
    assert len(spread) > 40
    assert all(2.5 <= pause <= 5.0 for pause in spread)


@pytest.mark.parametrize("reason", ["unauthorized", "forbidden", "not_found", "bad_request"])
async def test_a_node_that_is_not_let_in_stops_dialling(reason: str) -> None:
    """The next dial would meet the same answer: the caller is told what to do instead."""
    gateways = Gateways(Failure(reason, "make a new token"))
    failure = await _joined(gateways)
    assert failure == Failure(reason, "make a new token")
    assert gateways.dials == 1


async def test_a_goodbye_for_good_ends_it() -> None:
    """A gateway that says not to come again is believed; so is the node itself when it leaves."""
    gateways = Gateways(BYE)
    assert await _joined(gateways) == BYE.failure


async def test_everything_else_is_tried_again() -> None:
    """Nobody there, a lost link, a restart: the node comes back until it has a reason not to."""
    nobody = Failure("node_lost", "nobody answers")
    gateways = Gateways(nobody, LOST, nobody, nobody, LOST, BYE)
    assert await _joined(gateways) == BYE.failure
    assert gateways.dials == 6


class Steps:
    """Dice that remember the longest pause there could have been, and have none."""

    def __init__(self) -> None:
        self.longest_s: list[float] = []

    def uniform(self, _a: float, b: float, /) -> float:
        """No pause at all."""
        self.longest_s.append(b)
        return 0.0


async def test_a_dial_that_takes_long_is_no_link_that_stood() -> None:
    """Who swallows packets is dialled less and less often, however long each dial waits for it.

    After a link that stood for as long it begins anew.
    """
    brief_s, gateways, dice = 0.02, Gateways(LOST, LOST, LOST, BYE), Steps()
    stands = iter([False, False, True, False])

    async def while_passing(event: asyncio.Event) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), 2 * brief_s)

    async def dial() -> NodeConnection:
        await while_passing(asyncio.Event())
        return await gateways.dial()

    async def serve(connection: NodeConnection) -> Close:
        if next(stands):
            await while_passing(asyncio.Event())
        return await gateways.serve(connection)

    settings = DialSettings(first_s=0.001, max_s=brief_s)
    assert await keep_joined(dial, serve, settings, dice, logs.get()) == BYE.failure
    assert dice.longest_s == pytest.approx([0.001, 0.002, 0.001])


async def test_a_pause_can_be_cancelled(eventually: Eventually) -> None:
    """A node that is told to stop does not finish its pause first."""
    gateways = Gateways(LOST, BYE)
    async with asyncio.TaskGroup() as group:
        dice = Ends(high=True)
        settings = DialSettings(first_s=60.0, max_s=60.0)
        joining = keep_joined(gateways.dial, gateways.serve, settings, dice, logs.get())
        task = group.create_task(joining)
        await eventually(lambda: gateways.dials == 1)
        task.cancel()
    assert task.cancelled()


async def _joined(gateways: Gateways) -> Failure:
    dice = random.Random(0)
    return await keep_joined(gateways.dial, gateways.serve, AT_ONCE, dice, logs.get())
