"""What goes wrong in a hosted library ends at most its own runtime, and is told."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import psutil
import pytest

from roost.backends.base import SlotUse
from roost.backends.hosted.runtime import HostedRuntime
from roost.core.events import Delta, Failed, StreamEvent
from roost.core.ids import ModelId
from roost.core.model import Manifest
from roost.core.request import GenerateRequest, Sampling, TextPrompt
from roost.errors import RoostError
from roost.testing.conformance import Subject
from tests.backends.subjects import MODEL, fake_manifest, settings_in, toy
from tests.children import runs
from tests.conftest import Eventually

GREEDY = Sampling(temperature=0.0)
MEMORY_BYTES = 192 * 1024 * 1024


def other_manifest(folder: Path) -> Manifest:
    """Write a second model, that works."""
    place = folder / "other"
    place.mkdir()
    return msgspec.structs.replace(fake_manifest(place), id=ModelId("other"))


def wanted(text: str = "one two three ", max_tokens: int | None = 12) -> GenerateRequest:
    """Ask for a few tokens."""
    return GenerateRequest(MODEL, TextPrompt(text), max_tokens, sampling=GREEDY, ignore_eos=True)


def set_so(subject: Subject, **settings: object) -> Subject:
    """Give a runtime other settings."""
    replaced = msgspec.structs.replace(subject.settings, **settings)
    return Subject(subject.backend, subject.key, subject.manifest, replaced)


@asynccontextmanager
async def started(subject: Subject) -> AsyncIterator[HostedRuntime]:
    """Start a runtime, and stop it in the end."""
    backend, settings = subject.backend, subject.settings
    runtime = await backend.start(subject.key, subject.manifest, settings, lambda _: None)
    assert isinstance(runtime, HostedRuntime)
    try:
        yield runtime
    finally:
        await runtime.stop(5.0)


async def answer(runtime: HostedRuntime, slot: int = 0, max_tokens: int = 12) -> list[StreamEvent]:
    """Run a request to its end, whatever that is."""
    prepared = await runtime.prepare(wanted(max_tokens=max_tokens))
    async with runtime.open(prepared, SlotUse(slot, reuse=False)) as events:
        return [event async for event in events]


def said(events: list[StreamEvent]) -> str:
    """Join the text."""
    return "".join(event.text for event in events if isinstance(event, Delta))


def failure(events: list[StreamEvent]) -> tuple[str, str]:
    """Give reason and message of the end, which is a bad one, with counts that add up."""
    last = events[-1]
    assert isinstance(last, Failed)
    told = sum(event.tokens for event in events if isinstance(event, Delta))
    assert last.usage.completion_tokens == told
    return last.failure.reason, last.failure.message


def program(runtime: HostedRuntime) -> psutil.Process:
    """Give the process of the library, below its shim."""
    (found,) = psutil.Process(runtime.pid).children()
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "what"),
    [("crash_after", "it ended unexpectedly"), ("garbage_after", "it broke the protocol")],
)
async def test_a_broken_child_takes_its_own_streams_along(
    fault: str, what: str, tmp_path: Path
) -> None:
    """A crash, and bytes that are no frame, end every stream of that runtime with the cause."""
    async with started(toy(tmp_path, decode_ms=1, **{fault: 5})) as runtime:
        both = await asyncio.gather(answer(runtime, 0), answer(runtime, 1))
        for events in both:
            assert failure(events) == ("runtime_died", f"The runtime has ended: {what}.")
        assert runtime.died.is_set()
        with pytest.raises(RoostError, match="has ended"):
            await runtime.prepare(wanted())


@pytest.mark.slow
async def test_an_error_of_the_library_is_one_answers(tmp_path: Path) -> None:
    """What a library raises fails that answer, without its words, and the runtime lives on."""
    async with started(toy(tmp_path, raise_after=5)) as runtime:
        events = await answer(runtime)
        reason, message = failure(events)
        assert reason == "runtime_error"
        assert message.endswith("the library raised RuntimeError.")
        assert len(said(events)) == 5
        assert len(said(await answer(runtime, max_tokens=4))) == 4


@pytest.mark.slow
async def test_vectors_fail_as_answers_do(tmp_path: Path) -> None:
    """What the library raises is one batch's failure, a crash is everybody's who waits."""
    subject = toy(tmp_path, raise_after=2, crash_after=3, prefill_ms=1.0)
    options = msgspec.structs.replace(subject.key.options, mode="embed")
    key = msgspec.structs.replace(subject.key, options=options)
    async with started(Subject(subject.backend, key, subject.manifest, subject.settings)) as one:
        (tokens,) = await one.tokenize(["one"])
        with pytest.raises(RoostError, match="the library raised RuntimeError") as caught:
            await one.embed([tokens] * 2)
        assert caught.value.failure.reason == "runtime_error"
        assert len((await one.embed([tokens]))[0]) == 16
        both = (one.embed([tokens] * 3), one.embed([tokens]))
        for ended in await asyncio.gather(*both, return_exceptions=True):
            assert isinstance(ended, RoostError)
            assert ended.failure.reason == "runtime_died"
            assert "it ended unexpectedly" in ended.failure.message
        assert one.died.is_set()


@pytest.mark.slow
async def test_vectors_that_were_left_hold_nobody_up(tmp_path: Path) -> None:
    """Minutes of work that nobody waits for are passed over, and texts are read meanwhile."""
    subject = toy(tmp_path, prefill_ms=50.0)
    options = msgspec.structs.replace(subject.key.options, mode="embed")
    key = msgspec.structs.replace(subject.key, options=options)
    async with started(Subject(subject.backend, key, subject.manifest, subject.settings)) as one:
        (tokens,) = await one.tokenize(["one"])
        left = [asyncio.create_task(one.embed([tokens])) for _ in range(1500)]
        # Asked behind all of them.
        assert await one.tokenize(["one"]) == (tokens,)
        for asked in left:
            asked.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        async with asyncio.timeout(20.0):
            assert len((await one.embed([tokens]))[0]) == 16
        assert not one.died.is_set()


@pytest.mark.slow
async def test_a_stuck_call_is_ended_and_nobody_else_is(
    tmp_path: Path, eventually: Eventually
) -> None:
    """A step that never ends is killed when it is left; another model's runtime notices nothing."""
    stuck = set_so(toy(tmp_path, stuck_after=3), release_timeout_s=3.0)
    well = Subject(stuck.backend, stuck.key, other_manifest(tmp_path), settings_in(tmp_path))
    async with started(stuck) as ill, started(well) as healthy:
        with pytest.raises(RoostError, match="did not become free in time"):
            await _left_when_stuck(ill, tmp_path / "runtime.log", eventually)
        await ill.died.wait()
        assert len(said(await answer(healthy))) == 12


