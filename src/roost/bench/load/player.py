"""SHELL: plays a load: an open loop at times fixed in advance, or a closed one of so many users.

In an open loop a request that finds `users_max` others on their way is not sent at all and counted
as dropped: this client could not be trusted with more, and must not pretend to have asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import count
from time import monotonic

import msgspec

from roost.bench.load.client import Client
from roost.bench.load.sample import Played, Sample
from roost.bench.load.workload import Ask

START_S = 0.05
"""From fixing the first moment to it, so that it is not late already."""

Seen = Callable[[Sample], None]


class Player:
    """Plays asks on one client; `seen` hears of every sample as it ends."""

    def __init__(self, client: Client, seen: Seen = lambda _: None) -> None:
        self._client = client
        self._seen = seen
        self._samples: list[Sample] = []
        self._origin_s = 0.0

    async def open_loop(
        self, due: Sequence[float], ask: Callable[[int], Ask], users_max: int
    ) -> Played:
        """Begin ask n at its time, however long answers take; return when all have ended."""
        self._origin_s = monotonic() + START_S
        tasks: set[asyncio.Task[None]] = set()
        dropped = 0
        async with asyncio.TaskGroup() as group:
            for number, due_s in enumerate(due):
                if (wait_s := self._origin_s + due_s - monotonic()) > 0:
                    await asyncio.sleep(wait_s)
                if len(tasks) >= users_max:
                    dropped += 1
                    continue
                task = group.create_task(self._talk(ask(number), self._origin_s + due_s))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        return self._played(dropped)

    async def closed_loop(
        self, users: int, ask: Callable[[int], Ask], requests: int, duration_s: float
    ) -> Played:
        """Let users ask one after the other, until so many were asked or so long has passed.

        0 requests are without end. What runs at the end is finished.
        """
        self._origin_s = monotonic()
        until_s = self._origin_s + duration_s
        numbers = iter(range(requests)) if requests else count()

        async def user() -> None:
            while monotonic() < until_s and (number := next(numbers, None)) is not None:
                await self._talk(ask(number), monotonic())

        async with asyncio.TaskGroup() as group:
            for _ in range(users):
                group.create_task(user())
        return self._played(0)

    async def _talk(self, ask: Ask, due_s: float) -> None:
        """Say every turn; the one behind another is due when that has ended well."""
        messages = [{"role": "system", "content": ask.system}] if ask.system else []
        for turn in ask.turns:
            messages = [*messages, {"role": "user", "content": turn}]
            sample, said = await self._client.ask(ask.model, messages, ask.max_tokens, due_s)
            self._keep(sample)
            if sample.outcome != "ok":
                return
            messages = [*messages, {"role": "assistant", "content": said}]
            due_s = monotonic()

    def _keep(self, sample: Sample) -> None:
        since = msgspec.structs.replace(sample, due_s=sample.due_s - self._origin_s)
        self._samples.append(since)
        self._seen(since)

    def _played(self, dropped: int) -> Played:
        return Played(tuple(self._samples), dropped, monotonic() - self._origin_s)
