"""SHELL: work that can be told to stop: started, stopped once, and never lost in between.

`Task.cancel` alone is not enough. A task cancelled before its first step runs nothing, so it could
not report that it has left; and a cancel that arrives while a backend's block is being left would
interrupt the very acknowledgement that is waited for.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine


class Job:
    """One piece of work in a task of its own."""

    def __init__(self) -> None:
        self.stopped = False
        self.go = asyncio.Event()
        self.go.set()
        self._task: asyncio.Task[None] | None = None
        self._is_stoppable = False

    def start(
        self, group: asyncio.TaskGroup, work: Callable[[Job], Coroutine[object, object, None]]
    ) -> None:
        """Run `work(self)`; it reports its own end, whatever that is."""
        assert self._task is None
        self._task = group.create_task(work(self))

    def stop(self) -> None:
        """Ask the work to end; what is not stoppable now sees `stopped` when it looks."""
        already, self.stopped = self.stopped, True
        if self._task is not None and self._is_stoppable and not already:
            self._task.cancel()

    async def stoppable(self, work: Callable[[], Awaitable[None]]) -> None:
        """Do something that `stop` interrupts or prevents, neither of which is an exception."""
        task = asyncio.current_task()
        assert task is not None
        if self.stopped:
            return
        self._is_stoppable, has_arrived = True, False
        try:
            await work()
        except asyncio.CancelledError:
            if not self.stopped:
                raise
            has_arrived = True
            task.uncancel()
        finally:
            self._is_stoppable = False
            if self.stopped and not has_arrived:
                await _let_arrive(task)


async def _let_arrive(task: asyncio.Task[None]) -> None:
    """Take a stop in here that came while the work was ending, before it meets what follows.

    Work that has itself stopped hears of that only where it waits next, which may be never.
    """
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(0)
    task.uncancel()
