"""A machine's timer: rings in time, seldom twice, and never after its end."""

from __future__ import annotations

import asyncio
import gc
import weakref

import uvloop

from roost.gateway.alarm import Alarm
from tests.conftest import Eventually


class Clock:
    """Counts rings."""

    def __init__(self) -> None:
        self.alarm = Alarm(asyncio.get_running_loop(), self.ring)
        self.rings = 0

    def ring(self) -> None:
        """Count."""
        self.rings += 1


async def test_an_earlier_time_replaces_a_later_one(eventually: Eventually) -> None:
    """It rings by the earliest time asked for, once, and can be set again."""
    clock, now = Clock(), asyncio.get_running_loop().time()
    clock.alarm.set(now + 3600)
    clock.alarm.set(now)
    clock.alarm.set(now + 3600)
    clock.alarm.set(None)
    await eventually(lambda: clock.rings == 1)
    clock.alarm.set(now)
    await eventually(lambda: clock.rings == 2)
    clock.alarm.end()


async def test_what_has_ended_does_not_ring_and_is_held_by_nobody() -> None:
    """Its owner goes at once: nothing of the two is left for the collector of cycles."""
    clock, now = Clock(), asyncio.get_running_loop().time()
    clock.alarm.set(now)
    clock.alarm.end()
    clock.alarm.end()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert clock.rings == 0
    left = weakref.ref(clock)
    gc.disable()
    try:
        del clock
        assert left() is None
    finally:
        gc.enable()


def test_a_time_that_has_come_is_a_time_on_every_loop() -> None:
    """The loop of production gives another kind of handle for it; a second time may follow."""

    async def rings() -> int:
        clock, loop = Clock(), asyncio.get_running_loop()
        for when_s in (loop.time() - 1, loop.time() - 2, loop.time() + 3600):
            clock.alarm.set(when_s)
        for _ in range(5):
            await asyncio.sleep(0)
        clock.alarm.end()
        return clock.rings

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(rings()) == 1
