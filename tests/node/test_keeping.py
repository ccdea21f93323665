"""Sessions with real files: the agent, its shell and the scripted backend together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from roost.backends.base import Runtime, SavedState, StartSettings
from roost.backends.scripted.backend import ScriptedBackend, ScriptedRuntime
from roost.cli.parts.states import kept_of
from roost.core.events import Finished, Started
from roost.core.ids import ModelId, NodeId, RuntimeId, SessionId
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.core.snapshots import SessionsView
from roost.errors import RoostError
from roost.node.agent import Agent
from roost.node.effects import Promote
from roost.node.loop import LoopSettings, NodeLoop
from roost.node.settings import AgentSettings
from roost.node.states.keeping import Keeper, KeepSettings
from roost.node.states.session_settings import SessionSettings
from roost.observe import logs
from roost.store.shelved import Found, reconcile
from roost.store.states import payload_of, read_label
from roost.wire.memory import memory_pair
from roost.wire.messages import VERSION, Hello
from tests.conftest import Eventually
from tests.node.gateway import TestGateway
from tests.node.kit import MODEL, offer
from tests.store.test_states import FACTS, LABEL

LIMITS = SessionSettings(tokens_min=8)
BYTES = 15 + 8 * 22
"""One session of `talk`: a mark, and eight bytes for each of its first prompt and answer."""


class Rig:
    """A node with one runtime of one slot, and a gateway that asks it."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        limits: SessionSettings,
        folder: Path,
        keep: KeepSettings | None = None,
        ctx: int = 1024,
        timeout_s: float = 60.0,
    ) -> None:
        self.memory, self.disk = folder / "memory", folder / "disk"
        self.ctx, self.states = ctx, True
        self.runtimes: list[ScriptedRuntime] = []
        agent = Agent(
            AgentSettings("scripted", sessions=limits, max_in_flight=9), [offer(MODEL, 1)]
        )
        keep = keep or KeepSettings(str(self.memory / "held"), str(self.disk), timeout_s)
        hello = Hello(VERSION, NodeId("node-1"), "n", "i", "roost")
        settings = LoopSettings(stop_grace_s=0.1, keep=keep)
        self.agent = agent
        self.node = NodeLoop(agent, self.launch, hello, settings, time.monotonic, logs.get())
        if keep.lasts:
            self.disk.mkdir(exist_ok=True)
            found = reconcile(self.disk, int(time.time()), limits.idle_s)
            self.node.begin_with(found, kept_of(found, reuse=True))
        near, far = memory_pair()
        self.gateway = TestGateway(far)
        group.create_task(self.node.run())
        group.create_task(self.node.serve_link(near))
        group.create_task(self.gateway.run())

    async def launch(
        self, model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> Runtime:
        """Start the scripted backend."""
        folder = str(self.memory / str(len(self.runtimes))) if self.states else ""
        made = await started(folder, self.ctx, model)
        self.runtimes.append(made)
        return made

    async def talk(self, name: str, turns: int, eventually: Eventually) -> Started:
        """Say a turn of a conversation that resends its history; tell how it began."""
        stream = self.gateway.ask(f"{name} says: " + "word " * turns)
        await eventually(lambda: self.gateway.all_released(stream), what=f"{name} is answered")
        first, *_, last = self.gateway.events[stream]
        assert isinstance(first, Started)
        assert isinstance(last, Finished), last
        return first

    def view(self) -> SessionsView:
        """What the node says of its sessions."""
        return self.agent.status().sessions

    def is_on_disk(self, name: str) -> bool:
        """Whether a file has been moved: it is whole there, and gone from memory."""
        memory, disk = self.files()
        return f"{name}.json" in disk and name not in memory

    def files(self) -> tuple[list[str], list[str]]:
        """The names of all files, in memory and on disk."""
        return files_in(self.memory), files_in(self.disk)


async def started(folder: str, ctx: int, model: ModelId = MODEL) -> ScriptedRuntime:
    """Start a runtime that keeps its states in this folder, "" for none."""
    key = RuntimeKey("scripted", model, "sha256:0", RuntimeOptions(ctx, 1))
    manifest = Manifest(model, "", 0, "sha256:0", format="scripted")
    start = StartSettings("", "", state_folder=folder)
    return await ScriptedBackend().start(key, manifest, start, lambda _progress: None)


def files_in(root: Path) -> list[str]:
    """The names of all files below a folder."""
    return sorted(path.name for path in root.rglob("*") if not path.is_dir())


@asynccontextmanager
async def rig(
    folder: Path, limits: SessionSettings = LIMITS, timeout_s: float = 60.0
) -> AsyncIterator[Rig]:
    """Run a node; afterwards nothing of what it put aside is left."""
    async with asyncio.TaskGroup() as group:
        made = Rig(group, limits, folder, timeout_s=timeout_s)
        await made.gateway.is_up.wait()
        yield made
        await made.node.stop(0.0)
    assert made.files() == ([], [])


async def test_conversations_come_back_from_memory(tmp_path: Path, eventually: Eventually) -> None:
    """Five conversations on one slot: every second turn computes only what is new."""
    async with rig(tmp_path) as node:
        firsts = [await node.talk(name, 2, eventually) for name in "abcde"]
        assert {first.cached_tokens for first in firsts} <= {0, 1}
        for name in "abcde":
            started = await node.talk(name, 3, eventually)
            assert started.cached_tokens == firsts[0].prompt_tokens
        view = node.view()
        assert (view.ram, view.restores, view.failures) == (4, 5, 0)
        assert len(node.files()[0]) == 4


async def test_conversations_come_back_from_disk(tmp_path: Path, eventually: Eventually) -> None:
    """With room for two in memory the others are on disk, and come back from there."""
    limits = msgspec.structs.replace(LIMITS, ram_bytes=2 * 8 * 60)
    async with rig(tmp_path, limits) as node:
        firsts = [await node.talk(name, 2, eventually) for name in "abcde"]
        await eventually(lambda: node.view().disk > 0, what="something is on disk")
        started = await node.talk("a", 3, eventually)
        assert started.cached_tokens == firsts[0].prompt_tokens
        view = node.view()
        assert view.restores == 1
        assert view.ram_bytes <= limits.ram_bytes


async def test_a_spoilt_file_is_never_used(tmp_path: Path, eventually: Eventually) -> None:
    """A bit that flipped on disk costs a prefill, is counted, and the file is gone."""
    limits = msgspec.structs.replace(LIMITS, ram_bytes=2 * 8 * 60)
    async with rig(tmp_path, limits) as node:
        for name in "abcde":
            await node.talk(name, 2, eventually)
        await eventually(lambda: node.is_on_disk("s1"), what="a whole state is on disk")
        state = next(path for path in node.disk.rglob("s1.state"))
        spoil(state)
        started = await node.talk("a", 3, eventually)
        assert started.cached_tokens <= 1
        await eventually(lambda: "s1.state" not in node.files()[1], what="the file is gone")
        assert node.view().failures == 1


def spoil(path: Path) -> None:
    """Flip a bit in the middle of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


async def test_a_disk_that_is_full_costs_no_request(tmp_path: Path, eventually: Eventually) -> None:
    """Where the folder cannot even be made, everything stays in memory and is answered."""
    (tmp_path / "disk").write_text("a file where a folder should be")
    limits = msgspec.structs.replace(LIMITS, ram_bytes=2 * 8 * 60)
    async with asyncio.TaskGroup() as group:
        node = Rig(group, limits, tmp_path)
        await node.gateway.is_up.wait()
        for turn in (2, 3):
            for name in "abcd":
                await node.talk(name, turn, eventually)
        await eventually(lambda: node.view().failures > 0, what="the disk has failed")
        assert node.view().disk == 0
        await node.node.stop(0.0)


async def test_a_runtime_that_does_not_answer_costs_a_bounded_time(
    tmp_path: Path, eventually: Eventually
) -> None:
    """A slot that cannot be written in time is taken over without."""
    async with rig(tmp_path, timeout_s=0.5) as node:
        await node.talk("a", 2, eventually)
        states = node.runtimes[0].states
        assert states is not None
        states.move_s = 30.0
        began_s = time.monotonic()
        await node.talk("b", 2, eventually)
        assert time.monotonic() - began_s < 20.0
        assert node.view().failures == 1


async def test_a_death_takes_its_files_with_it(tmp_path: Path, eventually: Eventually) -> None:
    """The next runtime begins with nothing, in memory or on disk."""
    limits = msgspec.structs.replace(LIMITS, ram_bytes=2 * 8 * 60)
    async with rig(tmp_path, limits) as node:
        for name in "abcde":
            await node.talk(name, 2, eventually)
        node.runtimes[0].kill()
        await eventually(lambda: node.files() == ([], []), what="all files are gone")
        assert (await node.talk("a", 3, eventually)).cached_tokens == 0
        assert node.view().ram == 0


@asynccontextmanager
async def lives(folder: Path, keep: KeepSettings, ctx: int = 1024) -> AsyncIterator[Rig]:
    """Run a node whose conversations outlive it."""
    limits = msgspec.structs.replace(LIMITS, persistence="disk")
    async with asyncio.TaskGroup() as group:
        made = Rig(group, limits, folder, keep, ctx)
        await made.gateway.is_up.wait()
        yield made
        await made.node.stop(1.0)


async def test_a_node_goes_on_with_what_another_life_has_left(
    tmp_path: Path, eventually: Eventually
) -> None:
    """Whatever is in slots or memory at its end is read by the next one, and is not of another."""
    keep = KeepSettings(str(tmp_path / "memory/held"), str(tmp_path / "disk"), 0.5, lasts=True)
    async with lives(tmp_path, keep) as node:
        firsts = {name: await node.talk(name, 2, eventually) for name in "abc"}
    async with lives(tmp_path, keep, ctx=512) as node:
        assert (await node.talk("a", 3, eventually)).cached_tokens <= 1
        assert node.view().dormant == 3
    async with lives(tmp_path, keep) as node:
        for name, first in firsts.items():
            assert (await node.talk(name, 3, eventually)).cached_tokens == first.prompt_tokens
        assert node.view().restores == 3


async def test_what_earlier_runtimes_left_and_cannot_be_read_is_told(tmp_path: Path) -> None:
    """How many states, and what about them is not equal; once, and of that model alone."""
    keeper = Keeper(KeepSettings())
    old = msgspec.structs.replace(
        FACTS, backend="scripted", model=MODEL, build="older", machine="m"
    )
    other = msgspec.structs.replace(old, model="another")
    labels = [msgspec.structs.replace(LABEL, facts=facts) for facts in (old, old, other)]
    keeper.find(Found(tuple(labels), quarantined=2))
    runtime = await started(str(tmp_path / "a"), 1024)
    kin, unfit = keeper.meet(runtime)
    (one,) = unfit
    assert (one.states, one.differs) == (2, ("digest", "build", "machine", "options"))
    assert keeper.meet(runtime) == (kin, [])
    assert keeper.quarantined == 2
    await runtime.stop(0.0)


async def test_where_it_is_required_a_runtime_without_states_is_none(
    tmp_path: Path, eventually: Eventually
) -> None:
    """Its model is not served, and the message names the setting."""
    keep = KeepSettings(str(tmp_path / "held"), required=True)
    async with asyncio.TaskGroup() as group:
        node = Rig(group, LIMITS, tmp_path, keep)
        node.states = False
        await node.gateway.is_up.wait()
        stream = node.gateway.ask("hello")
        await eventually(lambda: node.gateway.all_released(stream), what="it is refused")
        failure = node.gateway.refused[stream]
        assert failure.reason == "load_failed"
        assert "sessions.reuse" in failure.message
        await node.node.stop(0.0)


async def test_operators_move_and_pin_what_an_earlier_life_has_left(
    tmp_path: Path, eventually: Eventually
) -> None:
    """A promoted file is in memory for this user alone; a pin outlives the node; erased is gone."""
    keep = KeepSettings(str(tmp_path / "memory/held"), str(tmp_path / "disk"), 0.5, lasts=True)
    async with lives(tmp_path, keep) as node:
        for name in "ab":
            await node.talk(name, 2, eventually)
    for path in (tmp_path / "memory").rglob("s*"):
        path.unlink()
    async with lives(tmp_path, keep) as node:
        for job in ("promote", "pin"):
            node.gateway.order_states(job, job, "st_1", wait_s=5.0)
            await eventually(lambda: job in node.gateway.told, what=job)  # noqa: B023 - at once
            assert node.gateway.told[job].results[0].failure is None
        (held,) = (tmp_path / "memory/held").iterdir()
        assert held.read_bytes() == (tmp_path / "disk/s1.state").read_bytes()
        assert held.stat().st_mode & 0o777 == 0o600
        node.gateway.order_states("erase", "erase", "st_2")
        await eventually(lambda: "s2.state" not in node.files()[1], what="it is gone")
        await eventually(
            lambda: read_label(tmp_path / "disk", "s1").pinned, what="the pin is on disk"
        )
    async with lives(tmp_path, keep) as node:
        node.gateway.order_states("list", "list")
        await eventually(lambda: "list" in node.gateway.told, what="the list")
        (only,) = node.gateway.told["list"].states
        assert (only.id, only.pinned, only.model, only.tier) == ("st_1", True, MODEL, "disk")


async def test_what_several_find_spoilt_at_once_is_counted_once(tmp_path: Path) -> None:
    """Whoever comes second finds it put aside already."""
    keeper = Keeper(KeepSettings(str(tmp_path / "memory"), str(tmp_path), lasts=True))
    payload_of(tmp_path, "s1").write_bytes(b"not as it was written")
    asked = Promote(SessionId(1), SavedState(1, 21), b"", FACTS.kin)
    for _ in range(2):
        with pytest.raises(RoostError):
            await keeper.promote(asked)
    assert keeper.quarantined == 1
