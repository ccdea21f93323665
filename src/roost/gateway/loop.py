"""SHELL: the event loop that serving processes run on; the only module that imports uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

Result = TypeVar("Result")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """Return uvloop's factory where it is installed, asyncio's own elsewhere."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop
    return uvloop.new_event_loop


def run(main: Coroutine[object, object, Result]) -> Result:
    """Run a process's main coroutine; signals stay the caller's business."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(main)
