"""SHELL: looks at the processes of a fleet again and again, as the kernel sees them."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections import Counter
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from roost.bench.chaos.soak import Reading
from roost.bench.drills.fleets import Fleet
from roost.bench.drills.stage import Running
from roost.bench.processes import family, rss_bytes

READ_S = 2.0
_TASKS = re.compile(r"^roost_tasks (\S+)$", re.MULTILINE)


class Watch:
    """The readings of a gateway and its nodes, taken while something else happens to them."""

    def __init__(self, fleet: Fleet, now_s: Callable[[], float]) -> None:
        self.readings: list[Reading] = []
        self._fleet = fleet
        self._now_s = now_s

    @property
    def least(self) -> int:
        """How often that one was seen which was seen the least."""
        seen = Counter(one.process for one in self.readings)
        return min(seen[name] for name in ("gateway", *self._fleet.members))

    async def run(self, over: asyncio.Event) -> None:
        """Look every `READ_S` until it is over, however long a look takes."""
        due_s = self._now_s()
        while not over.is_set():
            self.readings += await self._look()
            due_s = next_look(due_s, self._now_s())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), due_s - self._now_s())

    async def _look(self) -> list[Reading]:
        fleet = self._fleet
        tasks = await self._tasks()
        found = [self._read("gateway", fleet.gateway, tasks)]
        found += [self._read(name, node, None) for name, node in fleet.members.items()]
        return [one for one in found if one is not None]

    async def _tasks(self) -> int | None:
        """Ask the gateway how many tasks it has; one that is being started again does not say."""
        try:
            told = _TASKS.search((await self._fleet.gateway.get("/metrics")).decode())
        except (OSError, HTTPException):
            return None
        return int(float(told[1])) if told else None

    def _read(self, name: str, running: Running, tasks: int | None) -> Reading | None:
        """Read a process and its children; None for one that is gone."""
        _shim, *programs = family(running.process.pid)
        try:
            descriptors = sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in programs)
            threads = sum(len(list(Path(f"/proc/{pid}/task").iterdir())) for pid in programs)
        except OSError:
            return None
        sizes = [rss_bytes(pid) for pid in programs]
        # Who is gone has none, and the rest is not the whole.
        if not programs or not all(sizes):
            return None
        at_s = round(self._now_s(), 3)
        return Reading(at_s, name, programs[0], sum(sizes), descriptors, threads, tasks)


def next_look(due_s: float, now_s: float) -> float:
    """When to look again after a look that was due then: what it took is not added to the time.

    Looks that were missed altogether are not made up for.
    """
    return max(due_s + READ_S, now_s)
