"""Who waits at the gateway: in which order, for how long, and what its client hears meanwhile."""

from __future__ import annotations

from functools import partial
from typing import cast

import msgspec

from roost.errors import Failure
from roost.fleet.settings import FleetSettings
from roost.fleet.streams.relay import RelaySettings
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Stage, ask, staged
from tests.gateway.puppet import MODEL
from tests.gateway.test_fleet_gateway import HELLO, STREAM, idle, opened_count, waiting_count


async def test_a_queued_client_that_leaves_never_reaches_a_node(stage: Stage) -> None:
    """Its place in the queue is simply gone."""
    node = stage.add_node(slots=1)
    await stage.ready()
    running, waiting = [await stage.client() for _ in range(2)]
    running.send("POST", "/v1/chat/completions", HELLO)
    await until(lambda: len(node.opened) == 1, what="the first runs")
    waiting.send("POST", "/v1/chat/completions", HELLO)
    count = stage.gateway.mind.coordinator.statistics
    await until(lambda: count().waiting == 1, what="the second waits")
    waiting.close()
    await until(lambda: count().waiting == 0, what="it is gone")
    node.answer(node.opened[0], "done")
    assert (await running.reply()).status == 200
    await until(lambda: idle(stage), what="idle")
    assert len(node.opened) == 1


async def test_the_queue_is_first_in_first_out_and_bounded(stage: Stage) -> None:
    """One runs, two wait, the fourth is refused at once with a time to come back."""
    node = stage.add_node(slots=1)
    await stage.ready()
    clients = []
    for number in range(3):
        client = await stage.client()
        client.send("POST", "/v1/completions", {"model": MODEL, "prompt": f"p{number}"})
        clients.append(client)
        await until(partial(waiting_count, stage, number), what="in line")
    refused = await ask(stage.port, "POST", "/v1/completions", {"model": MODEL, "prompt": "p3"})
    assert refused.status == 429
    assert cast("dict[str, object]", refused.json()["error"])["code"] == "queue_full"
    assert 1 <= int(refused.headers["retry-after"]) <= 120
    for number, client in enumerate(clients):
        await until(partial(opened_count, node, number + 1), what="its turn")
        node.answer(node.opened[number], f"answer {number}")
        assert f"answer {number}".encode() in (await client.reply()).body
    prompts = [opened.request.prompt for opened in node.opened]
    assert [getattr(prompt, "text", "") for prompt in prompts] == ["p0", "p1", "p2"]
    assert stage.gateway.metrics.value("roost_shed_total", "queue_full") == 1


async def test_a_length_of_zero_refuses_at_once() -> None:
    """The queue can be switched off."""
    settings = msgspec.structs.replace(SETTINGS, fleet=FleetSettings(queue_length=0))
    async with staged(settings) as stage:
        node = stage.add_node(slots=1)
        await stage.ready()
        client = await stage.client()
        client.send("POST", "/v1/chat/completions", HELLO)
        await until(lambda: bool(node.opened), what="it runs")
        refused = await ask(stage.port, "POST", "/v1/chat/completions", HELLO)
        assert refused.status == 429
        client.close()
        await until(lambda: bool(node.cancelled), what="cancelled")
        node.release(node.opened[0].stream)


async def test_a_deadline_ends_a_request_in_the_queue_and_on_the_node(stage: Stage) -> None:
    """The client's own time limit is a 504 before the first token and frees what it held."""
    node = stage.add_node(slots=1)
    await stage.ready()
    reply = await ask(stage.port, "POST", "/v1/chat/completions", HELLO, x_roost_timeout_ms="60")
    assert reply.status == 504
    assert 0 < (node.opened[0].deadline_s or 0) < 0.0601
    node.release(node.opened[0].stream)
    for text in ("-1", "0", "1.5", "soon", "0" * 300 + "1", "9" * 400):
        wrong = await ask(
            stage.port, "POST", "/v1/chat/completions", HELLO, x_roost_timeout_ms=text
        )
        assert wrong.status == 400, text
    await until(lambda: idle(stage), what="idle")


async def test_a_silent_stream_gets_keepalives_with_a_state() -> None:
    """Comments say what the request waits for; the status is committed by then."""
    quick = RelaySettings(commit_after_s=0.05, keepalive_s=0.05)
    generation = msgspec.structs.replace(SETTINGS.generation, relay=quick)
    async with staged(msgspec.structs.replace(SETTINGS, generation=generation)) as stage:
        node = stage.add_node(slots=1)
        await stage.ready()
        first, second = [await stage.client() for _ in range(2)]
        first.send("POST", "/v1/chat/completions", STREAM)
        await until(lambda: bool(node.opened), what="it runs")
        second.send("POST", "/v1/chat/completions", STREAM)
        assert (await second.head())[0] == 200
        await second.reader.readuntil(b": queued 1/1")
        node.answer(node.opened[0], "one")
        await until(lambda: len(node.opened) == 2, what="the second runs")
        node.refuse(node.opened[1].stream, Failure("bad_request", "no"))
        rest = await second.reader.read(-1)
        assert b'"error"' in rest
        assert b"[DONE]" not in rest
        first.close()
