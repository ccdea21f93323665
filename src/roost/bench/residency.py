"""WIRING: `python -m roost.bench.residency`: what many models cost, and a load its neighbours.

A gateway and a node in one process, over sockets and a link as in `roost serve`; runtimes are
scripted. First the node's report of 16 runtimes, each slot of which is in use, while a 17th model
loads; then how long it takes from the request for a model that nobody runs until its load begins,
while that other load holds on.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median

import msgspec

from roost.backends.base import Runtime, StartSettings
from roost.backends.scripted.backend import ScriptedBackend
from roost.backends.scripted.script import Script
from roost.bench.claims import Report, at_most, ms, table
from roost.bench.drills.asking import Chat, ask
from roost.bench.numbers import calibration
from roost.core.fence import Life
from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.core.snapshots import ModelOffer
from roost.fleet.settings import FleetSettings
from roost.gateway.assemble import GatewaySettings, open_gateway
from roost.gateway.front.access import anyone
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.generation import GenerationSettings
from roost.gateway.loop import run
from roost.gateway.node_link import GatewayLinkSettings
from roost.node.agent import Agent
from roost.node.floor.pace import PaceSettings
from roost.node.loop import LoopSettings, NodeLoop
from roost.node.settings import AgentSettings
from roost.observe import logs
from roost.wire.memory import memory_pair
from roost.wire.messages import VERSION, Hello

RUNTIMES, SLOTS, CTX = 16, 4, 32_768
HELD = ModelId("held")
SNAPSHOT_BAR_MS, START_BAR_MS = 1.0, 50.0
SNAPSHOTS, STARTS = 200, 20
WAIT_S, LOOK_S = 30.0, 0.005
PATIENT = PaceSettings(stall_s=600.0, load_stall_s=600.0)
ENDLESS = '@script {"pieces": ["x", "y"], "hang_after": 1}'


class Figures(msgspec.Struct, frozen=True):
    """Milliseconds of each report, and of each start of a load; those of the calibration loop."""

    snapshots_ms: tuple[float, ...]
    starts_ms: tuple[float, ...]
    loop_ms: float


class Bench:
    """One node behind one gateway; `held` loads until the end, everything else at once."""

    def __init__(self, models: Sequence[ModelId], clock: Callable[[], float]) -> None:
        self.began: dict[ModelId, float] = {}
        self.release = asyncio.Event()
        self._clock = clock
        self._backend = ScriptedBackend(Script(pieces=("x",)))
        offers = [ModelOffer(model, SLOTS, CTX) for model in models]
        self.agent = Agent(AgentSettings("scripted", pace=PATIENT), offers)
        hello = Hello(VERSION, NodeId("bench"), "bench", "1", "bench")
        self.node = NodeLoop(self.agent, self._launch, hello, LoopSettings(), clock, logs.get())

    async def _launch(
        self, model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> Runtime:
        self.began[model] = self._clock()
        on_progress(0.5)
        if model == HELD:
            await self.release.wait()
        manifest = Manifest(model, "", 0, "none", format="scripted")
        key = RuntimeKey("scripted", model, "none", RuntimeOptions(CTX, SLOTS))
        return await self._backend.start(key, manifest, StartSettings("", ""), on_progress)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so; raises `TimeoutError`."""
        for _ in range(int(WAIT_S / LOOK_S)):
            if condition():
                return
            await asyncio.sleep(LOOK_S)
        raise TimeoutError

    def progress_of_held(self) -> float | None:
        """How far the load that holds on is, as the node reports it; None before it says."""
        views = [view for view in self.agent.status().runtimes if view.model == HELD]
        return views[0].progress or None if views else None

    def busy(self) -> int:
        """How many slots are in use."""
        views = self.agent.status().runtimes
        return sum(slot.busy for view in views for slot in view.slots)