async def _left_when_stuck(runtime: HostedRuntime, log: Path, eventually: Eventually) -> None:
    prepared = await runtime.prepare(wanted())
    async with runtime.open(prepared, SlotUse(0, reuse=False)) as events:
        await anext(events)
        await eventually(lambda: log.exists() and "stuck" in log.read_text())


@pytest.mark.slow
async def test_a_frozen_child_is_ended(tmp_path: Path, eventually: Eventually) -> None:
    """One that is stopped by a signal is killed by the first question it does not answer."""
    async with started(set_so(toy(tmp_path), release_timeout_s=0.5)) as runtime:
        frozen = program(runtime)
        frozen.send_signal(signal.SIGSTOP)
        with pytest.raises(RoostError, match="did not answer in time") as caught:
            await runtime.prepare(wanted())
        assert caught.value.failure.reason == "runtime_died"
        await runtime.died.wait()
        await eventually(lambda: not runs(frozen))


@pytest.mark.slow
async def test_memory_has_a_limit(tmp_path: Path) -> None:
    """More than it may take fails the load, or one answer, in words; the runtime lives on."""
    hog = toy(tmp_path, hog_bytes=2 * MEMORY_BYTES)
    with pytest.raises(RoostError, match="no memory left") as caught:
        async with started(set_so(hog, memory_max_bytes=MEMORY_BYTES)):
            pass
    assert caught.value.failure.reason == "load_failed"
    late = toy(tmp_path, hog_bytes=MEMORY_BYTES * 2 // 3, hog_after=2)
    async with started(set_so(late, memory_max_bytes=MEMORY_BYTES)) as runtime:
        assert failure(await answer(runtime))[1].endswith("it has no memory left.")
        assert len(said(await answer(runtime, max_tokens=2))) == 2


@pytest.mark.slow
async def test_a_hundred_cancels_leave_nothing_behind(tmp_path: Path) -> None:
    """Answers left at any moment, on two slots at once, change nothing of those that follow."""
    dice = random.Random(6)
    async with started(toy(tmp_path, decode_ms=0.05, prefill_ms=0.01)) as runtime:
        before = said(await answer(runtime))
        prepared = await runtime.prepare(wanted("one two " * 20, 64))

        async def leave(slot: int) -> None:
            for _ in range(50):
                reads = dice.randrange(-1, 11)
                async with runtime.open(prepared, SlotUse(slot, dice.random() < 0.5)) as events:
                    async for _ in events:
                        reads -= 1
                        if reads < 0:
                            break

        await asyncio.gather(leave(0), leave(1))
        assert said(await answer(runtime)) == before
        assert (await runtime.telemetry()).live == 0


@pytest.mark.slow
async def test_runtimes_stand_side_by_side(tmp_path: Path) -> None:
    """Two models, and one model with two sets of options, are three processes with their own."""
    one = toy(tmp_path)
    small = msgspec.structs.replace(one.key.options, ctx=512)
    key = msgspec.structs.replace(one.key, options=small)
    other = Subject(one.backend, one.key, other_manifest(tmp_path), one.settings)
    again = Subject(one.backend, key, one.manifest, one.settings)
    async with started(one) as first, started(other) as second, started(again) as third:
        assert len({first.pid, second.pid, third.pid}) == 3
        texts = await asyncio.gather(answer(first), answer(second), answer(third))
        assert len({said(text) for text in texts}) == 1
        limits = [(await one.prepare(wanted("x", None))).limit for one in (first, third)]
        assert limits == [1024 - 2, 512 - 2]
        program(second).kill()
        await second.died.wait()
        assert len(said(await answer(first))) == len(said(await answer(third))) == 12
