"""Sharing through the node's shell, with the scripted backend: counts, which cannot be mistaken."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from roost.backends.base import Prepared, Runtime, SlotUse, StartSettings, Take
from roost.backends.scripted.backend import ScriptedRuntime
from roost.backends.scripted.script import Script
from roost.core.events import Finished, Started, StreamEvent
from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.node.agent import Agent
from roost.node.loop import LoopSettings, NodeLoop
from roost.node.settings import AgentSettings
from roost.node.states.keeping import KeepSettings
from roost.node.states.session_settings import SessionSettings
from roost.observe import logs
from roost.wire.memory import memory_pair
from roost.wire.messages import VERSION, Hello
from tests.conftest import Eventually
from tests.node.gateway import TestGateway
from tests.node.kit import MODEL, offer

SLOTS = 8
BEGINNING = "You are one of eight. " * 52
PREFILL_MS = 0.3
"""Per token: the first is not through with its prompt before all others have come."""

SCRIPT = Script(pieces=("ok",), prefill_ms_per_token=PREFILL_MS)


class Batch:
    """A poured stream of which all came in one piece: it is told in its own task, in one go."""

    def __init__(self, events: AsyncIterator[StreamEvent]) -> None:
        self._events = events

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        """It may be iterated as well."""
        return self._events

    async def __anext__(self) -> StreamEvent:
        """The next one."""
        return await anext(self._events)

    async def pour(self, take: Take) -> None:
        """Tell all of them, waiting for nothing but what `take` wants waited for."""
        for event in [event async for event in self._events]:
            hold = take(event)
            if hold is not None:
                await hold()


class Batching(ScriptedRuntime):
    """The scripted runtime, but its streams come at once, and leaving one waits for something."""

    @asynccontextmanager
    async def open(
        self, prepared: Prepared, use: SlotUse
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Run on a slot."""
        async with super().open(prepared, use) as events:
            try:
                yield Batch(events)
            finally:
                await asyncio.sleep(0)


class Rig:
    """A node with one runtime of eight slots, and a gateway that asks it."""

    def __init__(
        self, group: asyncio.TaskGroup, memory: Path | None, kind: type[ScriptedRuntime]
    ) -> None:
        self.memory = memory
        self.kind = kind
        settings = AgentSettings("scripted", sessions=SessionSettings())
        self.agent = Agent(settings, [offer(MODEL, SLOTS)])
        hello = Hello(VERSION, NodeId("node-1"), "n", "i", "roost")
        keep = KeepSettings(str(memory / "held") if memory else "")
        loop = LoopSettings(stop_grace_s=0.1, keep=keep)
        self.node = NodeLoop(self.agent, self.launch, hello, loop, time.monotonic, logs.get())
        near, far = memory_pair()
        self.gateway = TestGateway(far)
        group.create_task(self.node.run())
        group.create_task(self.node.serve_link(near))
        group.create_task(self.gateway.run())

    async def launch(
        self, model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> Runtime:
        """Start the scripted backend, which can copy slots where it has a folder for that."""
        key = RuntimeKey("scripted", model, "sha256:0", RuntimeOptions(2048, SLOTS))
        start = StartSettings("", "", state_folder=str(self.memory) if self.memory else "")
        manifest = Manifest(model, "", 0, "sha256:0", format="scripted")
        return self.kind(key, manifest, start, SCRIPT)

    async def answers(self, eventually: Eventually, *asked: int) -> list[Started]:
        """Wait for these answers; tell how each began."""
        await eventually(lambda: self.gateway.all_released(*asked), what="all are answered")
        began = []
        for stream in asked:
            events = self.gateway.events[stream]
            first, last = events[0], events[-1]
            assert isinstance(first, Started)
            assert isinstance(last, Finished), last
            assert last.usage.cached_tokens == first.cached_tokens
            assert sum(isinstance(event, Started) for event in events) == 1
            assert self.gateway.text(stream) == "ok"
            began.append(first)
        return began


@asynccontextmanager
async def rig(
    memory: Path | None, kind: type[ScriptedRuntime] = ScriptedRuntime
) -> AsyncIterator[Rig]:
    """Run a node whose model is loaded."""
    async with asyncio.TaskGroup() as group:
        made = Rig(group, memory, kind)
        await made.gateway.is_up.wait()
        yield made
        await made.node.stop(0.0)


@pytest.mark.parametrize("copies", [True, False])
async def test_eight_at_once_compute_their_beginning_once(
    tmp_path: Path, eventually: Eventually, copies: bool
) -> None:
    """With copies of slots, and without by taking turns on one: 1.1 times its tokens in all."""
    async with rig(tmp_path / "memory" if copies else None) as one:
        asked = [one.gateway.ask(f"{BEGINNING}{number}") for number in range(SLOTS)]
        began = await one.answers(eventually, *asked)
        computed = sum(started.prompt_tokens - started.cached_tokens for started in began)
        assert computed <= 1.1 * len(BEGINNING)
        view = one.agent.status().sessions
        assert view.restores == (SLOTS - 1 if copies else 0)
        assert view.failures == 0


@pytest.mark.parametrize("copies", [True, False])
async def test_who_is_to_give_way_in_its_own_words_does_so(
    tmp_path: Path, eventually: Eventually, copies: bool
) -> None:
    """Told to leave by the piece that ends its answer too: it leaves, and nobody waits for ever."""
    async with rig(tmp_path / "memory" if copies else None, Batching) as one:
        asked = [one.gateway.ask(f"{BEGINNING}{number}") for number in range(SLOTS)]
        await one.answers(eventually, *asked)


async def test_nobody_is_told_what_another_tenant_has_computed(
    tmp_path: Path, eventually: Eventually
) -> None:
    """The very same prompt, beside it and afterwards, on any slot: nothing of it was cached."""
    async with rig(tmp_path / "memory") as one:
        mine = [one.gateway.ask(BEGINNING + end, tenant="mine") for end in "abcdefg"]
        beside = one.gateway.ask(BEGINNING + "a", tenant="spy")
        began = await one.answers(eventually, *mine, beside)
        assert sum(started.cached_tokens > 0 for started in began[:-1]) == len(mine) - 1
        assert began[-1].cached_tokens == 0
        spies = [f"spy {number}" for number in range(SLOTS)]
        after = [one.gateway.ask(BEGINNING + "a", tenant=spy) for spy in spies]
        began = await one.answers(eventually, *after)
        assert [started.cached_tokens for started in began] == [0] * SLOTS
