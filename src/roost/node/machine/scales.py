"""SHELL: measures the machine's memory and its runtimes, now and then and when it is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TypeAlias

import msgspec

from roost.backends.base import Runtime
from roost.core.footprint import HOST
from roost.core.ids import RuntimeId
from roost.core.machine import Memory
from roost.core.model import RuntimeKey
from roost.errors import RoostError
from roost.node.effects import Pressed
from roost.node.models.pressure import Reading
from roost.node.relief import Weights
from roost.observe.logs import Log

Calibration: TypeAlias = Callable[[RuntimeKey, int], Awaitable[None]]
"""Writes down what a runtime of this key was seen to take, in bytes."""
Probe: TypeAlias = Callable[[], Memory]
"""Looks at the machine's memory."""


class ScalesSettings(msgspec.Struct, frozen=True):
    """`every_s` passes between two measurements.

    One that is asked for begins `settle_s` later: files have to be gone, and pages given back.
    """

    every_s: float = 5.0
    settle_s: float = 0.05


class Scales:
    """One node's; without a probe nothing is measured."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._due = asyncio.Event()
        self._number = 0
        self._probe: Probe | None = None
        self._calibrate: Calibration | None = None

    def use(self, probe: Probe, calibrate: Calibration) -> None:
        """Measure with this, and have figures of runtimes written down."""
        self._probe, self._calibrate = probe, calibrate

    def weigh(self, number: int | None = None) -> None:
        """Measure soon; `number` is what the measurement is to answer with."""
        self._number = self._number if number is None else number
        self._due.set()

    async def note(self, runtime: Runtime | None, measured_bytes: int) -> None:
        """Write down what a runtime takes, if it is still there."""
        if runtime is not None and self._calibrate is not None:
            await self._calibrate(runtime.key, measured_bytes)

    def tell(self, change: Pressed) -> None:
        """Say that a memory is at another level."""
        facts = {"device": change.device, "level": change.pressure, "share": round(change.share, 3)}
        if change.pressure in ("normal", "unknown"):
            self._log.info("memory_pressure", **facts)
        else:
            self._log.warning("memory_pressure", **facts)

    async def run(
        self,
        runtimes: Mapping[RuntimeId, Runtime],
        tell: Callable[[Weights], Awaitable[None]],
        settings: ScalesSettings,
    ) -> None:
        """Measure until cancelled."""
        while self._probe is not None:
            await tell(await weigh(self._probe, runtimes, self._number))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), settings.every_s)
            self._due.clear()
            await asyncio.sleep(settings.settle_s)


async def weigh(probe: Probe, runtimes: Mapping[RuntimeId, Runtime], number: int) -> Weights:
    """Measure the machine's memory, and what each runtime takes of it.

    Pages of files that runtimes have mapped, weights above all, count as available to the system;
    to whoever looks for room they are taken.
    """
    taken: dict[RuntimeId, int] = {}
    mapped = 0
    for name, runtime in list(runtimes.items()):
        try:
            told = await runtime.telemetry()
        except RoostError:
            continue
        if told.rss_bytes:
            taken[name] = told.rss_bytes
            mapped += told.mapped_bytes or 0
    memory = await asyncio.to_thread(probe)
    room = memory.room_bytes
    room = None if room is None else max(0, room - mapped)
    return Weights((Reading(HOST, memory.capacity_bytes, room),), taken, number, mapped)
