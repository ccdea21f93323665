"""The seventh test of the law: every dialect at once over several models, on real sockets."""

from __future__ import annotations

import asyncio
import time

import msgspec
import pytest

from roost.core.ids import ModelId, NodeId
from roost.core.snapshots import ModelOffer
from roost.fleet.settings import FleetSettings
from roost.gateway.infer import InferSettings
from roost.node.agent import Agent
from roost.node.loop import LoopSettings, NodeLoop
from roost.observe import logs
from roost.store.journal import Journal, JournalSettings
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


@pytest.mark.slow
async def test_7_dialects_overlap_over_three_models_with_three_starts() -> None:
    """Eighteen requests are inside three runtimes at once; nobody starts a fourth, then or later.

    Chat, completions and turns of conversations, whole and streamed, each on each of the models.
    """
    launch = LawLaunch(SLOTS)
    launch.hold.clear()
    how = msgspec.structs.replace(
        SETTINGS, fleet=FleetSettings(queue_length=99), infer=InferSettings()
    )
    agent = Agent(settings(SLOTS), [ModelOffer(model, SLOTS, ctx=512) for model in MODELS])
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
        async with asyncio.timeout(WATCHDOG_S):
            first = _all(stage, group, "first")
            await launch.inside.reaches(len(ALL))
            launch.hold.set()
            replies = await asyncio.gather(*first)
            replies += await asyncio.gather(*_all(stage, group, "second"))
        assert [reply.status for reply in replies] == [200] * len(ALL) * 2
        assert all(reply.clean and b"done" in reply.body for reply in replies)
        assert [launch.of(model) for model in MODELS] == [["load"]] * len(MODELS)
        await loop.stop(0.0)
