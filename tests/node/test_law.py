"""The law of concurrency on the node's real shells: the tests of its requirements, by number.

Runtimes are fakes with gates, so nothing here depends on a moment; limits in time are watchdogs.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from roost.backends.base import Runtime
from roost.core.events import Failed
from roost.core.ids import ModelId, RuntimeId
from roost.errors import Failure, RoostError
from roost.node.models.ledger import RoomSettings
from tests.conftest import Clock, until
from tests.node.law import LawLaunch, node_of, settings

A, B, C = ModelId("a"), ModelId("b"), ModelId("c")
TWO = RoomSettings(max_runtimes=2, min_resident_s=0.0)
BROKEN = Failure("load_failed", "out of memory")


async def test_1_six_cold_callers_make_one_load() -> None:
    """All six wait for the same load and are answered by it."""
    launch = LawLaunch(slots=6)
    gate = launch.close(A)
    async with node_of(launch, [A], settings(6)) as law:
        asked = [law.gateway.ask("x", model=A) for _ in range(6)]
        await until(lambda: law.node.statistics().live == 6)
        gate.set()
        await law.answered(*asked)
        assert launch.of(A) == ["load"]


async def test_2_a_blocked_load_holds_up_no_other_key() -> None:
    """While one model loads another is loaded and answers, twice."""
    launch = LawLaunch(slots=1)
    gate = launch.close(A)
    async with node_of(launch, [A, B], settings(1)) as law:
        blocked = law.gateway.ask("x", model=A)
        await launch.starts[A].reaches(1)
        await law.answered(law.gateway.ask("x", model=B))
        await law.answered(law.gateway.ask("x", model=B))
        assert not law.gateway.all_released(blocked)
        gate.set()
        await law.answered(blocked)
        assert (launch.of(A), launch.of(B)) == (["load"], ["load"])


async def test_3_failures_in_a_row_stay_retryable_and_take_no_room() -> None:
    """Three failed loads, and two runtimes have their places all the same, that one among them."""
    launch = LawLaunch(slots=1)
    launch.raises[A] = [RoostError(BROKEN) for _ in range(3)]
    async with node_of(launch, [A, B], settings(1, TWO)) as law:
        for _ in range(3):
            failed = law.gateway.ask("x", model=A)
            await law.released(failed)
            refusal = law.refusal(failed)
            assert refusal is not None
            assert refusal.reason == "load_failed"
            assert "out of memory" in refusal.message
        await law.answered(law.gateway.ask("x", model=B))
        await law.answered(law.gateway.ask("x", model=A))
        assert law.node.statistics().runtimes == 2
        assert launch.of(A) == ["load"] * 4
        assert launch.of(B) == ["load"]


async def test_4_a_dead_runtime_is_replaced_once_and_let_go_first() -> None:
    """Four callers race at a runtime that has died: one new load, after the dead one's end."""
    launch = LawLaunch(slots=4)
    async with node_of(launch, [A], settings(4)) as law:
        await law.answered(law.gateway.ask("x", model=A))
        launch.runtimes[RuntimeId("a#1")].died.set()
        await law.answered(*[law.gateway.ask("x", model=A) for _ in range(4)])
        assert launch.log == [("load", "a#1"), ("released", "a#1"), ("load", "a#2")]


async def test_4_who_runs_on_it_is_told_and_not_run_again() -> None:
    """An inference that has failed is the caller's to repeat; the node starts it once."""
    launch = LawLaunch(slots=2)
    launch.hold.clear()
    async with node_of(launch, [A], settings(2)) as law:
        asked = [law.gateway.ask("x", model=A) for _ in range(2)]
        await launch.inside.reaches(2)
        launch.runtimes[RuntimeId("a#1")].died.set()
        launch.hold.set()
        await law.released(*asked)
        for stream in asked:
            failed = law.gateway.events[stream][-1]
            assert isinstance(failed, Failed)
            assert failed.failure.reason == "runtime_died"
        assert launch.inside.count == 2
        await law.answered(law.gateway.ask("x", model=A))


