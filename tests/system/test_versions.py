"""A fleet is upgraded machine by machine, in any order, and answers all the while."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from roost.core.ids import NodeId
from roost.core.snapshots import ModelOffer
from roost.node.agent import Agent
from roost.node.loop import LoopSettings, NodeLoop
from roost.observe import logs
from roost.wire.memory import NodeConnection, memory_pair
from roost.wire.messages import OLDEST, VERSION, Hello
from tests.conftest import until
from tests.gateway.conftest import Stage, ask, staged
from tests.node.kit import MODEL, OTHER, SETTINGS, offer
from tests.node.tiny import TinyLaunch
from tests.wire.old_version import OldLink


def new_node(name: str, *more: ModelOffer) -> NodeLoop:
    """Make a node of this release, with `more` models than one."""
    hello = Hello(OLDEST, NodeId(name), name, f"{name}-life", "roost now", newest=VERSION)
    agent = Agent(SETTINGS, [offer(), *more])
    return NodeLoop(agent, TinyLaunch(), hello, LoopSettings(), time.monotonic, logs.get())


def link_to(stage: Stage, *, old: bool) -> NodeConnection:
    """Open a connection to a gateway; one of the two ends is of version 1 where `old`."""
    near, far = memory_pair()
    stage.gateway.join(far)
    return OldLink(near) if old else near


@asynccontextmanager
async def joined(
    stage: Stage, name: str, *more: ModelOffer, old: bool
) -> AsyncIterator[NodeConnection]:
    """Run a node that has joined, for the length of a block; it drains at the end."""
    node, link = new_node(name, *more), link_to(stage, old=old)
    async with asyncio.TaskGroup() as group:
        group.create_task(node.run())
        group.create_task(node.serve_link(link))
        await arrival(stage, name)
        try:
            yield link
        finally:
            await node.stop(1.0)
    await until(lambda: name not in here(stage), what=f"{name} has left")


async def arrival(stage: Stage, name: str) -> None:
    """Wait until a node has joined and reported."""
    await until(lambda: name in here(stage), what=f"{name} is here")


def here(stage: Stage) -> set[str]:
    """Name the nodes that are linked and have reported."""
    nodes = stage.gateway.mind.coordinator.fleet()
    return {str(node.id) for node in nodes if node.state == "alive" and node.models}


async def answered(stage: Stage) -> None:
    """Ask several times at once, and have every answer be right."""
    body = {"model": str(MODEL), "prompt": "one two"}
    asked = [ask(stage.port, "POST", "/v1/completions", body) for _ in range(3)]
    for reply in await asyncio.gather(*asked):
        assert (reply.status, b"onetwo" in reply.body) == (200, True), reply


async def test_nodes_are_upgraded_one_after_the_other() -> None:
    """The gateway is new already: old and new nodes serve side by side, and each comes back."""
    async with staged() as stage:
        async with joined(stage, "a", old=True) as first, joined(stage, "b", old=True):
            assert isinstance(first, OldLink)
            assert first.version == 1
            await answered(stage)
        async with joined(stage, "a", old=False), joined(stage, "b", old=True):
            assert here(stage) == {"a", "b"}
            await answered(stage)
        async with joined(stage, "a", old=False), joined(stage, "b", old=False):
            await answered(stage)


async def test_a_node_of_the_old_release_is_not_asked_for_vectors() -> None:
    """It would close the link over the request; it has its own, and a new node has both."""
    vectors = msgspec.structs.replace(offer(OTHER), mode="embed", vector_sizes=(16,))
    body = {"model": str(OTHER), "input": "x"}
    async with staged() as stage, joined(stage, "a", vectors, old=True):
        refused = await ask(stage.port, "POST", "/v1/embeddings", body)
        assert refused.status == 400, refused
        await answered(stage)
        async with joined(stage, "b", vectors, old=False):
            reply = await ask(stage.port, "POST", "/v1/embeddings", body)
            # The tiny backend makes none: the request has come to it, and to nobody else.
            assert b"The backend tiny makes no vectors." in reply.body
            await answered(stage)
        assert here(stage) == {"a"}


async def test_the_gateway_is_upgraded_after_its_nodes() -> None:
    """A new node serves an old gateway, and the new one after it, in one life."""
    node = new_node("a")
    async with asyncio.TaskGroup() as group:
        group.create_task(node.run())
        for old in (True, False):
            async with staged() as stage:
                link = link_to(stage, old=old)
                serving = group.create_task(node.serve_link(link))
                await arrival(stage, "a")
                await answered(stage)
            await until(serving.done, what="the gateway has ended")
            assert serving.result().again
        await node.stop(0.0)
