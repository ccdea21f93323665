"""The fleet's gateway over real sockets, with puppet nodes on real links."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import cast

import msgspec
import pytest

from roost.core.events import Delta, Failed, Finished, Started, Usage
from roost.core.ids import ModelId, NodeId
from roost.core.request import ChatPrompt
from roost.errors import Failure
from roost.fleet.settings import FleetSettings
from roost.fleet.streams.relay import RelaySettings
from roost.wire.messages import Open
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Stage, ask, staged
from tests.gateway.puppet import MODEL, Puppet, status

HELLO = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
STREAM = {**HELLO, "stream": True}


def idle(stage: Stage) -> bool:
    """Whether nothing is counted as running, waiting or leased."""
    statistics = stage.gateway.mind.coordinator.statistics()
    counts = statistics.waiting, statistics.running, statistics.leases
    return counts == (0, 0, 0) and not stage.gateway.mind.turns


async def test_an_answer_whole_and_streamed_is_the_same(stage: Stage) -> None:
    """Both forms carry the same text, reason and usage; headers say who served it."""
    node = stage.add_node()
    node.on_open = lambda opened: node.answer(opened, "He", "llo", cached=4)
    await stage.ready()

    whole = await ask(stage.port, "POST", "/v1/chat/completions", HELLO)
    streamed = await ask(
        stage.port,
        "POST",
        "/v1/chat/completions",
        {**STREAM, "stream_options": {"include_usage": True}},
    )

    assert (whole.status, streamed.status) == (200, 200)
    body = msgspec.json.decode(whole.body)
    assert body["choices"][0]["message"]["content"] == "Hello"
    assert body["choices"][0]["finish_reason"] == "stop"
    usage = body["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (9, 2)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 4
    events = streamed.events()
    assert events[-1] == "[DONE]"
    chunks = [msgspec.json.decode(event) for event in events[:-1]]
    text = "".join(c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"])
    assert text == "Hello"
    assert chunks[-1]["usage"] == usage
    assert whole.headers["x-roost-node"] == "n1"
    assert whole.headers["x-roost-cached-tokens"] == "4"
    assert streamed.headers["content-type"].startswith("text/event-stream")
    assert streamed.headers["x-accel-buffering"] == "no"
    await until(lambda: idle(stage), what="everything is released")


async def test_text_reaches_the_client_before_the_answer_is_complete(stage: Stage) -> None:
    """A stream is not held back until its end."""
    node = stage.add_node()
    await stage.ready()
    client = await stage.client()
    client.send("POST", "/v1/chat/completions", STREAM)
    await until(lambda: bool(node.opened), what="the request reaches the node")
    opened = node.opened[0]
    node.say(opened.stream, Started(5, 0, 0), Delta("first"))
    await client.reader.readuntil(b'"first"')
    node.say(opened.stream, Delta(" second"), Finished("stop", Usage(5, 0, 2)))
    node.release(opened.stream)
    await client.reader.readuntil(b"[DONE]\n\n")
    client.close()


async def test_the_second_turn_of_a_plain_client_goes_home(stage: Stage) -> None:
    """A client that only resends its history meets the node that holds its KV."""
    nodes = {name: stage.add_node(name) for name in ("a", "b", "c")}
    for node in nodes.values():
        node.on_open = _answering(node, "hi there")
    await until(
        lambda: len(stage.gateway.mind.coordinator.statistics().in_flight) == 3, what="all joined"
    )
    for number in range(6):
        first = {"role": "user", "content": f"question {number}"}
        reply = await ask(
            stage.port, "POST", "/v1/chat/completions", {**HELLO, "messages": [first]}
        )
        home = reply.headers["x-roost-node"]
        history = [
            first,
            {"role": "assistant", "content": "hi there"},
            {"role": "user", "content": "more"},
        ]
        again = await ask(
            stage.port, "POST", "/v1/chat/completions", {**HELLO, "messages": history}
        )
        assert again.headers["x-roost-node"] == home
        assert again.headers["x-roost-placement"] == "warm"


def opened_count(node: Puppet, wanted: int) -> bool:
    """Whether this many streams were opened on the node."""
    return len(node.opened) == wanted


def waiting_count(stage: Stage, wanted: int) -> bool:
    """Whether this many requests wait in the queue."""
    return stage.gateway.mind.coordinator.statistics().waiting == wanted


def is_alive(stage: Stage, name: str) -> bool:
    """Whether the gateway counts this node as alive."""
    return any(n.id == name and n.state == "alive" for n in stage.gateway.mind.coordinator.fleet())


def _dying(node: Puppet) -> Callable[[Open], None]:
    def die(opened: Open) -> None:
        node.say(opened.stream, Failed(Failure("runtime_died", "the runtime ended")))
        node.release(opened.stream)

    return die


def _answering(node: Puppet, text: str) -> Callable[[Open], None]:
    return lambda opened: node.answer(opened, text, cached=8)


async def test_a_client_that_leaves_cancels_in_every_phase(stage: Stage) -> None:
    """Waiting or streaming, whole or streamed: the node is told and the lease comes back."""
    node = stage.add_node(slots=4)
    await stage.ready()
    for number, (body, streaming) in enumerate(
        [(HELLO, False), (STREAM, False), (HELLO, True), (STREAM, True)]
    ):
        client = await stage.client()
        client.send("POST", "/v1/chat/completions", body)
        await until(partial(opened_count, node, number + 1), what="opened")
        stream = node.opened[-1].stream
        if streaming:
            node.say(stream, Started(5, 0, 0), Delta("some text"))
        client.close()
        await until(partial(node.cancelled.__contains__, stream), what="cancelled")
        assert stage.gateway.mind.coordinator.statistics().leases == 1
        node.release(stream, 0.01)
        await until(lambda: idle(stage), what="released")
    shown = stage.gateway.metrics.value
    assert shown("roost_requests_total", "client_disconnect", "openai") == 4


async def test_a_failure_before_the_first_token_is_answered_elsewhere(stage: Stage) -> None:
    """The client never learns of it."""
    good, bad = stage.add_node("good"), stage.add_node("bad")
    good.on_open = lambda opened: good.answer(opened, "fine")
    bad.on_open = _dying(bad)
    await until(
        lambda: len(stage.gateway.mind.coordinator.statistics().in_flight) == 2, what="joined"
    )
    while not bad.opened:
        # Raw prompts have no home, so each of these is a fair coin.
        reply = await ask(stage.port, "POST", "/v1/completions", {"model": MODEL, "prompt": "p"})
        assert reply.status == 200
        assert reply.headers["x-roost-node"] == "good"
    assert stage.gateway.metrics.value("roost_retries_total", "runtime_died") == 1
    await until(lambda: idle(stage), what="idle")


@pytest.mark.parametrize("how", ["failed", "link_lost"])
async def test_a_failure_in_mid_stream_is_an_error_event_and_no_clean_end(
    stage: Stage, how: str
) -> None:
    """Nobody can take a cut answer for a complete one."""
    node = stage.add_node()
    await stage.ready()
    client = await stage.client()
    client.send("POST", "/v1/chat/completions", STREAM)
    await until(lambda: bool(node.opened), what="opened")
    stream = node.opened[0].stream
    node.say(stream, Started(5, 0, 0), Delta("half an"))
    await client.reader.readuntil(b"half an")
    if how == "failed":
        node.say(stream, Failed(Failure("runtime_died", "the runtime ended")))
        node.release(stream)
    else:
        stage.gateway.mind.links[NodeId("n1")].shut(Failure("node_lost", "cut"))
    rest = await client.reader.read(-1)
    assert b"[DONE]" not in rest
    assert b'finish_reason":"' not in rest
    assert b"\r\n0\r\n\r\n" not in rest
    error = msgspec.json.decode(rest[rest.index(b"data: ") + 6 :].split(b"\n")[0])["error"]
    assert error["code"] == ("runtime_died" if how == "failed" else "node_lost")
    assert error["type"] == "server_error"
    await until(lambda: idle(stage), what="idle")


async def test_errors_known_before_the_first_token_have_their_real_status(stage: Stage) -> None:
    """A streamed request that cannot be served gets a status and a JSON body, not a stream."""
    node = stage.add_node()
    await stage.ready()
    too_long = Failure("context_length_exceeded", "prompt is too long", "messages")
    node.on_open = lambda opened: node.refuse(opened.stream, too_long)
    reply = await ask(stage.port, "POST", "/v1/chat/completions", STREAM)
    assert reply.status == 400
    error = cast("dict[str, object]", reply.json()["error"])
    assert (error["code"], error["param"]) == ("context_length_exceeded", "messages")

    unknown = await ask(stage.port, "POST", "/v1/chat/completions", {**STREAM, "model": "nope"})
    assert unknown.status == 404
    error = cast("dict[str, object]", unknown.json()["error"])
    assert error["code"] == "model_not_found"
    assert "does not exist" in str(error["message"])
    await until(lambda: idle(stage), what="idle")


async def test_a_client_that_does_not_read_loses_only_its_own_stream() -> None:
    """At the write deadline its decode is ended; its neighbour and the node go on."""
    slow = RelaySettings(write_deadline_s=0.2, buffer_events=8)
    generation = msgspec.structs.replace(SETTINGS.generation, relay=slow)
    link = msgspec.structs.replace(SETTINGS.link, credit=8)
    settings = msgspec.structs.replace(SETTINGS, generation=generation, link=link)
    async with staged(settings) as stage:
        node = stage.add_node()
        await stage.ready()
        stuck = await stage.client()
        stuck.stop_reading()
        stuck.send("POST", "/v1/chat/completions", STREAM)
        await until(lambda: bool(node.opened), what="it runs")
        flood, big = node.opened[0], "x" * 200_000
        node.say(flood.stream, Started(5, 0, 0))
        for _ in range(7):
            # No more than the credit: a real node stops here as well.
            node.say(flood.stream, Delta(big))
        await until(lambda: flood.stream in node.cancelled, what="its decode is ended")
        node.on_open = lambda opened: node.answer(opened, "unharmed")
        reply = await ask(stage.port, "POST", "/v1/chat/completions", HELLO)
        assert b"unharmed" in reply.body
        node.release(flood.stream)
        await until(lambda: idle(stage), what="idle")
        shown = stage.gateway.metrics.value
        assert shown("roost_requests_total", "write_timeout", "openai") == 1
        stuck.close()


async def test_a_large_body_is_parsed_elsewhere_and_served(stage: Stage) -> None:
    """Bodies over the limit for the event loop take the way through the parsing process."""
    node = stage.add_node()
    node.on_open = lambda opened: node.answer(opened, "read it")
    await stage.ready()
    long = {**HELLO, "messages": [{"role": "user", "content": "word " * 40_000}]}
    reply = await ask(stage.port, "POST", "/v1/chat/completions", long)
    assert reply.status == 200
    prompt = node.opened[0].request.prompt
    assert isinstance(prompt, ChatPrompt)
    assert len(prompt.messages[0].content) == 200_000
    broken = await ask(stage.port, "POST", "/v1/chat/completions", b"{" + b" " * 150_000)
    assert broken.status == 400


async def test_the_model_may_be_left_out_where_only_one_is_served(stage: Stage) -> None:
    """With several the request has to name one, and is told so."""
    node = stage.add_node()
    node.on_open = lambda opened: node.answer(opened, "ok")
    await stage.ready()
    messages = {"messages": HELLO["messages"]}
    assert (await ask(stage.port, "POST", "/v1/chat/completions", messages)).status == 200
    node.report(status(models=(MODEL, ModelId("other"))))
    coordinator = stage.gateway.mind.coordinator
    await until(lambda: len(coordinator.models()) == 2, what="two models")
    reply = await ask(stage.port, "POST", "/v1/chat/completions", messages)
    assert reply.status == 400
    assert cast("dict[str, object]", reply.json()["error"])["param"] == "model"


async def test_draining_refuses_new_work_and_finishes_what_runs() -> None:
    """The running answer is completed; the close returns once it is."""
    async with staged() as stage:
        node = stage.add_node()
        await stage.ready()
        client = await stage.client()
        client.send("POST", "/v1/chat/completions", HELLO)
        await until(lambda: bool(node.opened), what="it runs")
        late = await stage.client()
        closing = asyncio.ensure_future(stage.gateway.close(grace_s=5))
        opened: Open = node.opened[0]
        await until(lambda: not stage.gateway.mind.coordinator.ready(0.0), what="draining")
        node.answer(opened, "to the end")
        assert b"to the end" in (await client.reply()).body
        await closing
        assert await late.reader.read(-1) == b""


async def test_a_withdrawn_attempt_is_not_heard_any_more() -> None:
    """A node that falls silent loses its request; what it says later is not the answer."""
    fleet = FleetSettings(link_suspect_s=0.2, link_stale_s=0.4, link_dead_s=10, stall_s=5)
    async with staged(msgspec.structs.replace(SETTINGS, fleet=fleet)) as stage:
        silent = stage.add_node("silent", slots=1)
        await stage.ready()
        first, second = [await stage.client() for _ in range(2)]
        first.send("POST", "/v1/chat/completions", HELLO)
        await until(partial(opened_count, silent, 1), what="the first runs")
        other = stage.add_node("other", slots=1)
        second.send("POST", "/v1/chat/completions", HELLO)
        await until(partial(opened_count, other, 1), what="the second runs elsewhere")

        def withdrawn() -> bool:
            other.report(status(slots=1))
            return waiting_count(stage, 1)

        await until(withdrawn, what="the first is withdrawn and waits for the other node")
        silent.say(silent.opened[0].stream, Started(5, 0, 0), Delta("from the grave"))
        await until(partial(is_alive, stage, "silent"), what="what it said has arrived")
        assert silent.cancelled == [silent.opened[0].stream]
        other.on_open = lambda opened: other.answer(opened, "from the living")
        other.answer(other.opened[0], "done")
        reply = await first.reply()
        assert reply.status == 200
        assert b"from the living" in reply.body
        assert b"grave" not in reply.body
        silent.release(silent.opened[0].stream)
        await until(lambda: idle(stage), what="idle")


async def test_a_request_too_large_for_the_link_harms_nobody_else() -> None:
    """It is refused with the reason; the link and its other streams go on."""
    link = msgspec.structs.replace(SETTINGS.link, message_max_bytes=4096)
    async with staged(msgspec.structs.replace(SETTINGS, link=link)) as stage:
        node = stage.add_node()
        await stage.ready()
        client = await stage.client()
        client.send("POST", "/v1/chat/completions", STREAM)
        await until(partial(opened_count, node, 1), what="a stream runs")
        huge = {**HELLO, "messages": [{"role": "user", "content": "x" * 8192}]}
        refused = await ask(stage.port, "POST", "/v1/chat/completions", huge)
        assert refused.status == 413
        node.answer(node.opened[0], "unharmed")
        assert b"unharmed" in (await client.reply()).body
        await until(lambda: idle(stage), what="idle")
