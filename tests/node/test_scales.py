"""Measuring memory: what is mapped counts as taken, what is not told is unknown."""

from __future__ import annotations

import asyncio

from roost.backends.base import Runtime, Telemetry
from roost.core.ids import RuntimeId
from roost.core.machine import Memory
from roost.core.model import RuntimeKey
from roost.errors import fail
from roost.node.machine.scales import Scales, ScalesSettings, weigh
from roost.node.models.pressure import Reading
from roost.node.relief import Weights
from roost.observe import logs
from tests.node.kit import MODEL
from tests.node.tiny import TinyRuntime

A, B, C = RuntimeId("a"), RuntimeId("b"), RuntimeId("c")


class Heavy(TinyRuntime):
    """A runtime of 700 bytes, 500 of which are pages of files."""

    async def telemetry(self) -> Telemetry:
        """Tell."""
        return Telemetry(rss_bytes=700, mapped_bytes=500)


class Mute(TinyRuntime):
    """A runtime that is alive and tells nothing."""

    async def telemetry(self) -> Telemetry:
        """Know nothing."""
        return Telemetry()


class Gone(TinyRuntime):
    """A runtime that has just died."""

    async def telemetry(self) -> Telemetry:
        """There is nobody to ask."""
        raise fail("runtime_died", "it died")


def some() -> Memory:
    """A machine with 1000 bytes left of 4000."""
    return Memory(total_bytes=4000, available_bytes=1000)


async def test_mapped_weights_are_no_room() -> None:
    """The system would drop them for others; whoever looks for room must not count on that."""
    runtimes: dict[RuntimeId, Runtime] = {A: Heavy(MODEL), B: Mute(MODEL), C: Gone(MODEL)}
    assert await weigh(some, runtimes, 3) == Weights(
        (Reading("host", 4000, 500),), {A: 700}, 3, 500
    )
    assert await weigh(Memory, {}, 0) == Weights((Reading("host", None, None),))
    twice: dict[RuntimeId, Runtime] = {A: Heavy(MODEL), B: Heavy(MODEL), C: Heavy(MODEL)}
    assert (await weigh(some, twice, 0)).readings == (Reading("host", 4000, 0),)


async def test_it_measures_when_it_is_asked_to() -> None:
    """Long before it would by itself, and it says for which asking that was."""
    scales, told = Scales(logs.get()), asyncio.Queue[Weights](16)

    async def keep(_key: RuntimeKey, _size: int) -> None:
        """Write nothing down."""

    scales.use(some, keep)
    task = asyncio.create_task(scales.run({}, told.put, ScalesSettings(every_s=3600, settle_s=0)))
    assert (await told.get()).number == 0
    scales.weigh(4)
    assert (await told.get()).number == 4
    scales.weigh()
    assert (await told.get()).number == 4
    task.cancel()
    await asyncio.wait([task])


async def test_without_a_probe_nothing_is_measured() -> None:
    """And figures of runtimes go nowhere."""
    scales = Scales(logs.get())
    await scales.run({}, asyncio.Queue[Weights](16).put, ScalesSettings())
    await scales.note(Heavy(MODEL), 5)


async def test_figures_are_written_down_by_key() -> None:
    """Of a runtime that is gone by then nothing is."""
    noted: list[tuple[RuntimeKey, int]] = []

    async def keep(key: RuntimeKey, size: int) -> None:
        noted.append((key, size))

    scales, runtime = Scales(logs.get()), Heavy(MODEL)
    scales.use(some, keep)
    await scales.note(runtime, 5)
    await scales.note(None, 6)
    assert noted == [(runtime.key, 5)]