async def test_5_a_bounded_cache_refuses_while_in_use_and_evicts_the_idle_once(
    clock: Clock,
) -> None:
    """Busy, the only place is refused by the name of its setting; idle, it changes hands once."""
    room = RoomSettings(max_runtimes=1, min_resident_s=0.0, turn_s=60.0, wait_s=3.0)
    launch = LawLaunch(slots=1)
    launch.hold.clear()
    async with node_of(launch, [A, B], settings(1, room), clock) as law:
        busy = law.gateway.ask("x", model=A)
        await launch.inside.reaches(1)
        refused = law.gateway.ask("x", model=B)
        await until(lambda: law.node.statistics().live == 2)
        clock.advance(4.0)
        law.gateway.credit(busy, 1)
        await law.released(refused)
        refusal = law.refusal(refused)
        assert refusal is not None
        assert refusal.reason == "node_busy"
        assert "`max_runtimes` (1)" in refusal.message
        launch.hold.set()
        await law.answered(busy)
        await law.answered(law.gateway.ask("x", model=B))
        assert launch.log == [("load", "a#1"), ("released", "a#1"), ("load", "b#2")]


RAISED: dict[str, Callable[[], BaseException]] = {
    "a defect": ZeroDivisionError,
    "a cancel of its own": asyncio.CancelledError,
    "an exit": lambda: SystemExit(3),
    "a failure": lambda: RoostError(BROKEN),
}


@pytest.mark.parametrize("raised", RAISED)
async def test_6_a_loader_that_raises_is_confined_to_its_key(raised: str) -> None:
    """Whatever it raises: who waits is told, others notice nothing, and the key loads later."""
    launch = LawLaunch(slots=2)
    launch.hold.clear()
    launch.raises[A] = [RAISED[raised]()]
    async with node_of(launch, [A, B], settings(2, TWO)) as law:
        running = law.gateway.ask("x", model=B)
        await launch.inside.reaches(1)
        asked = [law.gateway.ask("x", model=A) for _ in range(2)]
        await law.released(*asked)
        told = [law.refusal(stream) for stream in asked]
        assert [failure.reason for failure in told if failure] == ["load_failed"] * 2
        launch.hold.set()
        await law.answered(running, law.gateway.ask("x", model=B))
        await law.answered(law.gateway.ask("x", model=A))
        assert launch.of(A) == ["load", "load"]


async def test_6_who_leaves_a_load_does_not_take_it_along() -> None:
    """The one for whom the load began is cancelled; who waits beside it is served by that load."""
    launch = LawLaunch(slots=2)
    gate = launch.close(A)
    async with node_of(launch, [A], settings(2)) as law:
        leader = law.gateway.ask("x", model=A)
        await launch.starts[A].reaches(1)
        second = law.gateway.ask("x", model=A)
        law.gateway.cancel(leader)
        await law.released(leader)
        gate.set()
        await law.answered(second)
        assert launch.of(A) == ["load"]


async def test_8_six_requests_share_a_runtime_and_overlap() -> None:
    """All six are inside one runtime at the same time."""
    launch = LawLaunch(slots=6)
    launch.hold.clear()
    async with node_of(launch, [A], settings(6)) as law:
        asked = [law.gateway.ask("x", model=A) for _ in range(6)]
        await launch.starts[A].reaches(1)
        await launch.inside.reaches(6)
        assert launch.runtimes[RuntimeId("a#1")].inside.count == 6
        launch.hold.set()
        await law.answered(*asked)
        assert launch.of(A) == ["load"]


