"""SHELL: counts prompts of models that are not loaded, by children that have a vocabulary alone.

Such a child takes a second to start and some megabytes, drives no runtime out and needs no room, so
the agent knows nothing of it but the counts. It stays for the next count of its model for a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from roost.backends.base import Prepared, Runtime
from roost.core.ids import ModelId, TenantId
from roost.errors import Fault, RoostError
from roost.node.cold import VOCABULARY
from roost.node.prompts import vectors
from roost.node.refusals import DIED

if TYPE_CHECKING:
    from roost.core.request import GenerateRequest
    from roost.observe.logs import Log

LaunchCounter: TypeAlias = Callable[[ModelId], Awaitable[Runtime]]
"""Starts what counts prompts of a model; raises `RoostError` where that cannot be."""

Count: TypeAlias = "Callable[[GenerateRequest, TenantId], Awaitable[Prepared]]"
"""Counts a prompt without its model's weights; raises `runtime_died` where that cannot be."""

COUNTERS_MAX = 2


async def weights_are_needed(_request: GenerateRequest, _owner: TenantId) -> Prepared:
    """Say so where nothing counts without them."""
    raise RoostError(DIED)


@dataclass(eq=False)
class _Counter:
    """One model's: its runtime once it has started, and how many counts are under way."""

    model: ModelId
    starting: asyncio.Lock = field(default_factory=asyncio.Lock)
    runtime: Runtime | None = None
    users: int = 0
    ending: asyncio.TimerHandle | None = None


class Counters:
    """At most `COUNTERS_MAX` children; each ends `keep_s` after its last count.

    So many are `waiting` for a place among them.
    """

    def __init__(self, launch: LaunchCounter, keep_s: float, log: Log) -> None:
        self._launch = launch
        self.keep_s = keep_s
        self._log = log
        self._counters: dict[ModelId, _Counter] = {}
        self._changed = asyncio.Condition()
        self._over: list[Runtime] = []
        self._is_any_over = asyncio.Event()
        self.waiting = 0

    @property
    def runtimes(self) -> tuple[Runtime, ...]:
        """Those that count now."""
        return tuple(one.runtime for one in self._counters.values() if one.runtime is not None)

    @property
    def users(self) -> int:
        """How many counts are under way."""
        return sum(one.users for one in self._counters.values())

    async def prepared(self, request: GenerateRequest, owner: TenantId) -> Prepared:
        """Render, tokenise and count, or tell that, as a runtime of the model would.

        Raises what `Runtime.prepare` raises of the caller's fault, and for everything else
        `runtime_died`: whoever asks may then have the weights loaded.
        """
        try:
            async with self._counter(request.model) as runtime:
                return await vectors.prepared(runtime, request, owner)
        except RoostError as error:
            if error.failure.kind.fault is Fault.CALLER:
                raise
            raise RoostError(DIED) from error

    async def run(self) -> None:
        """End the children that are to go, for as long as the node runs; `close` ends the rest."""
        while True:
            await self._is_any_over.wait()
            self._is_any_over.clear()
            await self._end_all()

    async def close(self) -> None:
        """End every child."""
        for counter in list(self._counters.values()):
            self._drop(counter)
        await self._end_all()

    async def _end_all(self) -> None:
        while self._over:
            # It stays on the list until it has ended: this may be cancelled meanwhile.
            await self._end(self._over[0])
            del self._over[0]

    async def _end(self, runtime: Runtime) -> None:
        """End a child; that one cannot be ended is not the node's end."""
        facts = {"model": runtime.key.model, "runtime": VOCABULARY}
        try:
            await runtime.stop(0.0)
        except RoostError as error:
            self._log.warning("runtime_failed", **facts, reason=error.failure.reason)
        except Exception as error:  # noqa: BLE001 - as a defect of any backend is taken
            # Only its name: the text may quote what a client sent.
            self._log.error("internal_error", where="unload", error=type(error).__name__)
        else:
            self._log.info("runtime_gone", **facts)

    @asynccontextmanager
    async def _counter(self, model: ModelId) -> AsyncIterator[Runtime]:
        counter = await self._taken(model)
        try:
            async with counter.starting:
                if counter.runtime is not None and counter.runtime.died.is_set():
                    counter.runtime = None
                if counter.runtime is None:
                    counter.runtime = await self._launch(model)
            yield counter.runtime
        finally:
            counter.users -= 1
            if not counter.users:
                self._rest(counter)
                async with self._changed:
                    self._changed.notify_all()

    async def _taken(self, model: ModelId) -> _Counter:
        """Return a model's counter, once there is room for it."""
        async with self._changed:
            while model not in self._counters and len(self._counters) >= COUNTERS_MAX:
                idle = [one for one in self._counters.values() if not one.users]
                if idle:
                    self._drop(idle[0])
                else:
                    self.waiting += 1
                    try:
                        await self._changed.wait()
                    finally:
                        self.waiting -= 1
            counter = self._counters.setdefault(model, _Counter(model))
            counter.users += 1
            if counter.ending is not None:
                counter.ending.cancel()
                counter.ending = None
            return counter

    def _rest(self, counter: _Counter) -> None:
        """Nobody counts with it now: let it go soon, or at once where there is nothing to keep."""
        if counter.runtime is None:
            self._drop(counter)
        else:
            loop = asyncio.get_running_loop()
            counter.ending = loop.call_later(self.keep_s, self._drop, counter)

    def _drop(self, counter: _Counter) -> None:
        if counter.ending is not None:
            counter.ending.cancel()
        if self._counters.get(counter.model) is counter:
            del self._counters[counter.model]
        runtime, counter.runtime = counter.runtime, None
        if runtime is not None:
            self._over.append(runtime)
            self._is_any_over.set()
