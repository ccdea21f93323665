"""SHELL: cases about lifetimes: of streams that are left, of neighbours, of runtimes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from roost.backends.base import Prepared, SlotUse
from roost.core.events import TERMINAL, Delta, Failed, PrefillProgress
from roost.testing.stand import Broken, Record, Stand, require


async def loading_is_told(stand: Stand) -> None:
    """Loading reports parts of the whole that only grow, and ends at 1."""
    parts = stand.progress
    good = parts == sorted(parts) and all(0 <= part <= 1 for part in parts)
    require(good and parts and parts[-1] == 1, f"the load was told as {parts}")
    require(stand.runtime.key == stand.subject.key, "the runtime tells another key")


async def telemetry_is_told(stand: Stand) -> None:
    """Figures are given while a stream runs, and unknown ones are None."""
    prepared = await stand.long()
    async with stand.runtime.open(prepared, SlotUse(0, reuse=False)) as events:
        await anext(events)
        live = (await stand.runtime.telemetry()).live
        require(live in {None, 1}, f"one stream runs and {live} are told")
    live = (await stand.runtime.telemetry()).live
    require(live in {None, 0}, f"no stream runs and {live} are told")


async def leaving_prefill_frees(stand: Stand) -> None:
    """A stream left during prefill gives its slot back, and the exit waits for that."""
    await _leave(stand, await stand.heavy(), PrefillProgress, "cancel_prefill")


async def leaving_decode_frees(stand: Stand) -> None:
    """A stream left during decode gives its slot back, and the exit waits for that."""
    await _leave(stand, await stand.long(), Delta, "cancel_decode")


async def leaving_at_once_frees(stand: Stand) -> None:
    """A stream that is opened and left without a look gives its slot back."""
    async with stand.leaving(await stand.long(), 1, "cancel_unread"):
        pass
    await stand.check_free(1)


async def cancelled_reader_frees(stand: Stand) -> None:
    """A reader whose task is cancelled gives its slot back like one that leaves."""
    prepared = await stand.long()
    reading = asyncio.Event()

    async def read() -> None:
        async with stand.runtime.open(prepared, SlotUse(1, reuse=False)) as events:
            async for _ in events:
                reading.set()

    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(read())
        await reading.wait()
        reader.cancel()
    await stand.check_free(1)


async def leaving_beside_a_neighbour_frees(stand: Stand) -> None:
    """Slots are given back as well while another stream runs, and that one notices nothing."""
    async with neighbour(stand):
        await _leave(stand, await stand.heavy(), PrefillProgress, "cancel_prefill_neighbour")
        await _leave(stand, await stand.long(), Delta, "cancel_decode_neighbour")


async def _leave(stand: Stand, prepared: Prepared, when: type, measure: str) -> None:
    record = Record()
    async with stand.leaving(prepared, 1, measure) as events:
        async for event in events:
            record.add(event)
            # Who tells nothing of prefill is left at its first text.
            if isinstance(event, (when, Delta, *TERMINAL)):
                break
    require(not isinstance(record.events[-1], TERMINAL), "the stream ended before it was left")
    await stand.check_free(1)


@asynccontextmanager
async def neighbour(stand: Stand) -> AsyncIterator[None]:
    """Keep a stream on slot 0 that is read all the time and has to get on meanwhile."""
    prepared, record, running = await stand.long(), Record(), asyncio.Event()

    async def read() -> None:
        async with stand.runtime.open(prepared, SlotUse(0, reuse=False)) as events:
            async for event in events:
                record.add(event)
                running.set()
        raise Broken(f"the neighbour ended with {record.events[-1]}")

    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(read())
        await running.wait()
        seen = len(record.events)
        yield
        require(len(record.events) > seen, "the neighbour got nothing meanwhile")
        reader.cancel()


async def streams_do_not_mix(stand: Stand) -> None:
    """Two streams at once each get their own text and nothing of the other's."""
    prompts = (("red blue " * 20).strip(), ("17 42 " * 20).strip())
    async with asyncio.TaskGroup() as tasks:
        running = [
            tasks.create_task(stand.run(stand.request(prompt, 24, ignore_eos=True), slot))
            for slot, prompt in enumerate(prompts)
        ]
    words, numbers = (task.result().text for task in running)
    require("blue" in words and not re.search(r"\d", words), f"the words became {words!r}")
    require(re.search(r"\d", numbers) and "blue" not in numbers, f"numbers became {numbers!r}")


async def slow_readers_wait_alone(stand: Stand) -> None:
    """A stream nobody reads does not hold up another, and is complete when it is read."""
    prepared = await stand.runtime.prepare(stand.request("one two three ", 64, ignore_eos=True))
    record = Record()
    async with stand.runtime.open(prepared, SlotUse(0, reuse=False)) as events:
        record.add(await anext(events))
        other = await stand.run(stand.request("apple apple apple ", 24, ignore_eos=True), 1)
        require(other.text, "the other stream got nothing")
        async for event in events:
            record.add(event)
    stand.check_sums(record, record.finished.usage, prepared)


async def death_is_told(stand: Stand) -> None:
    """When the runtime is killed its streams fail, with sums, and later calls are refused."""
    assert stand.subject.kill
    prepared, record = await stand.long(), Record()
    async with stand.runtime.open(prepared, SlotUse(0, reuse=False)) as events:
        async for event in events:
            record.add(event)
            if isinstance(event, Delta) and len(record.deltas) == 3:
                await stand.subject.kill(stand.runtime)
    last = record.events[-1]
    require(isinstance(last, Failed), f"the runtime was killed and the stream ended with {last}")
    assert isinstance(last, Failed)
    require(last.failure.reason == "runtime_died", f"a death is told as {last.failure.reason}")
    stand.check_sums(record, last.usage, prepared)
    async with asyncio.timeout(stand.subject.patience_s):
        await stand.runtime.died.wait()
    await _check_refuses(stand, prepared)


async def stop_is_final(stand: Stand) -> None:
    """After stop everything is refused, and stopping again does nothing."""
    prepared = await stand.runtime.prepare(stand.request("one "))
    await stand.runtime.stop(5.0)
    require(stand.runtime.died.is_set(), "the runtime is stopped and has not died")
    await _check_refuses(stand, prepared)
    await stand.runtime.stop(5.0)


async def stop_ends_streams(stand: Stand) -> None:
    """A stream that runs while its runtime is stopped fails and does not hang."""
    prepared, record = await stand.long(), Record()
    async with stand.runtime.open(prepared, SlotUse(0, reuse=False)) as events:
        record.add(await anext(events))
        await stand.runtime.stop(5.0)
        async for event in events:
            record.add(event)
    last = record.events[-1]
    require(isinstance(last, Failed), f"the runtime was stopped and the stream ended with {last}")


async def _check_refuses(stand: Stand, prepared: Prepared) -> None:
    for reason in (
        (await stand.refusal(prepared.request)).reason,
        (await stand.open_refusal(prepared)).reason,
    ):
        require(reason == "runtime_died", f"a dead runtime refuses with {reason}")