@asynccontextmanager
async def _running(bench: Bench) -> AsyncIterator[int]:
    """Run node and gateway, and give the port."""
    settings = GatewaySettings(
        name="bench",
        fleet=FleetSettings(queue_length=1024),
        generation=GenerationSettings(),
        link=GatewayLinkSettings("bench", 64, Life("bench", 1)),
        listener=Listener(port=0),
        limits=FrontLimits(),
    )
    gateway = await open_gateway(settings, anyone)
    near, far = memory_pair()
    async with asyncio.TaskGroup() as group:
        gateway.join(far)
        group.create_task(bench.node.run())
        group.create_task(bench.node.serve_link(near))
        await gateway.mind.report_of(NodeId("bench")).wait()
        assert gateway.front is not None, "an open gateway listens"
        try:
            yield gateway.front.port
        finally:
            bench.release.set()
            await bench.node.stop(0.0)
            await gateway.close(0.0)


async def measure(snapshots: int = SNAPSHOTS, starts: int = STARTS) -> Figures:
    """Fill the node, hold a load, and take the figures."""
    clock = time.perf_counter
    full = [ModelId(f"full{number}") for number in range(RUNTIMES)]
    fresh = [ModelId(f"fresh{number}") for number in range(starts)]
    bench = Bench([*full, HELD, *fresh], time.monotonic)
    loop_ms = calibration(clock)
    async with _running(bench) as port, asyncio.TaskGroup() as group:
        talks = [
            group.create_task(ask(Chat(port, model, ENDLESS, timeout_s=2 * WAIT_S)))
            for model in full
            for _ in range(SLOTS)
        ]
        await bench.until(lambda: bench.busy() == RUNTIMES * SLOTS)
        talks.append(group.create_task(ask(Chat(port, HELD, "hello", timeout_s=2 * WAIT_S))))
        await bench.until(lambda: bench.progress_of_held() is not None)
        taken = [_snapshot_ms(bench, clock) for _ in range(snapshots)]
        begun = [await _start_ms(bench, port, model) for model in fresh]
        for talk in talks:
            talk.cancel()
    return Figures(tuple(taken), tuple(begun), loop_ms)


def _snapshot_ms(bench: Bench, clock: Callable[[], float]) -> float:
    began = clock()
    status = bench.agent.status()
    took_ms = (clock() - began) * 1000
    loading = [view for view in status.runtimes if view.state == "loading"]
    assert [view.model for view in loading] == [HELD], "a load is in the report"
    assert loading[0].progress == 0.5
    return took_ms


async def _start_ms(bench: Bench, port: int, model: ModelId) -> float:
    asked = time.monotonic()
    answer = await ask(Chat(port, model, "hello", max_tokens=1))
    assert answer.status == 200, f"the node answered with {answer.status}"
    return (bench.began[model] - asked) * 1000


def report(figures: Figures) -> Report:
    """Give the verdict; milliseconds, and multiples of the calibration loop of the same run."""
    rows = []
    for what, values in (
        (f"report of {RUNTIMES} runtimes", figures.snapshots_ms),
        ("until a second load begins", figures.starts_ms),
    ):
        each = (median(values), max(values))
        rows.append(
            [
                what,
                *(ms(one / 1000) for one in each),
                *(f"{one / figures.loop_ms:.3f}" for one in each),
            ]
        )
    heads = ("", "median ms", "most ms", "median loops", "most loops")
    checks = (
        at_most("report", median(figures.snapshots_ms), SNAPSHOT_BAR_MS, " ms"),
        at_most(
            "second load, all but the slowest", sorted(figures.starts_ms)[-2], START_BAR_MS, " ms"
        ),
    )
    numbers = {"snapshot_ms": median(figures.snapshots_ms), "start_ms": median(figures.starts_ms)}
    calibrated = f"calibration loop {figures.loop_ms:.1f} ms"
    return Report("many models", (calibrated, table(heads, rows)), numbers, checks)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and report; status 1 if a bar was missed."""
    parser = argparse.ArgumentParser(prog="python -m roost.bench.residency", description=__doc__)
    parser.add_argument("--json", type=Path, help="also write the report to this file")
    options = parser.parse_args(arguments)
    logs.configure("error")
    told = report(run(measure()))
    sys.stdout.write(f"{told.text()}\n")
    if options.json:
        options.json.write_bytes(msgspec.json.encode(told))
    return 0 if told.passed else 1


if __name__ == "__main__":
    sys.exit(main())
