"""Turns of conversations under keys, and turns that outlive their connection."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial

import msgspec
import pytest

from roost.core.events import Delta, Finished, Started, Usage
from roost.errors import Failure
from roost.gateway.conversations.infer import InferSettings
from roost.store.conversations.journal import Journal, JournalSettings
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Stage, ask, staged
from tests.gateway.puppet import Puppet
from tests.gateway.test_fleet_gateway import opened_count
from tests.gateway.test_infer import PATH, infer, saying, texts, turn
from tests.gateway.test_reattach import numbered


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A gateway that keeps conversations in memory."""
    settings = msgspec.structs.replace(SETTINGS, infer=infer(InferSettings()))
    async with staged(settings, journal=Journal(None, JournalSettings())) as made:
        yield made


async def lost(stage: Stage, node: Puppet, *events: Started | Delta) -> str:
    """Begin a turn whose client is lost after these events, and return where its stream is."""
    await stage.ready()
    client = await stage.client()
    client.send("POST", PATH, turn("hello"), x_roost_reattach_s="30")
    await until(partial(opened_count, node, 1), what="it runs")
    if events:
        node.say(node.opened[0].stream, *events)
        await client.head()
    client.close()
    front = stage.gateway.front
    assert front is not None
    await until(lambda: front.connections == 0, what="the loss is seen")
    return f"/roost/v1/requests/{node.opened[0].request_id}/stream"


async def test_a_turn_that_comes_again_is_one_turn(stage: Stage) -> None:
    """Sent twice under a key it is said once, in the past of the next turn too."""
    node = stage.add_node()
    node.on_open = saying(node, "yes")
    await stage.ready()
    first, again = [
        await ask(stage.port, "POST", PATH, turn("hello"), idempotency_key="k-1") for _ in range(2)
    ]
    assert again.headers["idempotency-replayed"] == "true"
    assert again.body == first.body
    assert (await ask(stage.port, "POST", PATH, turn("more"))).status == 200
    assert texts(node.opened[-1]) == ["user: hello", "assistant: yes", "user: more"]
    chat = {"messages": [{"role": "user", "content": "hello"}]}
    other = await ask(stage.port, "POST", "/v1/chat/completions", chat, idempotency_key="k-1")
    assert other.status == 422


async def test_a_turn_waits_for_its_client(stage: Stage) -> None:
    """It ends meanwhile, is kept, and is read to its end by whoever comes back."""
    node = stage.add_node()
    path = await lost(stage, node, Started(9, 0, 0), Delta("one "))
    stream = node.opened[0].stream
    node.say(stream, Delta("two"), Finished("stop", Usage(9, 0, 2)))
    node.release(stream)
    reply = await ask(stage.port, "GET", path)
    events = numbered(reply.body)
    assert [number for number, _ in events] == list(range(len(events)))
    assert b"one " in reply.body
    assert b"two" in reply.body
    assert reply.clean
    node.on_open = saying(node, "yes")
    await ask(stage.port, "POST", PATH, turn("more"))
    assert texts(node.opened[-1]) == ["user: hello", "assistant: one two", "user: more"]


async def test_a_refusal_meanwhile_keeps_its_own_words(stage: Stage) -> None:
    """Whoever comes back gets the status and body that it would have had."""
    node = stage.add_node()
    path = await lost(stage, node)
    node.refuse(node.opened[0].stream, Failure("context_length_exceeded", "Too long."))
    first, again = [await ask(stage.port, "GET", path) for _ in range(2)]
    assert (first.status, first.json()["reason"]) == (413, "prompt_too_long")
    assert (again.status, again.body) == (first.status, first.body)
