"""A node whose runtimes do what a test says, for the law of concurrency: gates, tallies, no time.

Nothing here waits for a moment: who comes is counted, and a test waits for a count.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager

from roost.backends.base import Prepared, SlotUse, Telemetry
from roost.core.events import Delta, Failed, Finished, Started, StreamEvent, Usage
from roost.core.ids import ModelId, NodeId, RuntimeId, TenantId
from roost.core.model import RuntimeKey, RuntimeOptions
from roost.core.request import GenerateRequest
from roost.core.snapshots import ModelOffer
from roost.errors import Failure, RoostError
from roost.node.agent import Agent
from roost.node.hands import Launch
from roost.node.loop import LoopSettings, NodeLoop
from roost.node.models.ledger import RoomSettings
from roost.node.models.residency import BackoffSettings
from roost.node.settings import AgentSettings
from roost.node.states.keeping import KeepSettings
from roost.observe import logs
from roost.wire.memory import memory_pair
from roost.wire.messages import VERSION, Hello
from tests.node.gateway import TestGateway

WATCHDOG_S = 20.0
DIED = Failure("runtime_died", "it died")
AT_ONCE = BackoffSettings(first_s=0.0, max_s=0.0)


class Tally:
    """Counts, and wakes those who wait for a count."""

    def __init__(self) -> None:
        self.count = 0
        self._waiting: list[tuple[int, asyncio.Event]] = []

    def add(self) -> None:
        """One more."""
        self.count += 1
        for wanted, reached in self._waiting:
            if self.count >= wanted:
                reached.set()

    async def reaches(self, wanted: int) -> None:
        """Wait until so many have come."""
        reached = asyncio.Event()
        self._waiting.append((wanted, reached))
        if self.count < wanted:
            async with asyncio.timeout(WATCHDOG_S):
                await reached.wait()


class LawRuntime:
    """Says `done` to everything, when the launcher's `hold` lets it."""

    states = None

    def __init__(self, name: RuntimeId, model: ModelId, launch: LawLaunch, slots: int) -> None:
        self.key = RuntimeKey("law", model, "sha256:0", RuntimeOptions(slots=slots))
        self.died = asyncio.Event()
        self.inside = Tally()
        self._name = name
        self._launch = launch

    async def prepare(self, request: GenerateRequest, owner: TenantId | None = None) -> Prepared:
        """Three tokens, whatever is said."""
        self._check_alive()
        return Prepared(request, (1, 2, 3), limit=100)

    @asynccontextmanager
    async def open(
        self, prepared: Prepared, use: SlotUse
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Run on a slot."""
        self._check_alive()
        yield self._events(use)

    async def _events(self, use: SlotUse) -> AsyncIterator[StreamEvent]:
        yield Started(3, 0, use.slot)
        self.inside.add()
        self._launch.inside.add()
        await self._launch.hold.wait()
        if self.died.is_set():
            yield Failed(DIED)
            return
        yield Delta("done")
        yield Finished("stop", Usage(3, 0, 1))

    async def telemetry(self) -> Telemetry:
        """Nothing is known."""
        return Telemetry()

    async def stop(self, grace_s: float) -> None:
        """Let go of everything."""
        self.died.set()
        self._launch.log.append(("released", self._name))

    def _check_alive(self) -> None:
        if self.died.is_set():
            raise RoostError(DIED)


class LawLaunch:
    """Starts such runtimes; `gates` hold loads back, `raises` are what the next ones raise."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.log: list[tuple[str, str]] = []
        self.starts: dict[ModelId, Tally] = defaultdict(Tally)
        self.gates: dict[ModelId, asyncio.Event] = {}
        self.raises: dict[ModelId, list[BaseException]] = defaultdict(list)
        self.runtimes: dict[RuntimeId, LawRuntime] = {}
        self.called_off = Tally()
        self.inside = Tally()
        self.hold = asyncio.Event()
        self.hold.set()

    async def __call__(
        self, model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> LawRuntime:
        """Load when the model's gate is open."""
        on_progress(0.25)
        self.log.append(("load", runtime))
        self.starts[model].add()
        try:
            if model in self.gates:
                await self.gates[model].wait()
        except asyncio.CancelledError:
            self.called_off.add()
            raise
        if self.raises[model]:
            raise self.raises[model].pop(0)
        made = self.runtimes[runtime] = LawRuntime(runtime, model, self, self.slots)
        return made

    def close(self, model: ModelId) -> asyncio.Event:
        """Hold this model's loads back; returns what lets them go on."""
        gate = self.gates[model] = asyncio.Event()
        return gate

    def of(self, model: ModelId) -> list[str]:
        """What was done with runtimes of this model, in order."""
        return [what for what, runtime in self.log if runtime.startswith(f"{model}#")]


class LawNode:
    """A node with these models, and a gateway on it."""

    def __init__(self, node: NodeLoop) -> None:
        self.node = node
        near, far = memory_pair()
        self.near = near
        self.gateway = TestGateway(far)

    async def answered(self, *streams: int) -> None:
        """Wait until these are released, and all of them with a whole answer."""
        await self.released(*streams)
        assert [stream for stream in streams if self.refusal(stream)] == []
        assert [self.gateway.text(stream) for stream in streams] == ["done"] * len(streams)

    async def released(self, *streams: int) -> None:
        """Wait until these are released, however they ended."""
        async with asyncio.timeout(WATCHDOG_S):
            await self.gateway.until_released(*streams)

    def refusal(self, stream: int) -> Failure | None:
        """Why this stream was refused."""
        return self.gateway.refused.get(stream)


def settings(slots: int, room: RoomSettings | None = None) -> AgentSettings:
    """No back-off between loads, and room as given."""
    return AgentSettings("law", max_in_flight=slots, room=room or RoomSettings(), backoff=AT_ONCE)


@asynccontextmanager
async def node_of(
    launch: Launch,
    models: Iterable[ModelId],
    how: AgentSettings,
    clock: Callable[[], float] = time.monotonic,
    slots: int | None = None,
    keep: KeepSettings | None = None,
) -> AsyncIterator[LawNode]:
    """Run a node of these models; afterwards it stops, and nothing is left of it.

    A model has as many `slots` as requests may be in flight, unless that is said.
    """
    each = slots or how.max_in_flight or 1
    agent = Agent(how, [ModelOffer(model, each, ctx=512) for model in models])
    hello = Hello(VERSION, NodeId("n"), "n", "i", "roost")
    limits = LoopSettings(stop_grace_s=0.0, keep=keep or KeepSettings())
    loop = NodeLoop(agent, launch, hello, limits, clock, logs.get())
    made = LawNode(loop)
    async with asyncio.TaskGroup() as group:
        group.create_task(loop.run())
        group.create_task(loop.serve_link(made.near))
        group.create_task(made.gateway.run())
        await made.gateway.is_up.wait()
        yield made
        await loop.stop(0.0)
    statistics = loop.statistics()
    assert statistics.runtimes == statistics.live == 0
