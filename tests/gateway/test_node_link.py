"""A node's link at the gateway: what counts as a sign of life, and what a stream waits for."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from roost.core.events import Delta, PrefillProgress, Started
from roost.core.ids import ModelId, NodeId
from roost.fleet.streams.relay import RelaySettings
from roost.wire.heartbeat import LinkSettings
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, ask, staged
from tests.gateway.puppet import MODEL


@pytest.mark.slow
async def test_a_node_that_only_answers_pings_is_alive() -> None:
    """Pings and their answers are signs of life, although nobody behind the link sees them."""
    fleet = msgspec.structs.replace(SETTINGS.fleet, link_suspect_s=1.0, link_stale_s=2.0)
    link = msgspec.structs.replace(SETTINGS.link, link=LinkSettings(ping_s=0.02))
    async with staged(msgspec.structs.replace(SETTINGS, fleet=fleet, link=link)) as stage:
        stage.add_node("quiet")
        await stage.ready()
        loop = asyncio.get_running_loop()
        enough_s = loop.time() + 1.5 * fleet.link_suspect_s
        looks: list[str] = []

        def long_enough() -> bool:
            looks.append(stage.gateway.mind.coordinator.fleet()[0].state)
            return loop.time() > enough_s

        await until(long_enough)
        assert set(looks) == {"alive"}


async def test_a_silent_stream_says_how_far_its_node_is() -> None:
    """Comments follow the load, the preparation and the prefill of its request."""
    quick = RelaySettings(commit_after_s=0.02, keepalive_s=0.02)
    generation = msgspec.structs.replace(SETTINGS.generation, relay=quick)
    async with staged(msgspec.structs.replace(SETTINGS, generation=generation)) as stage:
        node = stage.add_node()
        await stage.ready()
        client = await stage.client()
        messages = [{"role": "user", "content": "hello"}]
        body = {"model": MODEL, "messages": messages, "stream": True}
        client.send("POST", "/v1/chat/completions", body)
        await until(lambda: bool(node.opened), what="it runs")
        stream = node.opened[0].stream
        node.phase(stream, "loading", 0.4)
        await client.reader.readuntil(b": loading 40 %\n")
        node.phase(stream, "preparing", None)
        await client.reader.readuntil(b": preparing\n")
        node.say(stream, Started(prompt_tokens=100, cached_tokens=10, slot=0))
        await client.reader.readuntil(b": prefill 10 %\n")
        node.say(stream, PrefillProgress(done=61, total=100))
        await client.reader.readuntil(b": prefill 61 %\n")
        node.say(stream, Delta("a"))
        await client.reader.readuntil(b'"content":"a"')
        await client.reader.readuntil(b": answering\n")
        node.release(stream)


async def test_a_node_is_waited_for_until_it_may_be_given_work() -> None:
    """Its first report is what counts: after it a request is served, and others' are not its."""
    async with staged() as stage:
        reported = stage.gateway.mind.report_of(NodeId("own"))
        stage.add_node("other")
        await stage.ready()
        assert not reported.is_set()
        own = stage.add_node("own", models=(ModelId("own-model"),))
        own.on_open = own.answer
        async with asyncio.timeout(5):
            await reported.wait()
        body = {"model": "own-model", "messages": [{"role": "user", "content": "hello"}]}
        assert (await ask(stage.port, "POST", "/v1/chat/completions", body)).status == 200
