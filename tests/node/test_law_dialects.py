"""The seventh test of the law: every dialect at once over several models, on real sockets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
import pytest

from roost.backends.base import Runtime, StartSettings
from roost.backends.scripted.backend import ScriptedBackend
from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.model import Manifest, RuntimeKey, RuntimeOptions
from roost.core.snapshots import ModelOffer
from roost.fleet.settings import FleetSettings
from roost.gateway.conversations.infer import InferSettings
from roost.node.agent import Agent
from roost.node.hands import Launch
from roost.node.loop import LoopSettings, NodeLoop
from roost.observe import logs
from roost.store.conversations.journal import Journal, JournalSettings
from roost.wire.memory import memory_pair
from roost.wire.messages import VERSION, Hello
from tests.gateway.conftest import SETTINGS, Reply, Stage, ask, staged
from tests.node.law import WATCHDOG_S, LawLaunch, settings

MODELS = tuple(ModelId(name) for name in "abc")
WAYS: dict[str, dict[str, object]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "hello"}]},
    "/v1/completions": {"prompt": "hello"},
    "/coordinator/infer": {"prompt": "hello", "max_tokens": 9},
}
ALL = [(path, model, stream) for path in WAYS for model in MODELS for stream in (False, True)]
SLOTS = len(WAYS) * 2


async def _one(stage: Stage, path: str, model: ModelId, turn: str, *, stream: bool) -> Reply:
    body = {**WAYS[path], "model": model, "stream": stream}
    if path == "/coordinator/infer":
        body["conversation_id"] = f"{model} {stream} {turn}"
    return await ask(stage.port, "POST", path, body)


def _all(stage: Stage, group: asyncio.TaskGroup, turn: str) -> list[asyncio.Task[Reply]]:
    """Ask everything at once."""
    return [
        group.create_task(_one(stage, path, model, turn, stream=stream))
        for path, model, stream in ALL
    ]


@asynccontextmanager
async def _served(
    launch: Launch, models: Sequence[ModelId], slots: int, queue: int
) -> AsyncIterator[tuple[Stage, Agent]]:
    """A gateway with a queue and a node of these models, as in `roost serve`."""
    how = msgspec.structs.replace(
        SETTINGS, fleet=FleetSettings(queue_length=queue), infer=InferSettings()
    )
    agent = Agent(settings(slots), [ModelOffer(model, slots, ctx=512) for model in models])
    hello = Hello(VERSION, NodeId("n"), "n", "i", "roost")
    loop = NodeLoop(agent, launch, hello, LoopSettings(), time.monotonic, logs.get())
    near, far = memory_pair()
    async with (
        staged(how, journal=Journal(None, JournalSettings())) as stage,
        asyncio.TaskGroup() as group,
    ):
        stage.gateway.join(far)
        group.create_task(loop.run())
        group.create_task(loop.serve_link(near))
        await stage.ready()
        yield stage, agent
        await loop.stop(0.0)


@pytest.mark.slow
async def test_7_dialects_overlap_over_three_models_with_three_starts() -> None:
    """Eighteen requests are inside three runtimes at once; nobody starts a fourth, then or later.

    Chat, completions and turns of conversations, whole and streamed, each on each of the models.
    """
    launch = LawLaunch(SLOTS)
    launch.hold.clear()
    async with _served(launch, MODELS, SLOTS, 99) as (stage, _), asyncio.TaskGroup() as group:
        async with asyncio.timeout(WATCHDOG_S):
            first = _all(stage, group, "first")
            await launch.inside.reaches(len(ALL))
            launch.hold.set()
            replies = await asyncio.gather(*first)
            replies += await asyncio.gather(*_all(stage, group, "second"))
        assert [reply.status for reply in replies] == [200] * len(ALL) * 2
        assert all(reply.clean and b"done" in reply.body for reply in replies)
        assert [launch.of(model) for model in MODELS] == [["load"]] * len(MODELS)


async def test_a_conversation_is_known_by_what_was_said_and_by_no_seed() -> None:
    """A client that varies seed and temperature finds its KV at every turn, and takes one slot."""
    backend, model = ScriptedBackend(), MODELS[0]

    async def launch(
        model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> Runtime:
        """Start a scripted runtime."""
        key = RuntimeKey("scripted", model, "", RuntimeOptions(ctx=512, slots=4))
        manifest = Manifest(model, "", 0, "", format="scripted")
        return await backend.start(key, manifest, StartSettings("", ""), on_progress)

    async with _served(launch, [model], 4, 9) as (stage, agent):
        said = [{"role": "user", "content": "one two three"}]
        for turn in range(5):
            body = {"model": model, "messages": said, "seed": turn, "temperature": turn / 5}
            reply = await ask(stage.port, "POST", "/v1/chat/completions", body)
            assert reply.status == 200
            told = msgspec.json.decode(reply.body)
            details = told["usage"]["prompt_tokens_details"]
            assert (details["cached_tokens"] > 0) == (turn > 0)
            said += [told["choices"][0]["message"], {"role": "user", "content": f"and {turn}"}]
        (view,) = agent.status().runtimes
        assert sum(slot.tokens > 0 for slot in view.slots) == 1
