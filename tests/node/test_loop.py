"""The node's loop over a real link in memory, with a real tiny runtime: everything comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import msgspec
import pytest

from roost.core.about import BackendAbout
from roost.core.events import Failed, Finished, Started, Usage
from roost.core.ids import ModelId, NodeId, RuntimeId, TenantId
from roost.errors import Failure, fail
from roost.node.agent import Agent
from roost.node.loop import LoopSettings, NodeLoop
from roost.node.machine.about import Describer
from roost.node.models.ledger import RoomSettings
from roost.node.settings import AgentSettings, LoopTimes
from roost.observe import logs
from roost.wire.link_tables import Close
from roost.wire.memory import memory_pair
from roost.wire.messages import VERSION, Hello
from tests.node.gateway import TestGateway
from tests.node.kit import MODEL, OTHER, SETTINGS, offer
from tests.node.tiny import TinyLaunch

HELLO = Hello(VERSION, NodeId("node-1"), "n", "i", "roost")
FIRST = RuntimeId("m#1")
Eventually = Callable[..., Awaitable[None]]


class Rig:
    """A node loop, one gateway on it, and the tasks that run them."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        settings: AgentSettings,
        launch: TinyLaunch | None = None,
    ) -> None:
        self.launch = launch or TinyLaunch()
        self.node = NodeLoop(
            Agent(settings, [offer()]),
            self.launch,
            HELLO,
            LoopSettings(stop_grace_s=0.1, force_s=0.1),
            time.monotonic,
            logs.get(),
        )
        self.running = group.create_task(self.node.run())
        self.group = group

    async def start(self) -> None:
        """Join a first gateway."""
        self.gateway = await self.join()

    async def join(self) -> TestGateway:
        """Connect one more gateway and wait for the node's first report."""
        near, far = memory_pair()
        gateway = TestGateway(far)
        self.group.create_task(self.node.serve_link(near))
        self.group.create_task(gateway.run())
        await gateway.is_up.wait()
        return gateway

    def is_at_rest(self) -> bool:
        """Whether nothing is held: no stream, no slot."""
        statistics = self.node.statistics()
        return statistics.live == statistics.in_flight == self.launch.busy == 0


BOTH_WAYS = pytest.mark.parametrize("poured", [False, True])
"""Streams that are iterated, and streams that are poured: what comes of them is the same."""


@asynccontextmanager
async def _rig(settings: AgentSettings = SETTINGS, *, poured: bool = False) -> AsyncIterator[Rig]:
    """Run a node; afterwards it stops, and nothing that it started is left."""
    async with asyncio.TaskGroup() as group:
        rig = Rig(group, settings)
        rig.launch.is_poured = poured
        await rig.start()
        yield rig
        await rig.node.stop(0.0)
    assert all(runtime.died.is_set() for runtime in rig.launch.runtimes.values())
    assert rig.node.statistics().runtimes == rig.node.statistics().live == 0
    assert rig.gateway.closed is not None


