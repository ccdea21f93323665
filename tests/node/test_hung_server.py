"""A model server that hangs, as a process: noticed and replaced, and who waited is served."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from roost.backends.base import Runtime
from roost.core.events import Failed
from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.snapshots import ModelOffer
from roost.node.agent import Agent
from roost.node.floor.pace import PaceSettings
from roost.node.loop import LoopSettings, NodeLoop
from roost.node.settings import AgentSettings
from roost.observe import logs
from roost.wire.memory import memory_pair
from roost.wire.messages import VERSION, Hello
from tests.backends.subjects import MODEL, fake_server
from tests.children import called
from tests.conftest import Eventually
from tests.node.gateway import TestGateway

pytestmark = pytest.mark.slow
QUICK = PaceSettings(stall_s=2.0, stall_floor_s=2.0)


class Rig:
    """A node with the fake server, and a gateway on it."""

    def __init__(self, folder: Path, pace: PaceSettings, **model: object) -> None:
        self._subject = fake_server(folder, decode_ms=1, **model)
        self.started: list[Runtime] = []
        self.node = NodeLoop(
            Agent(AgentSettings("llama_server", pace=pace), [ModelOffer(MODEL, 2, 1024)]),
            self.launch,
            Hello(VERSION, NodeId("n"), "n", "i", "roost"),
            LoopSettings(stop_grace_s=0.1),
            time.monotonic,
            logs.get(),
        )
        near, far = memory_pair()
        self.near = near
        self.gateway = TestGateway(far)

    async def launch(
        self, model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> Runtime:
        """Start one more server."""
        subject = self._subject
        assert (model, runtime) == (MODEL, f"{MODEL}#{len(self.started) + 1}")
        made = await subject.backend.start(
            subject.key, subject.manifest, subject.settings, on_progress
        )
        self.started.append(made)
        return made

    def stalls(self) -> int:
        """How often a runtime was found to hang."""
        return self.node.statistics().stalls


@asynccontextmanager
async def _rig(folder: Path, pace: PaceSettings = QUICK, **model: object) -> AsyncIterator[Rig]:
    rig = Rig(folder, pace, **model)
    async with asyncio.TaskGroup() as group:
        group.create_task(rig.node.run())
        group.create_task(rig.node.serve_link(rig.near))
        group.create_task(rig.gateway.run())
        await rig.gateway.is_up.wait()
        yield rig
        await rig.node.stop(0.0)
    assert all(runtime.died.is_set() for runtime in rig.started)


def _server_processes() -> list[psutil.Process]:
    return called("fake_llama")


async def test_a_stopped_server_is_noticed_while_it_answers(
    tmp_path: Path, eventually: Eventually
) -> None:
    """SIGSTOP in mid-stream: the stream fails, and the next request gets another server."""
    async with _rig(tmp_path) as rig:
        one = rig.gateway.ask("word " * 150, model=MODEL)
        await eventually(lambda: len(rig.gateway.events[one]) > 30)
        for process in _server_processes():
            os.kill(process.pid, signal.SIGSTOP)
        await eventually(lambda: rig.gateway.all_released(one))
        failed = rig.gateway.events[one][-1]
        assert isinstance(failed, Failed)
        assert failed.failure.reason == "runtime_died"
        assert rig.stalls() == 1
        two = rig.gateway.ask("hello", model=MODEL)
        await eventually(lambda: rig.gateway.all_released(two))
        assert rig.gateway.refused == {}
        assert len(rig.started) == 2


async def test_a_server_that_was_stopped_while_idle_costs_no_request(
    tmp_path: Path, eventually: Eventually
) -> None:
    """It cannot even tokenise: the request waits for the next server and is answered."""
    async with _rig(tmp_path) as rig:
        one = rig.gateway.ask("hello", model=MODEL)
        await eventually(lambda: rig.gateway.all_released(one))
        for process in _server_processes():
            os.kill(process.pid, signal.SIGSTOP)
        two = rig.gateway.ask("hello", model=MODEL)
        await eventually(lambda: rig.gateway.all_released(two))
        assert rig.gateway.refused == {}
        assert rig.stalls() == 1
        assert len(rig.started) == 2


async def test_a_server_that_never_gets_on_with_its_load_is_called_off(
    tmp_path: Path, eventually: Eventually
) -> None:
    """It lives and answers that it is loading: who waits is told, and no process is left."""
    async with _rig(tmp_path, PaceSettings(load_stall_s=1.0), load_s=3600.0) as rig:
        one = rig.gateway.ask("hello", model=MODEL)
        await eventually(lambda: rig.gateway.all_released(one))
        assert rig.gateway.refused[one].reason == "load_failed"
        assert "got no further" in rig.gateway.refused[one].message
        assert rig.stalls() == 1
        await eventually(lambda: rig.node.statistics().runtimes == 0)
        assert _server_processes() == []
        assert rig.started == []
