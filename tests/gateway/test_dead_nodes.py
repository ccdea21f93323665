"""A node that says nothing any more is forgotten as wholly as one that leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from roost.core.ids import ModelId, NodeId
from roost.core.snapshots import NodeStatus, OrderView
from roost.fleet.settings import FleetSettings
from roost.gateway.perform import perform
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Stage, ask, staged
from tests.gateway.puppet import MODEL, status
from tests.gateway.test_operations import by_name
from tests.gateway.test_ordering import able, ordered, post
from tests.gateway.test_pulling import joined

# Its silence is what is judged here, never this machine's own sleep.
FLEET = FleetSettings(queue_length=2, queue_wait_s=60.0, stall_s=1e6)
VECTORS = ModelId("v")


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A gateway that knows its callers by their keys."""
    settings = msgspec.structs.replace(SETTINGS, fleet=FLEET)
    async with staged(settings, authorise=by_name) as made:
        yield made


def embedding() -> NodeStatus:
    """The report of a node that takes orders and makes vectors alone."""
    report = status(models=(VECTORS,))
    offers = tuple(msgspec.structs.replace(one, mode="embed") for one in report.models)
    return msgspec.structs.replace(report, models=offers, orders=())


def fall_silent(stage: Stage) -> None:
    """Let so much time pass that nobody who has said nothing in it is alive."""
    mind = stage.gateway.mind
    for effect in mind.coordinator.on_tick(mind.now_s + 1.1 * FLEET.link_dead_s):
        perform(mind, effect)


async def refusal(stage: Stage, model: ModelId) -> tuple[int, object]:
    """Chat with a model, and say with which status and reason that is refused."""
    body = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
    reply = await ask(stage.port, "POST", "/v1/chat/completions", body, authorization="Bearer root")
    error = reply.json()["error"]
    assert isinstance(error, dict)
    return reply.status, error["code"]


async def test_whoever_waits_for_its_word_hears_that_it_has_left(stage: Stage) -> None:
    """502 at once, and not 202 when `answer_s` is over."""
    node = await joined(stage, "n1", able())
    reply = asyncio.create_task(post(stage, "load", {"model": MODEL, "answer_s": 600}))
    await ordered(node)
    fall_silent(stage)
    answered = await reply
    assert (answered.status, b"has left" in answered.body) == (502, True)


async def test_what_it_could_do_refuses_nobody(stage: Stage) -> None:
    """Of a model whose only node is dead its mode is not the trouble."""
    await joined(stage, "n1", embedding())
    assert await refusal(stage, VECTORS) == (400, "unsupported")
    fall_silent(stage)
    assert await refusal(stage, VECTORS) == (503, "no_nodes")


async def test_an_order_outlives_a_link_that_is_replaced(stage: Stage) -> None:
    """The node is there again before anybody missed it: it says on its new link what is done."""
    node = await joined(stage, "n1", able())
    reply = asyncio.create_task(post(stage, "load", {"model": MODEL}))
    told = await ordered(node)
    links, old = stage.gateway.mind.links, stage.gateway.mind.links[NodeId("n1")]
    again = stage.add_node("n1")
    again.report_with(able(OrderView(told.job, MODEL, "load", done=True)))
    await until(lambda: links.get(NodeId("n1")) not in (old, None), what="it has joined again")
    assert (await reply).status == 200