async def test_9_a_cold_load_blocks_no_executor_that_others_need() -> None:
    """With the only thread of the executor taken by a load, a warm model answers all the same."""
    launch = LawLaunch(slots=1)
    taken, free = threading.Event(), threading.Event()

    def take_the_thread() -> None:
        taken.set()
        free.wait()

    async def slow(
        model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> Runtime:
        """Load `a` in the executor, and everything else as always."""
        if model == A:
            await asyncio.to_thread(take_the_thread)
        return await launch(model, runtime, on_progress)

    with ThreadPoolExecutor(max_workers=1) as executor:
        asyncio.get_running_loop().set_default_executor(executor)
        async with node_of(slow, [A, B], settings(1)) as law:
            await law.answered(law.gateway.ask("x", model=B))
            cold = law.gateway.ask("x", model=A)
            await until(taken.is_set)
            await law.answered(law.gateway.ask("x", model=B))
            free.set()
            await law.answered(cold)


async def test_10_who_comes_back_to_what_has_died_gets_another() -> None:
    """A conversation whose runtime is gone goes on in a new one, twice over."""
    launch = LawLaunch(slots=1)
    async with node_of(launch, [A], settings(1)) as law:
        for number in (1, 2, 3):
            await law.answered(law.gateway.ask("x", model=A, tenant="mine"))
            launch.runtimes[RuntimeId(f"a#{number}")].died.set()
        await until(lambda: law.node.statistics().runtimes == 0)
        assert launch.of(A) == ["load", "released"] * 3


async def test_11_a_broken_model_hurts_no_other() -> None:
    """Two models answer before, while and after a third one fails to load, again and again."""
    launch = LawLaunch(slots=1)
    launch.raises[C] = [RoostError(BROKEN) for _ in range(4)]
    async with node_of(launch, [A, B, C], settings(1)) as law:
        for _ in range(4):
            broken = law.gateway.ask("x", model=C)
            await law.answered(law.gateway.ask("x", model=A), law.gateway.ask("x", model=B))
            await law.released(broken)
            assert law.refusal(broken) is not None
        assert (launch.of(A), launch.of(B)) == (["load"], ["load"])


async def test_13_a_shutdown_reaps_what_runs_and_refuses_what_waits() -> None:
    """A running answer fails, a load is called off, a queued one never begins, and all are told."""
    launch = LawLaunch(slots=1)
    launch.hold.clear()
    launch.close(B)
    async with node_of(launch, [A, B, C], settings(1, TWO)) as law:
        active = law.gateway.ask("x", model=A)
        await launch.inside.reaches(1)
        blocked = law.gateway.ask("x", model=B)
        await launch.starts[B].reaches(1)
        queued = law.gateway.ask("x", model=C)
        await until(lambda: law.node.statistics().live == 3)
        assert not await law.node.stop(0.0)
        failed = law.gateway.events[active][-1]
        assert isinstance(failed, Failed)
        assert failed.failure.reason == "draining"
        refusals = [law.refusal(blocked), law.refusal(queued)]
        assert [failure.reason for failure in refusals if failure] == ["draining"] * 2
        assert launch.of(A) == ["load", "released"]
        assert launch.called_off.count == 1
        assert C not in launch.starts
        assert law.gateway.all_released(active, blocked, queued)


async def test_13_a_runtime_that_is_ready_while_the_node_ends_is_let_go() -> None:
    """A load that cannot be called off and comes through after the end is told leaves nothing."""
    launch = LawLaunch(slots=1)
    begun, through = asyncio.Event(), asyncio.Event()

    async def deaf(
        model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> Runtime:
        """Be ready in spite of a cancel."""
        begun.set()
        while not through.is_set():
            try:
                await through.wait()
            except asyncio.CancelledError:
                through.set()
        return await launch(model, runtime, on_progress)

    async with node_of(deaf, [A], settings(1)) as law:
        asked = law.gateway.ask("x", model=A)
        await begun.wait()
        await law.node.stop(0.0)
        assert law.gateway.all_released(asked)
        assert launch.of(A) == ["load", "released"]
        assert launch.runtimes[RuntimeId("a#1")].died.is_set()
