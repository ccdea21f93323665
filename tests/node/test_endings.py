"""Runtimes whose backend does not come back from ending them: the node ends all the same."""

from __future__ import annotations

import asyncio

import pytest

from roost.core.ids import ModelId
from roost.errors import Failure, RoostError
from roost.node.endings import ended
from tests.node.kit import SETTINGS
from tests.node.test_loop import FIRST, Eventually, Rig
from tests.node.tiny import TinyLaunch, TinyRuntime


class Hanging(TinyRuntime):
    """A runtime whose backend does not come back from ending it."""

    def __init__(self, model: ModelId, *, cancelled: bool = True) -> None:
        super().__init__(model)
        self.killed = asyncio.Event()
        self._is_cancelled_by_one = cancelled

    async def stop(self, grace_s: float) -> None:
        """Wait for what never comes, and kill when that is called off."""
        try:
            await asyncio.Event().wait()
        finally:
            self.killed.set()
            while not self._is_cancelled_by_one:
                self._is_cancelled_by_one = True
                await asyncio.Event().wait()


class HangingLaunch(TinyLaunch):
    """Starts such runtimes."""

    def make(self, model: ModelId) -> TinyRuntime:
        """Make one."""
        return Hanging(model)


@pytest.mark.parametrize("cancelled", [False, True])
async def test_a_stop_that_hangs_does_not_hang_the_node(
    eventually: Eventually, cancelled: bool
) -> None:
    """It is called off, which kills, and the node ends: by an order to end, or by a cancel."""
    async with asyncio.TaskGroup() as group:
        rig = Rig(group, SETTINGS, HangingLaunch())
        await rig.start()
        one = rig.gateway.ask("hello")
        await eventually(lambda: rig.gateway.all_released(one))
        runtime = rig.launch.runtimes[FIRST]
        assert isinstance(runtime, Hanging)
        if cancelled:
            rig.running.cancel()
        else:
            await rig.node.stop(0.0)
        await eventually(rig.running.done)
        assert runtime.killed.is_set()
        if cancelled:
            # Who is called off says goodbye to nobody.
            rig.gateway.leave(Failure("draining", "bye"), again=False)


async def test_one_that_does_not_even_hear_a_kill_is_left_to_itself() -> None:
    """Whoever waits is told so, once the grace and twice the time to be gone have passed."""
    runtime = Hanging(ModelId("m"), cancelled=False)
    with pytest.raises(RoostError, match="left to itself"):
        await ended(runtime, 0.0, 0.01)
    assert runtime.killed.is_set()
