"""Requests under an Idempotency-Key, over real sockets with puppet nodes."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from roost.core.events import Delta, Failed, Finished, Started, Usage
from roost.core.ids import RequestId, TenantId
from roost.errors import Failure
from roost.fleet.settings import FleetSettings
from roost.fleet.streams.idempotency import Claim, IdempotencySettings
from roost.fleet.streams.relay import RelaySettings
from roost.gateway.replay.repeats import Repeats
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Client, Reply, Stage, ask, staged
from tests.gateway.front.test_bridge import Wire, exchange_of
from tests.gateway.puppet import MODEL, Puppet
from tests.gateway.test_fleet_gateway import HELLO, STREAM, idle, opened_count
from tests.gateway.test_operations import by_name

CHAT = "/v1/chat/completions"


async def keyed(stage: Stage, body: object, key: str = "k-1", path: str = CHAT) -> Reply:
    """Ask under a key."""
    return await ask(stage.port, "POST", path, body, idempotency_key=key)


async def started(stage: Stage, node: Puppet, body: object, *texts: str) -> Client:
    """Let a request under the key begin, and its node say something."""
    await stage.ready()
    client = await stage.client()
    count = len(node.opened) + 1
    client.send("POST", CHAT, body, idempotency_key="k-1")
    await until(partial(opened_count, node, count), what="it runs")
    node.say(node.opened[-1].stream, Started(9, 0, 0), *(Delta(text) for text in texts))
    return client


def code(reply: Reply) -> tuple[int, str, str | None]:
    """Status, reason and field of a failure."""
    error = msgspec.json.decode(reply.body)["error"]
    return reply.status, error["code"], error["param"]


@pytest.mark.parametrize("body", [HELLO, STREAM], ids=["whole", "stream"])
async def test_the_answer_is_given_again_byte_for_byte(stage: Stage, body: object) -> None:
    """Status, headers, body and the id of the request are the first one's; nothing runs."""
    node = stage.add_node()
    node.on_open = lambda opened: node.answer(opened, "He", "llo", cached=4)
    await stage.ready()
    first, *again = [await keyed(stage, body) for _ in range(3)]
    assert first.status == 200
    assert "idempotency-replayed" not in first.headers
    del first.headers["date"]
    for reply in again:
        del reply.headers["date"]
        assert reply.headers.pop("idempotency-replayed") == "true"
        assert reply == first
    assert len(node.opened) == 1
    metrics = stage.gateway.metrics
    assert metrics.value("roost_requests_total", "replayed", "openai") == 2


async def test_while_it_runs_others_are_told_to_wait(stage: Stage) -> None:
    """Every twin gets the id of what runs and a time to come back, and none of them runs."""
    node = stage.add_node(slots=4)
    client = await started(stage, node, STREAM, "so far")
    _, headers = await client.head()
    for _ in range(3):
        reply = await keyed(stage, STREAM)
        assert code(reply) == (409, "key_in_use", "idempotency-key")
        assert headers["x-roost-request-id"] in reply.body.decode()
        assert reply.headers["retry-after"] == "2"
    assert len(node.opened) == 1


async def test_a_key_stands_for_one_body_and_one_route(stage: Stage) -> None:
    """Anything else under it is refused with the name of the header, during and after."""
    node = stage.add_node()
    client = await started(stage, node, HELLO)
    other = {**HELLO, "max_tokens": 7}
    assert code(await keyed(stage, other)) == (422, "key_reused", "idempotency-key")
    node.say(node.opened[0].stream, Delta("yes"), Finished("stop", Usage(9, 0, 1)))
    node.release(node.opened[0].stream)
    assert (await client.reply()).status == 200
    assert code(await keyed(stage, other)) == (422, "key_reused", "idempotency-key")
    raw = {"model": MODEL, "prompt": "p"}
    assert code(await keyed(stage, raw, path="/v1/completions"))[0] == 422
    assert len(node.opened) == 1


async def test_keys_belong_to_tenants() -> None:
    """Two tenants may use the same key; neither meets the other's answer."""
    async with staged(authorise=by_name) as stage:
        node = stage.add_node()
        node.on_open = lambda opened: node.answer(opened, f"answer {len(node.opened)}")
        await stage.ready()
        bodies = [
            (
                await ask(
                    *(stage.port, "POST", CHAT, HELLO),
                    idempotency_key="k-1",
                    authorization=f"Bearer {who}",
                )
            ).body
            for who in ("ann", "bob", "ann")
        ]
        assert b"answer 1" in bodies[0]
        assert b"answer 2" in bodies[1]
        assert bodies[2] == bodies[0]


async def test_a_refusal_is_not_kept(stage: Stage) -> None:
    """Where nothing could run, the same request under the same key really tries again."""
    assert code(await keyed(stage, HELLO))[1] == "no_nodes"
    node = stage.add_node()
    failure = Failure("load_failed", "It does not load.")
    node.on_open = lambda opened: node.refuse(opened.stream, failure)
    await stage.ready()
    assert code(await keyed(stage, HELLO))[1] == "load_failed"
    other = stage.add_node("n2")
    other.on_open = lambda opened: other.answer(opened, "yes")
    mind = stage.gateway.mind
    await until(lambda: len(mind.coordinator.statistics().in_flight) == 2, what="it joined")
    reply = await keyed(stage, HELLO)
    assert reply.status == 200
    assert "idempotency-replayed" not in reply.headers


