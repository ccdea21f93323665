"""SHELL: models that a gateway's operators have fetched onto this node: one at a time, in a thread.

What is fetched is installed as by hand, and noticed as that is. The thread is nobody's to wait for:
a fetch may say nothing for half a minute, and a node that ends must not. What has arrived is kept
as with any pull that is cut.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from roost.core.snapshots import PullView
from roost.errors import Failure, RoostError
from roost.wire.messages import Pull

if TYPE_CHECKING:
    from roost.observe.logs import Log
    from roost.store.pulling.pull import Stage, Watch

WAITING_MAX = 8
VIEWS_MAX = 16
"""Pulls that are told of, ended ones included; the oldest ended one goes first."""
TOLD_EVERY_S = 0.25
FULL = "Too many pulls wait on this node already. Ask again when one has ended."
DEFECT = "A defect in the node ended the pull. Its log says more."

Fetch: TypeAlias = "Callable[[Pull, Watch], str]"
"""Installs what is asked for and returns its id; blocks, and raises `RoostError`."""
Tell: TypeAlias = Callable[[tuple[PullView, ...]], Awaitable[None]]
"""Hears of what has changed, all pulls at once; what changes meanwhile is in its next call."""


CANCELLED = Failure(
    "cancelled",
    "An operator ended it. What has arrived is kept: the same pull goes on from there.",
)


class _EndedError(Exception):
    """Nobody wants this any more: the thread's next sign of life is its last."""


class Puller:
    """Takes what operators ask for and does it in turn; `run` is its life."""

    def __init__(self, fetch: Fetch, log: Log) -> None:
        self._fetch = fetch
        self._log = log
        self._changed = asyncio.Event()
        self._views: dict[str, PullView] = {}
        self._queue: asyncio.Queue[Pull] = asyncio.Queue(WAITING_MAX)
        self._unwanted: dict[str, threading.Event] = {}
        self._running: tuple[str, Callable[[str | Failure], None]] | None = None

    def views(self) -> tuple[PullView, ...]:
        """Every pull that is told of, in the order in which they were asked for."""
        return tuple(self._views.values())

    def ask(self, pull: Pull) -> None:
        """Do this when what was asked for before is done; one that is known already is not new."""
        if pull.job in self._views:
            return
        view = PullView(pull.job, pull.source, "waiting")
        try:
            self._queue.put_nowait(pull)
        except asyncio.QueueFull:
            view = msgspec.structs.replace(view, stage="failed", failure=FULL)
        else:
            self._unwanted[pull.job] = threading.Event()
        self._note(view)

    def cancel(self, job: str) -> None:
        """Give this one up at once, wherever it is; one that is over, or unknown, is no matter."""
        unwanted = self._unwanted.get(job)
        if unwanted is None or unwanted.is_set():
            return
        unwanted.set()
        if self._running is not None and self._running[0] == job:
            _, settle = self._running
            settle(CANCELLED)
        else:
            self._settle(self._views[job], CANCELLED)

    async def run(self, tell: Tell) -> None:
        """Work until cancelled."""
        self._changed.set()
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._telling(tell))
                while True:
                    pull = await self._queue.get()
                    if not self._unwanted[pull.job].is_set():
                        await self._one(pull)
                    del self._unwanted[pull.job]
        finally:
            for unwanted in self._unwanted.values():
                unwanted.set()

    async def _telling(self, tell: Tell) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            await tell(self.views())

    async def _one(self, pull: Pull) -> None:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[str | Failure] = loop.create_future()
        self._log.info("pull_started", source=pull.source)

        def report(call: Callable[..., object], *values: object) -> None:
            # The loop may have ended without waiting for this thread.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(call, *values)

        def settle(result: str | Failure) -> None:
            if not outcome.done():
                outcome.set_result(result)

        watch = self._watch(pull, self._unwanted[pull.job], report)

        def work() -> None:
            try:
                report(settle, self._fetch(pull, watch))
            except RoostError as error:
                report(settle, error.failure)
            except _EndedError:
                pass
            except Exception as error:  # noqa: BLE001 - a defect in one pull is not the node's end
                self._log.error("pull_defect", error=type(error).__name__)
                report(settle, Failure("internal", DEFECT))

        self._running = pull.job, settle
        threading.Thread(target=work, name="roost-pull", daemon=True).start()
        result = await outcome
        self._running = None
        self._settle(self._views[pull.job], result)

    def _watch(self, pull: Pull, unwanted: threading.Event, report: Callable[..., None]) -> Watch:
        """Pass on what a fetch says of itself, in its thread, as often as anybody can use."""
        told_at, told = 0.0, ""

        def watch(stage: Stage, done: int, total: int | None) -> None:
            nonlocal told_at, told
            if unwanted.is_set():
                raise _EndedError
            now = time.monotonic()
            if stage != told or now - told_at >= TOLD_EVERY_S:
                told_at, told = now, stage
                report(self._progress, PullView(pull.job, pull.source, stage, done, total))

        return watch

    def _progress(self, view: PullView) -> None:
        """Note how far a pull is, unless it is over: what a thread says may come late."""
        known = self._views.get(view.job)
        if known is not None and not known.is_over:
            self._note(view)

    def _settle(self, view: PullView, result: str | Failure) -> None:
        if isinstance(result, Failure):
            self._log.warning("pull_failed", source=view.source, reason=result.reason)
            ended = msgspec.structs.replace(view, stage="failed", failure=result.message)
        else:
            self._log.info("pull_done", source=view.source, model=result)
            ended = msgspec.structs.replace(view, stage="done", model=result)
        self._note(ended)

    def _note(self, view: PullView) -> None:
        self._views[view.job] = view
        over = [one.job for one in self._views.values() if one.is_over and one.job != view.job]
        if len(self._views) > VIEWS_MAX and over:
            del self._views[over[0]]
        self._changed.set()
