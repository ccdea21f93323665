"""SHELL: a server of the OpenAI dialect as a child: started, waited for, asked, ended.

What it does with its memory, its batches and its prefixes is its own business; what it shares with
a server of somebody else's is everything that is said over HTTP (`openai_http`).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import NamedTuple

import msgspec

from roost.backends.base import Prepared, SlotUse, StartSettings, Telemetry
from roost.backends.http1.exchange import Lost, Place, call
from roost.backends.openai.openai_http import RemoteRuntime, found_model
from roost.backends.openai.stream import Served
from roost.backends.processes.child import DEATH_NOTICE_S, Child, Program
from roost.backends.processes.child import start as start_child
from roost.backends.processes.last_words import why_ended
from roost.backends.processes.places import remove_folder
from roost.core.events import StreamEvent
from roost.core.ids import TenantId
from roost.core.model import RuntimeKey
from roost.core.request import GenerateRequest
from roost.errors import RoostError, fail

POLL_S = 0.25
HEALTH_TIMEOUT_S = 5.0
HEALTHY = ("/health", "/v1/models")
"""Addresses that are there once the model is; one of them is enough."""

REMEDY = "Raise health_timeout_s in the model's card."


class Plan(NamedTuple):
    """How a server is started, where it will be, and how long it may take until it answers.

    `folder` is its own and goes with it; `environ` is added to what every child gets. `remedy` says
    what to do about one that takes longer.
    """

    argv: tuple[str, ...]
    place: Place
    ctx: int
    timeout_s: float
    folder: Path
    environ: Mapping[str, str] = {}
    remedy: str = REMEDY


class ServedRuntime:
    """A server of our own with one model, made by `begin`."""

    def __init__(self, remote: RemoteRuntime, child: Child, folder: Path) -> None:
        self._remote = remote
        self._child = child
        self._folder = folder
        child.on_death(self._on_death)

    @property
    def key(self) -> RuntimeKey:
        """The key it was started for."""
        return self._remote.key

    @property
    def died(self) -> asyncio.Event:
        """Set once the process has ended, or was told to."""
        return self._remote.died

    @property
    def pid(self) -> int:
        """The process group of the child."""
        return self._child.pid

    @property
    def states(self) -> None:
        """What a server holds is its own."""
        return None

    async def prepare(self, request: GenerateRequest, owner: TenantId | None = None) -> Prepared:
        """Check and translate; see `openai_http.RemoteRuntime.prepare`."""
        return await self._remote.prepare(request, owner)

    def open(
        self, prepared: Prepared, use: SlotUse
    ) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """Ask the server; see `base.Runtime.open`."""
        return self._remote.open(prepared, use)

    async def telemetry(self) -> Telemetry:
        """Streams that run, and memory of the process; all else is the server's."""
        told = await self._remote.telemetry()
        return msgspec.structs.replace(told, rss_bytes=self._child.rss_bytes())

    async def stop(self, grace_s: float) -> None:
        """End the process; idempotent."""
        self._remote.end()
        await self._child.terminate(grace_s)

    def _on_death(self) -> None:
        self._remote.end()
        remove_folder(self._folder)


async def begin(
    key: RuntimeKey, plan: Plan, settings: StartSettings, on_progress: Callable[[float], None]
) -> ServedRuntime:
    """Start a server and wait until it has its model; raises `load_failed`.

    Such servers compile and measure in silence for minutes, so that only time can tell of progress:
    what is told is the part of `timeout_s` that has passed.
    """
    program = Program(
        plan.argv,
        settings.log_path,
        env=plan.environ,
        log_max_bytes=settings.log_max_bytes,
        logs_kept=settings.logs_kept,
        memory_max_bytes=settings.memory_max_bytes,
    )
    try:
        child = await start_child(program)
    except BaseException:
        remove_folder(plan.folder)
        raise
    try:
        await _until_healthy(child, plan, on_progress)
        model = await found_model(plan.place, "", key.model)
    except BaseException:
        child.kill()
        await child.reaped()
        remove_folder(plan.folder)
        raise
    served = Served(plan.place, model, plan.ctx, DEATH_NOTICE_S)
    on_progress(1.0)
    return ServedRuntime(RemoteRuntime(key, served), child, plan.folder)


async def _until_healthy(child: Child, plan: Plan, on_progress: Callable[[float], None]) -> None:
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while not await _healthy(plan.place):
        if child.died.is_set():
            raise RoostError(why_ended(child))
        part = (loop.time() - began_s) / plan.timeout_s
        if part >= 1:
            message = f"The server was not healthy within {plan.timeout_s:g} s."
            raise fail("load_failed", f"{message} {plan.remedy}")
        on_progress(part)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_S):
                await child.died.wait()
    if child.died.is_set():
        # Somebody else listens there; what answers is not what was started.
        raise RoostError(why_ended(child))


async def _healthy(place: Place) -> bool:
    for path in HEALTHY:
        with contextlib.suppress(Lost):
            status, _ = await call(place, "GET", path, timeout_s=HEALTH_TIMEOUT_S)
            if status == 200:
                return True
    return False