async def test_a_cut_answer_is_told_again_with_its_error(stage: Stage) -> None:
    """A part of it is out: nothing runs again, and the twin ends as its original did."""
    node = stage.add_node()
    client = await started(stage, node, STREAM, "so far")
    lost = Failure("runtime_died", "It died.")
    node.say(node.opened[0].stream, Failed(lost))
    node.release(node.opened[0].stream)
    first = await client.reply()
    again = await keyed(stage, STREAM)
    assert b"so far" in first.body
    assert b"runtime_died" in first.body
    assert not first.clean
    assert (again.body, again.clean, again.status) == (first.body, False, 200)
    assert len(node.opened) == 1


async def test_a_failure_after_keepalives_alone_is_not_kept() -> None:
    """The status is out but nothing of an answer: the next one tries again."""
    relay = RelaySettings(commit_after_s=0.05, keepalive_s=0.05)
    generation = msgspec.structs.replace(SETTINGS.generation, relay=relay)
    fleet = FleetSettings(queue_wait_s=0.3)
    settings = msgspec.structs.replace(SETTINGS, generation=generation, fleet=fleet)
    async with staged(settings) as stage:
        node = stage.add_node(slots=1)
        await stage.ready()
        blocker = await stage.client()
        blocker.send("POST", CHAT, STREAM)
        await until(partial(opened_count, node, 1), what="the place is taken")
        first = await keyed(stage, STREAM)
        assert first.status == 200
        assert b"queue_timeout" in first.body
        node.on_open = lambda opened: node.answer(opened, "yes")
        node.answer(node.opened[0], "done")
        await until(partial(idle, stage), what="the place is free")
        again = await keyed(stage, STREAM)
        assert "idempotency-replayed" not in again.headers
        assert again.events()[-1] == "[DONE]"


async def test_a_client_that_left_frees_its_key(stage: Stage) -> None:
    """Its request is cancelled, and the same one runs anew when it comes back."""
    node = stage.add_node()
    client = await started(stage, node, STREAM, "so far")
    await client.head()
    client.close()
    await until(lambda: bool(node.cancelled), what="the node is told")
    node.release(node.opened[0].stream)
    node.on_open = lambda opened: node.answer(opened, "anew")
    reply = await keyed(stage, STREAM)
    assert "idempotency-replayed" not in reply.headers
    assert b"anew" in reply.body


@pytest.mark.parametrize("key", ["", "two words", "k" * 256, "käse"])
async def test_an_unfit_key_is_refused(stage: Stage, key: str) -> None:
    """1 to 255 visible ASCII characters."""
    node = stage.add_node()
    await stage.ready()
    assert code(await keyed(stage, HELLO, key)) == (400, "bad_request", "idempotency-key")
    assert not node.opened


async def test_an_answer_that_was_too_large_is_not_made_again() -> None:
    """It has run: the twin learns that, and that trying once more would not help."""
    small = IdempotencySettings(answer_max_bytes=100)
    async with staged(msgspec.structs.replace(SETTINGS, idempotency=small)) as stage:
        node = stage.add_node()
        node.on_open = lambda opened: node.answer(opened, "x" * 200)
        await stage.ready()
        first = await keyed(stage, HELLO)
        again = await keyed(stage, HELLO)
        assert code(again) == (409, "answer_not_kept", "idempotency-key")
        assert first.headers["x-roost-request-id"] in again.body.decode()
        assert again.headers["x-should-retry"] == "false"
        assert "retry-after" not in again.headers
        assert len(node.opened) == 1


async def test_a_large_body_has_a_fingerprint_too(stage: Stage) -> None:
    """It is made where the body is read, in another process."""
    node = stage.add_node()
    node.on_open = lambda opened: node.answer(opened, "yes")
    await stage.ready()
    long = {**HELLO, "messages": [{"role": "user", "content": "x" * 150_000}]}
    replies = [await keyed(stage, body) for body in (long, long, {**long, "max_tokens": 2})]
    assert [reply.status for reply in replies] == [200, 200, 422]
    assert len(node.opened) == 1


async def test_a_large_answer_is_given_again_at_the_speed_of_its_reader(stage: Stage) -> None:
    """Far more than the buffers hold: all of it arrives, and the gateway never holds it twice."""
    node = stage.add_node()
    node.on_open = lambda opened: node.answer(opened, *["y" * 100_000] * 5)
    await stage.ready()
    first = await keyed(stage, STREAM)
    client = await stage.client()
    client.send("POST", CHAT, STREAM, idempotency_key="k-1")
    status, _ = await client.head()
    client.stop_reading()
    assert status == 200
    assert (await ask(stage.port, "GET", "/health")).status == 200
    client.resume_reading()
    assert (await client.rest()).body == first.body


async def test_a_key_whose_request_came_to_nothing_is_free(stage: Stage) -> None:
    """A request that a defect ended before it was a turn leaves nothing behind."""
    node = stage.add_node()
    client = await started(stage, node, HELLO)
    repeats = Repeats(stage.gateway.mind, IdempotencySettings())
    wire = Wire()

    def answered(request: str) -> bool:
        one = Claim(TenantId("key:ann"), "k-2", b"body", RequestId(request))
        return repeats.answered(one, exchange_of(wire), "openai", lambda _: [])

    assert not answered("never-a-turn")
    assert not answered(node.opened[0].request_id)
    assert not wire.written
    assert answered("a-twin")
    assert b" 409 " in wire.written[0]
    client.close()
