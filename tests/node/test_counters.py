"""Children that count: one start for all, a few at most, let go when nobody asks any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import msgspec
import pytest

from roost.backends.base import Died, Prepared, Runtime, SlotUse, States, Telemetry
from roost.core.events import StreamEvent
from roost.core.ids import ModelId, TenantId
from roost.core.model import RuntimeKey, RuntimeOptions
from roost.core.request import GenerateRequest, TextPrompt
from roost.errors import RoostError, fail
from roost.node.prompts.counters import Counters, weights_are_needed
from roost.observe import logs
from tests.conftest import until

OWNER = TenantId("t")


class Small:
    """A runtime that counts words, and does nothing else."""

    def __init__(self, model: ModelId) -> None:
        self.key = RuntimeKey("small", model, "", RuntimeOptions())
        self.ended = asyncio.Event()
        self.died: Died = self.ended
        self.states: States | None = None
        self.go = asyncio.Event()
        self.go.set()
        self.stubborn: Exception | None = None
        self.owners: list[TenantId | None] = []

    async def prepare(self, request: GenerateRequest, owner: TenantId | None = None) -> Prepared:
        """Count, once it may."""
        self.owners.append(owner)
        await self.go.wait()
        if self.died.is_set():
            raise fail("runtime_died", "It is over.")
        assert isinstance(request.prompt, TextPrompt)
        if request.prompt.text == "too long":
            raise fail("context_length_exceeded", "It is.")
        return Prepared(request, tuple(range(len(request.prompt.text.split()))), 0)

    def open(
        self, prepared: Prepared, use: SlotUse
    ) -> AbstractAsyncContextManager[AsyncIterator[StreamEvent]]:
        """Refuse: there are no weights."""
        raise fail("unsupported", "There are no weights.")

    async def telemetry(self) -> Telemetry:
        """Say nothing."""
        return Telemetry()

    async def stop(self, grace_s: float) -> None:
        """End, or say why not."""
        self.ended.set()
        if self.stubborn is not None:
            raise self.stubborn


class Bench:
    """Starts such runtimes, and remembers all of them."""

    def __init__(self, keep_s: float = 60.0) -> None:
        self.started: list[Small] = []
        self.broken = False
        self.counters = Counters(self.launch, keep_s, logs.get())

    async def launch(self, model: ModelId) -> Runtime:
        """Start one, after a moment."""
        await asyncio.sleep(0)
        if self.broken:
            raise fail("load_failed", "Its file is gone.")
        self.started.append(Small(model))
        return self.started[-1]

    async def count(self, words: str, model: str = "m") -> int:
        """Count these."""
        asked = GenerateRequest(ModelId(model), TextPrompt(words), counts=True)
        return len((await self.counters.prepared(asked, OWNER)).tokens)


@asynccontextmanager
async def running(keep_s: float = 60.0) -> AsyncIterator[Bench]:
    """Have counters at work for the length of a block; nothing of them is left after it."""
    bench = Bench(keep_s)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(bench.counters.run())
        try:
            yield bench
        finally:
            work.cancel()
            await bench.counters.close()
    assert all(one.died.is_set() for one in bench.started)


async def test_one_start_serves_all_who_come() -> None:
    """Also at once; what has ended is started anew."""
    async with running() as bench:
        assert await asyncio.gather(*(bench.count("a b c") for _ in range(5))) == [3] * 5
        assert await bench.count("a b") == 2
        assert len(bench.started) == 1
        bench.started[0].ended.set()
        assert await bench.count("a") == 1
        assert len(bench.started) == 2


async def test_few_at_a_time() -> None:
    """A third model takes the place of one that rests, and waits where none does."""
    async with running() as bench:
        await bench.count("a", "one")
        await bench.count("a", "two")
        assert await bench.count("a b", "three") == 2
        await until(bench.started[0].died.is_set, what="the first one has ended")
        assert [one.died.is_set() for one in bench.started[1:]] == [False, False]
        for one in bench.started[1:]:
            one.go.clear()
        async with asyncio.TaskGroup() as group:
            busy = [group.create_task(bench.count("a", name)) for name in ("two", "three")]
            fourth = group.create_task(bench.count("a b c", "four"))
            await until(lambda: bench.counters.waiting == 1, what="the fourth waits")
            assert len(bench.started) == 3
            bench.started[1].go.set()
            assert await fourth == 3
            bench.started[2].go.set()
            assert [await task for task in busy] == [1, 1]


async def test_they_are_let_go() -> None:
    """After a while without a count; the next one starts another."""
    async with running(keep_s=0.01) as bench:
        await bench.count("a")
        await until(bench.started[0].died.is_set, what="it has ended")
        assert await bench.count("a b") == 2


@pytest.mark.parametrize(
    "stubborn", [fail("runtime_error", "A process cannot be killed."), OSError("odd")]
)
async def test_one_that_cannot_be_ended_is_nobody_elses_end(stubborn: Exception) -> None:
    """It is given up, those after it are ended, and prompts are counted as before."""
    async with running(keep_s=0.01) as bench:
        for model in ("one", "two"):
            await bench.count("a", model)
            bench.started[-1].stubborn = stubborn
        for one in list(bench.started):
            await until(one.died.is_set, what="it was told to end")
        assert await bench.count("a b", "one") == 2
        await until(bench.started[-1].died.is_set, what="the next one is ended as well")
        assert await bench.count("a b", "three") == 2
        bench.started[-1].stubborn = stubborn


async def test_callers_hear_of_their_mistakes_and_of_nothing_else() -> None:
    """Whatever else fails means that the weights are needed, and leaves nothing behind."""
    async with running() as bench:
        with pytest.raises(RoostError) as mistake:
            await bench.count("too long")
        assert mistake.value.failure.reason == "context_length_exceeded"
        bench.broken = True
        bench.started[0].ended.set()
        for _ in range(3):
            with pytest.raises(RoostError) as needed:
                await bench.count("a")
            assert needed.value.failure.reason == "runtime_died"
        bench.broken = False
        assert await bench.count("a b") == 2
        with pytest.raises(RoostError) as without:
            await weights_are_needed(GenerateRequest(ModelId("m"), TextPrompt("a")), OWNER)
        assert without.value.failure.reason == "runtime_died"


async def test_who_leaves_leaves_nothing() -> None:
    """A count that is cancelled while it waits, starts or counts frees its place."""
    async with running() as bench:
        await bench.count("a")
        bench.started[0].go.clear()
        counting = asyncio.ensure_future(bench.count("a"))
        await until(lambda: bench.counters.users == 1, what="it counts")
        counting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await counting
        assert bench.counters.users == 0
        bench.started[0].go.set()
        assert await bench.count("a b") == 2


async def test_a_prompt_is_told_as_well_as_counted() -> None:
    """What is asked beside the count is not left out, and what such a child cannot say is said."""
    async with running() as bench:
        asked = GenerateRequest(
            ModelId("m"), TextPrompt("two words"), counts=True, return_tokens=True
        )
        assert (await bench.counters.prepared(asked, OWNER)).tokens == (0, 1)
        assert bench.started[0].owners == [OWNER], "prompts are remembered for whoever asks"
        bare = msgspec.structs.replace(asked, prompt=TextPrompt("two words", bare=True))
        with pytest.raises(RoostError, match="tells no texts of prompts"):
            await bench.counters.prepared(bare, OWNER)
