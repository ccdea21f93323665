"""What goes wrong around real libraries ends at most its own runtime, and is told."""

from __future__ import annotations

import asyncio
import random
import signal
from pathlib import Path

import msgspec
import pytest

from roost.backends.base import SlotUse
from roost.backends.hosted.host import Hosted
from roost.backends.hosted.runtime import HostedRuntime
from roost.backends.registry import library
from roost.core.events import Delta, StreamEvent
from roost.errors import RoostError
from roost.store.home import Home
from roost.store.models.registry import ModelStore
from roost.testing.conformance import Subject
from tests.backends.test_host_chaos import answer, failure, program, said, set_so, started, wanted
from tests.children import runs
from tests.conftest import until
from tests.engines.conftest import ONNX, SAFETENSORS
from tests.engines.subjects import subject

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.timeout(600)]
BACKENDS = {"transformers": SAFETENSORS, "onnx_genai": ONNX, "candle": SAFETENSORS}
WORDS = {"candle": 3}
"""How often the prompt that is left a hundred times says two words; 40 are two steps of others."""


@pytest.fixture(params=BACKENDS)
def one(request: pytest.FixtureRequest, home: Path, tmp_path: Path) -> Subject:
    """Give each backend with its model."""
    name = request.param
    return subject(name, ModelStore(Home.open(home)).get(BACKENDS[name]), tmp_path)


async def test_a_killed_library_takes_its_own_streams_along(one: Subject) -> None:
    """By `kill -9` in the middle of two answers: both are told, and the next runtime answers."""
    async with started(one) as runtime:
        begun = [asyncio.Event(), asyncio.Event()]
        both = [asyncio.create_task(_told(runtime, slot, begun[slot])) for slot in (0, 1)]
        await asyncio.gather(*(one.wait() for one in begun))
        program(runtime).kill()
        for events in await asyncio.gather(*both):
            assert failure(events)[0] == "runtime_died"
        assert runtime.died.is_set()
    async with started(one) as again:
        assert len(said(await answer(again, max_tokens=4))) > 0


async def _told(runtime: HostedRuntime, slot: int, begun: asyncio.Event) -> list[StreamEvent]:
    """Collect an answer, and say when it has begun."""
    events = []
    prepared = await runtime.prepare(wanted(max_tokens=200))
    async with runtime.open(prepared, SlotUse(slot, reuse=False)) as stream:
        async for event in stream:
            events.append(event)
            if isinstance(event, Delta):
                begun.set()
    return events


async def test_a_frozen_library_is_ended(one: Subject) -> None:
    """One that is stopped by a signal is killed by the first question it does not answer."""
    async with started(set_so(one, release_timeout_s=2.0)) as runtime:
        frozen = program(runtime)
        frozen.send_signal(signal.SIGSTOP)
        with pytest.raises(RoostError, match="did not answer in time"):
            await runtime.prepare(wanted())
        await runtime.died.wait()
        await until(lambda: not runs(frozen))


async def test_garbage_is_the_end_of_who_says_it(
    one: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that are no frame end every stream of that runtime, with the cause."""
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}:src")
    loader = f"tests.engines.spoilt_engine:{one.backend.name}"
    spoilt = msgspec.structs.replace(library(one.backend.name), loader=loader)
    broken = Subject(Hosted(spoilt), one.key, one.manifest, one.settings)
    async with started(broken) as runtime:
        reason, message = failure(await answer(runtime))
        assert (reason, message) == (
            "runtime_died",
            "The runtime has ended: it broke the protocol.",
        )


async def test_memory_has_a_limit(one: Subject) -> None:
    """Less than the model takes fails its load in words, and leaves no process."""
    with pytest.raises(RoostError) as caught:
        async with started(set_so(one, memory_max_bytes=96 * 1024 * 1024)):
            pass
    assert caught.value.failure.reason in {"load_failed", "out_of_memory"}
    assert "Traceback" not in caught.value.failure.message


async def test_a_hundred_cancels_leave_nothing_behind(one: Subject) -> None:
    """Answers left at any moment, on two slots at once, change nothing of those that follow."""
    dice = random.Random(6)
    async with started(one) as runtime:
        before = said(await answer(runtime))
        prepared = await runtime.prepare(wanted("one two " * WORDS.get(one.backend.name, 40), 16))

        async def leave(slot: int) -> None:
            for _ in range(50):
                reads = dice.randrange(-1, 5)
                async with runtime.open(prepared, SlotUse(slot, dice.random() < 0.5)) as events:
                    async for _ in events:
                        reads -= 1
                        if reads < 0:
                            break

        await asyncio.gather(leave(0), leave(1))
        assert said(await answer(runtime)) == before
        assert (await runtime.telemetry()).live == 0


async def test_one_model_with_two_sets_of_options(one: Subject) -> None:
    """Is two processes, each with its own context; one that dies takes nothing of the other."""
    small = msgspec.structs.replace(one.key.options, ctx=128)
    key = msgspec.structs.replace(one.key, options=small)
    other = Subject(one.backend, key, one.manifest, one.settings)
    async with started(one) as first, started(other) as second:
        await _side_by_side(first, second)
        asked = wanted("x", None)
        limits = [(await each.prepare(asked)).limit for each in (first, second)]
        assert limits[0] - limits[1] == 128
        program(second).kill()
        await second.died.wait()
        assert said(await answer(first, max_tokens=4))


@pytest.mark.parametrize("names", [("transformers", "onnx_genai"), ("candle", "onnx_genai")])
async def test_two_models_at_once(names: tuple[str, str], home: Path, tmp_path: Path) -> None:
    """Of two backends, in two processes, that speak at the same time."""
    store = ModelStore(Home.open(home))
    one, other = (subject(name, store.get(BACKENDS[name]), tmp_path / name) for name in names)
    async with started(one) as first, started(other) as second:
        await _side_by_side(first, second)


async def _side_by_side(first: HostedRuntime, second: HostedRuntime) -> None:
    assert first.pid != second.pid
    texts = await asyncio.gather(answer(first), answer(second))
    assert [bool(said(text)) for text in texts] == [True, True]
