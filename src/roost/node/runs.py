"""SHELL: the work of a node that waits: loads, preparations and streams, each a task.

Every task ends by telling the agent what became of it, whatever happened inside; that is what keeps
slots, leases and children from leaking.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from roost.backends.base import Prepared
from roost.errors import Failure, RoostError

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from roost.backends.base import Runtime
    from roost.core.ids import RuntimeId
    from roost.node.agent import Agent
    from roost.node.effects import Effect, Load, Pause, Prepare, Run, Stop, StreamKey, Unload
    from roost.node.shelf import Shelf
    from roost.observe.logs import Log

DEFECT = Failure("internal", "Something went wrong inside this node.")
GONE = Failure("runtime_died", "The runtime has ended.")


class Mouth(Protocol):
    """Who takes what the agent says about an event."""

    @property
    def agent(self) -> Agent:
        """The agent."""
        ...

    @property
    def log(self) -> Log:
        """Where events go."""
        ...

    @property
    def now_s(self) -> float:
        """Monotonic seconds."""
        ...

    def feed(self, effects: list[Effect]) -> None:
        """Perform these."""
        ...


class Runs:
    """Owns the runtimes and the tasks of one node."""

    def __init__(self, mouth: Mouth, shelf: Shelf, group: asyncio.TaskGroup) -> None:
        self._mouth = mouth
        self._shelf = shelf
        self._group = group
        self._runtimes: dict[RuntimeId, Runtime] = {}
        self._lives: dict[RuntimeId, asyncio.Task[Failure | None]] = {}
        self._work: dict[StreamKey, asyncio.Task[Prepared | Failure | None]] = {}
        self._gates: dict[StreamKey, asyncio.Event] = {}
        self._stopped: set[StreamKey] = set()
        self._leaving: set[StreamKey] = set()

    async def wait_gone(self) -> None:
        """Wait until every runtime and every stream has ended."""
        while pending := [*self._lives.values(), *self._work.values()]:
            await asyncio.wait(pending)
            # Their callbacks run in the loop's next round and may start the last of the work.
            await asyncio.sleep(0)

    # --- runtimes

    def load(self, effect: Load) -> None:
        """Start a runtime, and watch it until it ends."""
        task = self._group.create_task(self._life(effect), name=f"runtime {effect.runtime}")
        self._lives[effect.runtime] = task
        task.add_done_callback(partial(self._lived, effect))

    def unload(self, effect: Unload) -> None:
        """End a runtime, also one that is still loading."""
        runtime = self._runtimes.get(effect.runtime)
        if runtime is not None:
            self._group.create_task(self._stop_runtime(runtime), name=f"stop {effect.runtime}")
        elif effect.runtime in self._lives:
            self._lives[effect.runtime].cancel()

    async def _life(self, effect: Load) -> Failure | None:
        """Return why the runtime could not be started, or None once it has ended."""
        try:
            runtime = await self._start(effect)
        except RoostError as error:
            return error.failure
        except Exception as error:  # noqa: BLE001 - one model's defect is not the node's end
            return self._defect(error)
        self._runtimes[effect.runtime] = runtime
        mouth = self._mouth
        mouth.feed(mouth.agent.on_loaded(effect.runtime, mouth.now_s))
        await runtime.died.wait()
        return None

    async def _start(self, effect: Load) -> Runtime:
        mouth, began_s = self._mouth, self._mouth.now_s
        mouth.log.info("runtime_loading", runtime=effect.runtime, model=effect.model)

        def on_progress(share: float) -> None:
            mouth.feed(mouth.agent.on_load_progress(effect.runtime, share, mouth.now_s))

        runtime = await self._shelf.start(effect.model, effect.runtime, on_progress)
        seconds = round(mouth.now_s - began_s, 3)
        mouth.log.info("runtime_ready", runtime=effect.runtime, model=effect.model, seconds=seconds)
        return runtime

    def _lived(self, effect: Load, task: asyncio.Task[Failure | None]) -> None:
        mouth, name = self._mouth, effect.runtime
        del self._lives[name]
        failure = None if task.cancelled() else task.result()
        if failure is not None:
            reason = failure.message
            mouth.log.warning("runtime_failed", runtime=name, model=effect.model, reason=reason)
            mouth.feed(mouth.agent.on_load_failed(name, failure, mouth.now_s))
            return
        self._runtimes.pop(name, None)
        mouth.log.info("runtime_gone", runtime=name, model=effect.model)
        mouth.feed(mouth.agent.on_runtime_gone(name, mouth.now_s))

    async def _stop_runtime(self, runtime: Runtime) -> None:
        with suppress(RoostError):
            await runtime.stop(self._shelf.stop_grace_s)

    # --- streams

    def prepare(self, effect: Prepare) -> None:
        """Render and tokenise a request."""
        self._begin(effect.key, self._prepare(effect))

    def run(self, effect: Run) -> None:
        """Run a prepared request on its slot."""
        gate = asyncio.Event()
        gate.set()
        self._gates[effect.key] = gate
        self._begin(effect.key, self._run(effect, gate))

    def stop(self, effect: Stop) -> None:
        """Leave what a stream is doing; the agent is told when that is done."""
        task = self._work.get(effect.key)
        assert task is not None, "the agent stops only what it has started"
        # A cancel while the block is being left would interrupt the wait for the slot to be free.
        if effect.key not in self._stopped | self._leaving:
            task.cancel()
        self._stopped.add(effect.key)

    def pause(self, effect: Pause) -> None:
        """Stop or go on reading a backend's stream."""
        gate = self._gates.get(effect.key)
        if gate is not None and effect.paused:
            gate.clear()
        elif gate is not None:
            gate.set()

    def _begin(
        self, key: StreamKey, work: Coroutine[object, object, Prepared | Failure | None]
    ) -> None:
        task = self._group.create_task(work, name=f"stream {key.link}/{key.stream}")
        self._work[key] = task
        # A callback and not the end of the task's own code: a task that is cancelled before its
        # first step never runs any, and the agent would wait for ever.
        task.add_done_callback(partial(self._left, key))

    def _left(self, key: StreamKey, task: asyncio.Task[Prepared | Failure | None]) -> None:
        mouth = self._mouth
        if self._work.get(key) is task:
            del self._work[key]
        ran = self._gates.pop(key, None) is not None
        stopped = key in self._stopped
        self._stopped.discard(key)
        self._leaving.discard(key)
        became = None if task.cancelled() else task.result()
        if ran or stopped:
            failure = became if isinstance(became, Failure) and ran else None
            mouth.feed(mouth.agent.on_closed(key, failure, mouth.now_s))
        elif isinstance(became, Prepared):
            mouth.feed(mouth.agent.on_prepared(key, became, mouth.now_s))
        else:
            mouth.feed(mouth.agent.on_prepare_failed(key, became or DEFECT, mouth.now_s))

    async def _prepare(self, effect: Prepare) -> Prepared | Failure:
        runtime = self._runtimes.get(effect.runtime)
        if runtime is None:
            return GONE
        try:
            return await runtime.prepare(effect.request)
        except RoostError as error:
            return error.failure
        except Exception as error:  # noqa: BLE001 - one request's defect is not the node's end
            return self._defect(error)

    async def _run(self, effect: Run, gate: asyncio.Event) -> Failure | None:
        """Return what entering or leaving the backend's block raised, None if nothing."""
        runtime, mouth = self._runtimes.get(effect.runtime), self._mouth
        if runtime is None:
            return GONE
        try:
            async with runtime.open(effect.prepared, effect.use) as events:
                async for event in events:
                    mouth.feed(mouth.agent.on_event(effect.key, event, mouth.now_s))
                    await gate.wait()
                self._leaving.add(effect.key)
        except RoostError as error:
            return error.failure
        except Exception as error:  # noqa: BLE001 - one request's defect is not the node's end
            return self._defect(error)
        return None

    def _defect(self, error: Exception) -> Failure:
        # Only its name: the text may quote what a client sent.
        self._mouth.log.error("internal_error", error=type(error).__name__)
        return DEFECT
