"""SHELL: runtimes that are told to end, and are waited for no longer than that can be of use."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from roost.backends.base import Runtime
from roost.errors import fail

FORCE_S = 15.0
"""More than a backend needs to see that not even the kernel can end a process."""


async def ended(runtime: Runtime, grace_s: float, force_s: float = FORCE_S) -> None:
    """End a runtime; raises what its `stop` raises.

    A stop that has not come back `force_s` after its grace is cancelled, which kills what it waits
    for, and counts as over after as long again: `runtime_error`. A node has to be able to end
    whatever becomes of a backend; its children die with it.
    """
    stopping = asyncio.create_task(runtime.stop(grace_s))
    try:
        if not await _is_over(stopping, grace_s + force_s):
            stopping.cancel()
            await _is_over(stopping, force_s)
            raise fail("runtime_error", "A runtime did not end, and was left to itself.")
    except asyncio.CancelledError:
        stopping.cancel()
        await _is_over(stopping, force_s)
        raise
    await stopping


async def all_ended(runtimes: Iterable[Runtime], grace_s: float, force_s: float = FORCE_S) -> None:
    """End all of these beside each other, whatever comes of any of it."""
    ends = (ended(runtime, grace_s, force_s) for runtime in runtimes)
    await asyncio.gather(*ends, return_exceptions=True)


async def _is_over(task: asyncio.Task[None], wait_s: float) -> bool:
    done, _ = await asyncio.wait((task,), timeout=wait_s)
    return bool(done)
