"""SHELL: what a node's shell holds, and the ways in which its work reaches the agent."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from roost.backends.base import Runtime
from roost.core.ids import ModelId, RuntimeId
from roost.node.agent import Agent
from roost.node.effects import Effect, StreamKey
from roost.node.endings import FORCE_S
from roost.node.inbox import Inbox
from roost.node.jobs import Job
from roost.node.machine.scales import Scales
from roost.node.prompts.counters import Count, weights_are_needed
from roost.node.run_log import RunLog
from roost.node.states.keeping import Keeper, KeepSettings
from roost.observe.logs import Log
from roost.wire.messages import FromGateway, FromNode
from roost.wire.pump import Pump

Report: TypeAlias = Callable[[float], list[Effect]]
"""An input of the agent that lacks only `now`."""


class Launch(Protocol):
    """How a runtime of a model is started."""

    async def __call__(
        self, model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> Runtime:
        """Start it, telling 0..1 while it loads; raises `RoostError("load_failed")`."""
        ...


Check: TypeAlias = Callable[[ModelId], Awaitable[None]]
"""Looks at a model's files; raises `RoostError("load_failed")` where they cannot be loaded."""


async def _nothing_is_wrong(_model: ModelId) -> None:
    """What is said of models that are not files."""


class Hands:
    """Everything the node's shell holds: runtimes, work under way, links.

    `tell` gives the agent a report and waits for room, `hint` gives it one that may be lost.
    `asides` are reports that come of performing itself, which cannot wait.
    """

    def __init__(self, agent: Agent, launch: Launch, inbox: Inbox[Report], log: Log) -> None:
        self.agent = agent
        self.launch = launch
        self.check: Check = _nothing_is_wrong
        self.count: Count = weights_are_needed
        self.scales = Scales(log)
        self.log = log
        self.stop_grace_s, self.force_s = 0.0, FORCE_S
        self.keeper = Keeper(KeepSettings())
        self._inbox = inbox
        self.group: asyncio.TaskGroup | None = None
        self.step: Callable[[Report], bool] | None = None
        self.asides: deque[Report] = deque()
        self.runtimes: dict[RuntimeId, Runtime] = {}
        self.watches: dict[RuntimeId, asyncio.Task[None]] = {}
        self.ending: set[RuntimeId] = set()
        self.loads: dict[RuntimeId, Job] = {}
        self.jobs: dict[StreamKey, Job] = {}
        self.links: dict[int, Pump[FromNode, FromGateway]] = {}
        self.runs = RunLog(log)

    async def tell(self, report: Report) -> None:
        """Give the agent a report: at once if nothing is before it, or waiting for room."""
        if not self.at_once(report):
            await self._inbox.put(report)

    def offer(self, report: Report) -> Awaitable[None] | None:
        """Give the agent a report; without room in the inbox, give back what waits for some."""
        return None if self._inbox.put_now(report) else self._inbox.put(report)

    def at_once(self, report: Report) -> bool:
        """Have the agent hear a report before this returns; False where others come first.

        It is the loop's own step, done here: nothing else of the agent's is under way.
        """
        return self.step is not None and self.step(report)

    def hint(self, report: Report) -> None:
        """Give the agent a report that the next one of its kind replaces; lost when it is busy."""
        self._inbox.put_now(report)

    @property
    def tasks(self) -> asyncio.TaskGroup:
        """Where tasks live; there are none outside of `NodeLoop.run`."""
        assert self.group is not None
        return self.group
