"""SHELL: tasks that callbacks start, kept until they end and ended with their owner."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine


class Tasks:
    """The tasks of one owner; a protocol's callbacks cannot enter a task group."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[object, object, None], name: str) -> asyncio.Task[None]:
        """Run `work` until it ends or `close` is called; it has to deal with its own errors."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    def __len__(self) -> int:
        return len(self._running)

    async def close(self, patience_s: float = 0) -> None:
        """Wait up to `patience_s` for what still runs, then cancel it and wait for its end."""
        if self._running and patience_s > 0:
            await asyncio.wait(self._running, timeout=patience_s)
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