@BOTH_WAYS
async def test_a_request_is_answered(
    eventually: Eventually, poured: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """From an absent model to the last event and a free slot, over the link and in the log."""
    logs.configure("debug", "json")
    async with _rig(poured=poured) as rig:
        one = rig.gateway.ask("hello world")
        await eventually(lambda: rig.gateway.all_released(one))
        assert rig.gateway.hello == HELLO
        assert rig.gateway.text(one) == "hello world"
        assert rig.gateway.events[one][0] == Started(2, 0, 0)
        assert rig.gateway.events[one][-1] == Finished("stop", Usage(2, 0, 2))
        assert rig.is_at_rest()
        said = [msgspec.json.decode(line) for line in capsys.readouterr().err.splitlines()]
        runs = [line for line in said if line["event"].startswith("run_")]
        assert [line["event"] for line in runs] == ["run_started", "run_first_text", "run_ended"]
        assert len({line["request"] for line in runs}) == 1
        status = rig.gateway.status
        assert status is not None
        await eventually(lambda: bool(rig.gateway.status and rig.gateway.status.runtimes))


async def test_prompts_are_prepared_for_their_owner_who_may_be_forgotten(
    eventually: Eventually,
) -> None:
    """A runtime knows whose prompt it is by the word that keeps tenants apart here."""
    async with _rig() as rig:
        rig.node.salt_with(lambda tenant: TenantId(f"salted {tenant}"))
        one = rig.gateway.ask("hello world")
        await eventually(lambda: rig.gateway.all_released(one))
        (runtime,) = rig.launch.runtimes.values()
        (owner,) = runtime.owners
        assert owner is not None
        tenant = TenantId(owner.removeprefix("salted "))
        assert tenant != owner
        await rig.node.forget(TenantId("somebody else"))
        assert runtime.owners == [owner]
        await rig.node.forget(tenant)
        assert runtime.owners == []


async def test_a_spoilt_model_drives_nobody_out(eventually: Eventually) -> None:
    """Whoever asks for it is told why, and the runtime that would have had to go still runs."""

    async def check(model: ModelId) -> None:
        assert model == OTHER
        raise fail("load_failed", "the file is another one")

    room = RoomSettings(max_runtimes=1, min_resident_s=0.0)
    async with _rig(msgspec.structs.replace(SETTINGS, room=room)) as rig:
        rig.node.check_with(check)
        await rig.node.set_models((offer(), offer(OTHER)))
        for prompt in ("hello", "again"):
            one = rig.gateway.ask(prompt)
            await eventually(partial(rig.gateway.all_released, one))
            assert rig.gateway.text(one) == prompt
            two = rig.gateway.ask("hello", model=OTHER)
            await eventually(partial(rig.gateway.all_released, two))
            assert "the file is another one" in rig.gateway.refused[two].message
        assert list(rig.launch.runtimes) == [FIRST]


async def test_what_cannot_be_prepared_is_refused(eventually: Eventually) -> None:
    """The backend's words reach the gateway; the runtime is as good as before."""
    async with _rig() as rig:
        one = rig.gateway.ask("toolong")
        await eventually(lambda: rig.gateway.all_released(one))
        assert rig.gateway.refused[one].reason == "context_length_exceeded"
        two = rig.gateway.ask("fine")
        await eventually(lambda: rig.gateway.all_released(two))
        assert rig.gateway.text(two) == "fine"


@pytest.mark.parametrize(
    ("prompt", "phase"),
    [("forever", "decode"), ("slow", "prefill"), ("ponder", "waiting")],
)
async def test_a_cancelled_stream_gives_its_slot_back(
    prompt: str, phase: str, eventually: Eventually
) -> None:
    """Reading, entering and preparing can all be left; a follow-up gets the slot at once."""
    async with _rig(msgspec.structs.replace(SETTINGS, max_in_flight=1)) as rig:
        one = rig.gateway.ask(prompt)
        await eventually(lambda: FIRST in rig.launch.runtimes)
        runtime = rig.launch.runtimes[FIRST]
        if phase == "decode":
            await eventually(lambda: len(rig.gateway.events[one]) > 3)
        if phase == "prefill":
            await eventually(runtime.entering.is_set)
        rig.gateway.cancel(one)
        await eventually(lambda: rig.gateway.all_released(one))
        assert rig.gateway.released[one].phase == phase
        assert rig.gateway.released[one].cancel_to_free_s is not None
        assert rig.is_at_rest()
        two = rig.gateway.ask("hello")
        await eventually(lambda: rig.gateway.all_released(two))
        assert rig.gateway.text(two) == "hello"


async def test_cancel_in_the_same_breath_as_open(eventually: Eventually) -> None:
    """However early the cancel comes, there is one Released and nothing is left behind."""
    async with _rig(msgspec.structs.replace(SETTINGS, max_in_flight=9)) as rig:
        await rig.node.preload(MODEL)
        await eventually(lambda: FIRST in rig.launch.runtimes)
        streams = [rig.gateway.ask("forever") for _ in range(4)]
        for stream in streams:
            rig.gateway.cancel(stream)
        await eventually(lambda: rig.gateway.all_released(*streams))
        assert rig.is_at_rest()


async def test_cancel_while_loading_and_the_load_goes_on(eventually: Eventually) -> None:
    """The stream is released at once; the next one finds the runtime that was being loaded."""
    async with _rig() as rig:
        rig.launch.may_load.clear()
        one = rig.gateway.ask("hello")
        await eventually(rig.launch.loading.is_set)
        rig.gateway.cancel(one)
        await eventually(lambda: rig.gateway.all_released(one))
        rig.launch.may_load.set()
        two = rig.gateway.ask("hello")
        await eventually(lambda: rig.gateway.all_released(two))
        assert list(rig.launch.runtimes) == [FIRST]


async def test_a_load_that_fails_is_reported_and_retried(eventually: Eventually) -> None:
    """The gateway hears why; the node serves as soon as a load works."""
    settings = msgspec.structs.replace(
        SETTINGS, backoff=msgspec.structs.replace(SETTINGS.backoff, first_s=0.0)
    )
    async with _rig(settings) as rig:
        rig.launch.failure = Failure("load_failed", "no memory")
        one = rig.gateway.ask("hello")
        await eventually(lambda: rig.gateway.all_released(one))
        assert rig.gateway.refused[one].reason == "load_failed"
        assert "no memory" in rig.gateway.refused[one].message
        rig.launch.failure = None
        two = rig.gateway.ask("hello")
        await eventually(lambda: rig.gateway.all_released(two))
        assert rig.gateway.text(two) == "hello"


@BOTH_WAYS
async def test_death_ends_streams_and_the_next_request_starts_anew(
    eventually: Eventually, poured: bool
) -> None:
    """Both streams get one terminal event; the runtime is loaded again when it is asked for."""
    async with _rig(poured=poured) as rig:
        one = rig.gateway.ask("forever")
        await eventually(lambda: len(rig.gateway.events[one]) > 2)
        two = rig.gateway.ask("well die")
        await eventually(lambda: rig.gateway.all_released(one, two))
        for stream in (one, two):
            failed = rig.gateway.events[stream][-1]
            assert isinstance(failed, Failed)
            assert failed.failure.reason == "runtime_died"
        three = rig.gateway.ask("hello")
        await eventually(lambda: rig.gateway.all_released(three))
        assert rig.gateway.text(three) == "hello"
        assert len(rig.launch.runtimes) == 2


@BOTH_WAYS
async def test_a_defect_in_a_backend_costs_one_stream(eventually: Eventually, poured: bool) -> None:
    """An exception that no contract knows of ends its stream as internal; a neighbour goes on."""
    async with _rig(poured=poured) as rig:
        neighbour = rig.gateway.ask("forever")
        await eventually(lambda: len(rig.gateway.events[neighbour]) > 2)
        one = rig.gateway.ask("hello crash")
        await eventually(lambda: rig.gateway.all_released(one))
        failed = rig.gateway.events[one][-1]
        assert isinstance(failed, Failed)
        assert failed.failure.reason == "internal"
        seen = len(rig.gateway.events[neighbour])
        await eventually(lambda: len(rig.gateway.events[neighbour]) > seen)


@BOTH_WAYS
async def test_words_that_no_link_can_carry_cost_one_stream(
    eventually: Eventually, poured: bool
) -> None:
    """The stream fails where the words would have been; link, neighbour and slot are fine."""
    async with _rig(poured=poured) as rig:
        neighbour = rig.gateway.ask("forever")
        await eventually(lambda: len(rig.gateway.events[neighbour]) > 2)
        one = rig.gateway.ask("hello garble world")
        await eventually(lambda: rig.gateway.all_released(one))
        failed = rig.gateway.events[one][-1]
        assert isinstance(failed, Failed)
        assert failed.failure.reason == "internal"
        assert rig.gateway.text(one) == "hello"
        seen = len(rig.gateway.events[neighbour])
        await eventually(lambda: len(rig.gateway.events[neighbour]) > seen)
        two = rig.gateway.ask("hello")
        await eventually(lambda: rig.gateway.all_released(two))
        assert rig.gateway.text(two) == "hello"


@BOTH_WAYS
async def test_a_slot_that_is_not_given_back_costs_the_runtime(
    eventually: Eventually, poured: bool
) -> None:
    """The runtime is stopped and the next request gets another."""
    async with _rig(poured=poured) as rig:
        one = rig.gateway.ask("stuck")
        await eventually(lambda: len(rig.gateway.events[one]) > 2)
        rig.gateway.cancel(one)
        await eventually(lambda: rig.gateway.all_released(one))
        await eventually(rig.launch.runtimes[FIRST].died.is_set)
        two = rig.gateway.ask("hello")
        await eventually(lambda: rig.gateway.all_released(two))
        assert len(rig.launch.runtimes) == 2


@BOTH_WAYS
async def test_a_slow_reader_pauses_its_own_stream_only(
    eventually: Eventually, poured: bool
) -> None:
    """Without credit a stream stops producing; its neighbour is answered; credit resumes it."""
    settings = msgspec.structs.replace(SETTINGS, outbox_events_max=4)
    async with _rig(settings, poured=poured) as rig:
        slow = rig.gateway.ask("a b c d e f g h i j k l m n o p", credit=1)
        two = rig.gateway.ask("hello world")
        await eventually(lambda: rig.gateway.all_released(two))
        assert rig.gateway.text(two) == "hello world"
        assert len(rig.gateway.events[slow]) == 1
        assert rig.launch.busy == 1
        rig.gateway.credit(slow, 100)
        await eventually(lambda: rig.gateway.all_released(slow))
        assert rig.gateway.text(slow).replace(" ", "") == "abcdefghijklmnop"
        assert rig.is_at_rest()


async def test_a_lost_gateway_frees_what_it_held(eventually: Eventually) -> None:
    """The streams of a link that ends are stopped; those of the other link are not."""
    async with _rig() as rig:
        other = await rig.join()
        mine, theirs = rig.gateway.ask("forever"), other.ask("forever")
        await eventually(
            lambda: len(other.events[theirs]) > 2 and len(rig.gateway.events[mine]) > 2
        )
        other.leave(Failure("draining", "bye"), again=True)
        await eventually(lambda: rig.launch.busy == 1)
        assert rig.node.statistics().links == 1
        seen = len(rig.gateway.events[mine])
        await eventually(lambda: len(rig.gateway.events[mine]) > seen)


async def test_stop_drains_what_runs_and_refuses_what_comes(eventually: Eventually) -> None:
    """Within the grace everything accepted is answered; then goodbye, and the run is over."""
    async with asyncio.TaskGroup() as group:
        rig = Rig(group, SETTINGS)
        await rig.start()
        one = rig.gateway.ask("forever")
        await eventually(lambda: len(rig.gateway.events[one]) > 2)
        stopping = group.create_task(rig.node.stop(30.0))
        await eventually(lambda: bool(rig.gateway.status and rig.gateway.status.draining))
        two = rig.gateway.ask("late")
        await eventually(lambda: rig.gateway.all_released(two))
        assert rig.gateway.refused[two].reason == "draining"
        assert not stopping.done()
        rig.gateway.cancel(one)
        assert await stopping
    assert rig.gateway.all_released(one)
    assert rig.gateway.closed == Close(
        Failure("draining", "the node is shutting down"), again=False
    )
    assert rig.launch.runtimes[FIRST].stops == 1


async def test_the_end_of_the_grace_ends_streams_with_an_error(eventually: Eventually) -> None:
    """What did not end in time fails as draining, is released, and the loads are called off."""
    async with asyncio.TaskGroup() as group:
        rig = Rig(group, SETTINGS)
        await rig.start()
        one = rig.gateway.ask("forever")
        await eventually(lambda: len(rig.gateway.events[one]) > 2)
        rig.launch.loading.clear()
        rig.launch.may_load.clear()
        await rig.node.set_models([offer(), offer(ModelId("second"))])
        await rig.node.preload(ModelId("second"))
        await eventually(rig.launch.loading.is_set)
        assert not await rig.node.stop(0.0)
    failed = rig.gateway.events[one][-1]
    assert isinstance(failed, Failed)
    assert failed.failure.reason == "draining"
    assert rig.gateway.all_released(one)
    assert rig.launch.called_off == 1


async def test_a_cancelled_run_leaves_no_runtime(eventually: Eventually) -> None:
    """Whoever cancels the loop instead of stopping it still gets its runtimes stopped."""
    async with asyncio.TaskGroup() as group:
        rig = Rig(group, SETTINGS)
        await rig.start()
        one = rig.gateway.ask("forever")
        await eventually(lambda: len(rig.gateway.events[one]) > 2)
        rig.running.cancel()
        await eventually(rig.running.done)
        assert rig.launch.runtimes[FIRST].died.is_set()
        assert rig.launch.runtimes[FIRST].busy == set()
        rig.gateway.leave(Failure("draining", "bye"), again=True)
    near, far = memory_pair()
    assert not (await rig.node.serve_link(near)).again
    assert await far.receive() is None


async def test_telemetry_is_reported(eventually: Eventually) -> None:
    """The node's own memory and its runtimes' is in the status, and what it says of itself."""
    async with _rig() as rig:
        await eventually(lambda: bool(rig.gateway.status and rig.gateway.status.rss_bytes))


async def test_a_node_describes_itself(eventually: Eventually) -> None:
    """As often as it is measured, where somebody can describe it."""
    node = NodeLoop(
        *(Agent(SETTINGS, [offer()]), TinyLaunch(), HELLO, LoopSettings(telemetry_s=0.01)),
        *(time.monotonic, logs.get()),
    )
    node.describe_with(Describer(lambda: (BackendAbout("tiny", usable=True),), time.monotonic))
    near, far = memory_pair()
    gateway = TestGateway(far)
    async with asyncio.TaskGroup() as group:
        group.create_task(node.run())
        group.create_task(node.serve_link(near))
        group.create_task(gateway.run())
        await eventually(lambda: bool(gateway.status and gateway.status.about))
        await node.stop(0.0)
    assert gateway.status is not None
    assert gateway.status.about is not None
    assert [backend.name for backend in gateway.status.about.backends] == ["tiny"]


async def test_limits_reach_a_node_that_has_nothing_else_to_do(eventually: Eventually) -> None:
    """They count at once, and so do other offers; what the shell itself may take follows too."""
    async with _rig() as rig:
        few = msgspec.structs.replace(SETTINGS, max_in_flight=7)
        rig.node.follow(few, LoopTimes(0.2, 0.3, 0.4))
        await eventually(lambda: bool(rig.gateway.status and rig.gateway.status.max_in_flight == 7))
        rig.node.offer([offer(ModelId("second"))])
        await eventually(
            lambda: (
                [one.model for one in rig.gateway.status.models] == ["second"]
                if rig.gateway.status
                else False
            )
        )
