"""SHELL: what this node says of itself: its machine, its engines, and its runtimes' own figures.

Looking is cheap, but not for an event loop: files of the system and the vendor's tool are asked in
a thread. What hardly ever changes is looked at once a while.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from roost.core.about import BackendAbout, NodeAbout, Persistence, RuntimeAbout
from roost.core.machine import Device, Memory, Processor
from roost.errors import RoostError
from roost.node.machine import machine
from roost.node.machine.devices import devices

if TYPE_CHECKING:
    from roost.backends.base import Runtime
    from roost.core.ids import RuntimeId

SLOW_S = 60.0
"""Between two looks at what hardly ever changes: processor, accelerators, what is installed."""

Look: TypeAlias = Callable[[], tuple[BackendAbout, ...]]
"""Looks what there is of each backend."""


class _Slow(NamedTuple):
    seen_s: float
    processor: Processor
    devices: tuple[Device, ...]
    backends: tuple[BackendAbout, ...]


class Describer:
    """Describes a node; `look` is asked about its backends, `clock` is monotonic.

    `persistence` is what its states outlive.
    """

    def __init__(
        self, look: Look, clock: Callable[[], float], persistence: Persistence | None = None
    ) -> None:
        self._look = look
        self._clock = clock
        self._persistence = persistence
        self._slow: _Slow | None = None

    async def __call__(self, runtimes: Mapping[RuntimeId, Runtime]) -> NodeAbout:
        """Look at everything as it is now."""
        slow, memory = await asyncio.to_thread(self._seen)
        figures = [await _figures(name, runtime) for name, runtime in list(runtimes.items())]
        return NodeAbout(
            slow.processor,
            memory,
            slow.devices,
            slow.backends,
            tuple(figures),
            self._persistence,
        )

    def _seen(self) -> tuple[_Slow, Memory]:
        now, slow = self._clock(), self._slow
        if slow is None or now >= slow.seen_s + SLOW_S:
            slow = self._slow = _Slow(now, machine.processor(), devices(), self._look())
        return slow, machine.memory()


async def _figures(name: RuntimeId, runtime: Runtime) -> RuntimeAbout:
    states = runtime.states is not None
    try:
        told = await runtime.telemetry()
    except RoostError:
        return RuntimeAbout(name, states=states)
    return RuntimeAbout(
        name,
        told.live,
        told.rss_bytes,
        told.prefill_tokens_per_s,
        told.decode_tokens_per_s,
        states,
        told.step_tokens,
    )
