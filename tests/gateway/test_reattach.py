"""Streams whose clients lose their connection and come back, over real sockets."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from functools import partial

import msgspec
import pytest

from roost.core.events import Delta, Failed, Finished, Started, StreamEvent, Usage
from roost.core.ids import StreamId
from roost.errors import Failure
from roost.fleet.streams.stream_log import ReattachSettings
from roost.gateway.assemble import GatewaySettings
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Client, Reply, Stage, ask, staged
from tests.gateway.puppet import Puppet
from tests.gateway.test_fleet_gateway import HELLO, STREAM, idle, opened_count
from tests.gateway.test_operations import by_name

CHAT = "/v1/chat/completions"
END = Finished("stop", Usage(9, 0, 2))


def limited(reattach: ReattachSettings, **relay: float) -> GatewaySettings:
    """The gateway of these tests with other limits."""
    changed = msgspec.structs.replace(SETTINGS.generation.relay, **relay)
    generation = msgspec.structs.replace(SETTINGS.generation, relay=changed)
    return msgspec.structs.replace(SETTINGS, reattach=reattach, generation=generation)


@dataclass
class Show:
    """A stream that can be attached to again, its first client, and the node behind it."""

    stage: Stage
    client: Client
    node: Puppet
    stream: StreamId
    path: str = ""
    headers: dict[str, str] | None = None

    def say(self, *events: StreamEvent | str) -> None:
        """Let the node go on, each event in a message of its own."""
        for event in events:
            self.node.say(self.stream, Delta(event) if isinstance(event, str) else event)

    def end(self) -> None:
        """Let the node come to the end."""
        self.say(END)
        self.node.release(self.stream)

    async def lose(self) -> None:
        """Drop the client's connection and wait until the gateway has seen it."""
        self.client.close()
        front = self.stage.gateway.front
        assert front is not None
        await until(lambda: front.connections == 0, what="the loss is seen")

    async def back(self, since: int | str = 0, **headers: str) -> Client:
        """Come back for the events from this one on."""
        client = await self.stage.client()
        client.send("GET", f"{self.path}?from={since}", **headers)
        return client


async def begin(stage: Stage, *texts: str, window: str = "30", **headers: str) -> Show:
    """Let a stream begin, and wait for its headers if its node says something."""
    node = stage.add_node()
    await stage.ready()
    client = await stage.client()
    client.send("POST", CHAT, STREAM, x_roost_reattach_s=window, **headers)
    await until(partial(opened_count, node, 1), what="it runs")
    opened = node.opened[0]
    show = Show(stage, client, node, opened.stream)
    show.path = f"/roost/v1/requests/{opened.request_id}/stream"
    node.say(opened.stream, Started(9, 0, 0))
    if texts:
        show.say(*texts)
        _, show.headers = await client.head()
    return show


def numbered(body: bytes) -> list[tuple[int, str]]:
    """The events of a body with their numbers."""
    found = []
    for block in body.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        if len(lines) == 2:
            found.append((int(lines[0].removeprefix("id: ")), lines[1].removeprefix("data: ")))
    return found


def text_of(events: list[tuple[int, str]]) -> str:
    """The text that chunks carry."""
    chunks = [msgspec.json.decode(data) for _, data in events if data != "[DONE]"]
    return "".join(
        chunk["choices"][0]["delta"].get("content", "") for chunk in chunks if "choices" in chunk
    )


async def test_a_lost_client_comes_back_and_misses_nothing(stage: Stage) -> None:
    """The work goes on meanwhile; the rest comes from the event asked for, then live."""
    show = await begin(stage, "one ", "two ")
    await show.client.reader.readuntil(b"two ")
    assert show.headers is not None
    assert show.headers["x-roost-reattach-s"] == "30"
    await show.lose()
    show.say("three ")
    assert not show.node.cancelled
    # What came so far is the role and two words.
    client = await show.back(since=3)
    status, headers = await client.head()
    assert status == 200
    assert headers["x-roost-request-id"] == show.headers["x-roost-request-id"]
    assert headers["content-type"].startswith("text/event-stream")
    live = await _part(client, 1)
    assert text_of(numbered(live.body)) == "three "
    show.say("four")
    show.end()
    reply = await client.rest()
    whole = await (await show.back(since=0)).reply()
    events = numbered(whole.body)
    assert [number for number, _ in events] == list(range(len(events)))
    assert text_of(events) == "one two three four"
    assert events[-1][1] == "[DONE]"
    assert numbered(live.body) + numbered(reply.body) == events[3:]
    assert reply.clean
    await until(partial(idle, stage), what="everything is released")


async def test_a_browser_comes_back_by_the_last_id_it_has(stage: Stage) -> None:
    """`Last-Event-ID` counts more than an address that still has the first try's `from`."""
    show = await begin(stage, "one ", "two ")
    await show.lose()
    show.end()
    client = await show.back(since=0, last_event_id="1")
    assert numbered((await client.reply()).body)[0][0] == 2


async def test_nobody_comes_back(stage: Stage) -> None:
    """Then it ends as if the client had left at once, and its log is forgotten."""
    show = await begin(stage, "one ", window="0.2")
    await show.lose()
    await until(lambda: bool(show.node.cancelled), what="the node is told")
    show.node.release(show.stream)
    await until(partial(idle, stage), what="everything is free")
    metrics = stage.gateway.metrics
    assert metrics.value("roost_requests_total", "client_disconnect", "openai") == 1
    assert (await (await show.back()).reply()).status == 404


async def test_without_the_header_a_client_that_leaves_cancels(stage: Stage) -> None:
    """Being awaited is asked for; events have no numbers, and the address has no stream."""
    node = stage.add_node()
    await stage.ready()
    client = await stage.client()
    client.send("POST", CHAT, STREAM)
    await until(partial(opened_count, node, 1), what="it runs")
    node.say(node.opened[0].stream, Started(9, 0, 0), Delta("one"))
    _, headers = await client.head()
    assert "x-roost-reattach-s" not in headers
    assert b"id: " not in await client.reader.readuntil(b"one")
    path = f"/roost/v1/requests/{headers['x-roost-request-id']}/stream"
    assert (await ask(stage.port, "GET", path)).status == 404
    client.close()
    await until(lambda: bool(node.cancelled), what="the node is told")


async def test_streams_of_others_do_not_exist() -> None:
    """Not even an operator reads what somebody else is told."""
    async with staged(authorise=by_name) as stage:
        show = await begin(stage, "one", authorization="Bearer ann")
        for who, status in (("bob", 404), ("root", 404), ("ann", 200)):
            client = await show.back(authorization=f"Bearer {who}")
            assert (await client.head())[0] == status


async def test_the_tail_can_be_fetched_after_the_end(stage: Stage) -> None:
    """Also by a client that was sent everything: it may not have arrived."""
    show = await begin(stage, "one ", "two")
    show.end()
    first = await show.client.rest()
    for _ in range(2):
        again = await (await show.back(since=1)).reply()
        assert again.clean
        assert numbered(again.body) == numbered(first.body)[1:]


async def test_what_has_fallen_out_of_the_log_is_gone() -> None:
    """The reader is told where the log begins, and can go on from there."""
    async with staged(limited(ReattachSettings(log_bytes=2000))) as stage:
        show = await begin(stage, "one ")
        await show.lose()
        show.say(*["more "] * 40)
        show.end()
        await until(partial(idle, stage), what="it has ended")
        gone = await (await show.back()).reply()
        error = gone.json()["error"]
        assert isinstance(error, dict)
        assert (gone.status, error["code"]) == (410, "events_gone")
        first = int(str(error["message"]).rstrip(".").split()[-1])
        rest = await (await show.back(since=first)).reply()
        assert numbered(rest.body)[0][0] == first
        assert numbered(rest.body)[-1][1] == "[DONE]"


async def test_a_second_reader_takes_over(stage: Stage) -> None:
    """The first is told so and broken off: it may be a dead connection that looks alive."""
    show = await begin(stage, "one ")
    second = await show.back()
    await second.head()
    first = await show.client.rest()
    assert b"reader_replaced" in first.body
    assert not first.clean
    third = await show.back()
    await third.head()
    show.say("two")
    show.end()
    assert b"reader_replaced" in (await second.rest()).body
    reply = await third.rest()
    assert text_of(numbered(reply.body)) == "one two"
    assert reply.clean
    assert not show.node.cancelled


async def test_a_client_lost_before_the_first_token_is_awaited_too(stage: Stage) -> None:
    """It comes back to a stream that has not begun, and gets all of it."""
    show = await begin(stage)
    await show.lose()
    client = await show.back()
    show.say("one")
    show.end()
    assert text_of(numbered((await client.reply()).body)) == "one"


async def test_a_failure_meanwhile_is_told_to_whoever_comes_back(stage: Stage) -> None:
    """Before the first token with its own status, afterwards by an event and a broken end."""
    show = await begin(stage)
    await show.lose()
    show.say(Failed(Failure("context_length_exceeded", "Too long.")))
    show.node.release(show.stream)
    await until(partial(idle, stage), what="it has ended")
    for _ in range(2):
        assert (await (await show.back()).reply()).status == 400


async def test_a_cut_meanwhile_is_no_clean_end(stage: Stage) -> None:
    """Whoever comes back reads the error event, however late."""
    show = await begin(stage, "one ")
    await show.lose()
    show.say(Failed(Failure("runtime_died", "It died.")))
    show.node.release(show.stream)
    await until(partial(idle, stage), what="it has ended")
    reply = await (await show.back()).reply()
    assert b"runtime_died" in reply.body
    assert not reply.clean


@pytest.mark.parametrize("window", ["0", "-1", "61", "soon", "1e1", ""])
async def test_an_unfit_window_is_refused(stage: Stage, window: str) -> None:
    """A number of seconds above 0 and up to the setting."""
    stage.add_node()
    await stage.ready()
    reply = await ask(stage.port, "POST", CHAT, STREAM, x_roost_reattach_s=window)
    assert reply.status == 400
    assert b"x-roost-reattach-s" in reply.body


async def test_only_streams_can_be_attached_to(stage: Stage) -> None:
    """A whole answer that asks for it is refused, not silently unprotected; so is HEAD."""
    stage.add_node()
    await stage.ready()
    body = {**HELLO, "roost": {"reattach_s": 5}}
    assert (await ask(stage.port, "POST", CHAT, body)).status == 400
    assert (await ask(stage.port, "POST", CHAT, HELLO, x_roost_reattach_s="5")).status == 400


@pytest.mark.parametrize("since", ["x", "-1", "99", ""])
async def test_an_unfit_number_is_refused(stage: Stage, since: str) -> None:
    """What is no number, and what the stream has not come to."""
    show = await begin(stage, "one ")
    assert (await (await show.back(since)).reply()).status == 400
    head = await stage.client()
    head.send("HEAD", show.path)
    assert (await head.head())[0] == 405
    show.say("two")
    await show.client.reader.readuntil(b"two")


async def test_where_there_is_no_room_the_reply_says_so() -> None:
    """It is served all the same, and knows that nobody will wait."""
    async with staged(limited(ReattachSettings(entries=1))) as stage:
        show = await begin(stage, "one ")
        show.node.on_open = lambda opened: show.node.answer(opened, "yes")
        reply = await ask(stage.port, "POST", CHAT, STREAM, x_roost_reattach_s="5")
        assert reply.headers["x-roost-reattach-s"] == "0"
        assert reply.events()[-1] == "[DONE]"
        show.end()
        await show.client.rest()
        reply = await ask(stage.port, "POST", CHAT, STREAM, x_roost_reattach_s="5")
        assert reply.headers["x-roost-reattach-s"] == "5"
        assert (await (await show.back()).reply()).status == 404


async def test_a_key_in_use_tells_where_the_stream_is(stage: Stage) -> None:
    """The twin can attach; once it has ended, the twin gets the same bytes."""
    show = await begin(stage, "one ", idempotency_key="k-1")
    headers = {"x_roost_reattach_s": "30", "idempotency_key": "k-1"}
    twin = await ask(stage.port, "POST", CHAT, STREAM, **headers)
    assert (twin.status, twin.headers["location"]) == (409, show.path)
    show.end()
    first = await show.client.rest()
    again = await ask(stage.port, "POST", CHAT, STREAM, **headers)
    assert again.body == first.body
    assert len(show.node.opened) == 1


async def test_a_reader_that_comes_back_and_does_not_read_is_cut() -> None:
    """As any other: its decode ends, and what it has missed can still be fetched."""
    settings = limited(ReattachSettings(log_bytes=2**24), write_deadline_s=0.3)
    async with staged(settings) as stage:
        show = await begin(stage, "one ")
        await show.lose()
        show.say(*["x" * 20_000] * 10)
        client = await show.back()
        await client.head()
        client.stop_reading()
        show.say(*["y" * 200_000] * 8)
        await until(lambda: bool(show.node.cancelled), what="the node is told")
        show.node.release(show.stream)
        reply = await (await show.back()).reply()
        events = numbered(reply.body)
        assert [number for number, _ in events] == list(range(len(events)))
        assert "write_timeout" in events[-1][1]
        assert not reply.clean
        metrics = stage.gateway.metrics
        assert metrics.value("roost_requests_total", "write_timeout", "openai") == 1


async def test_a_gateway_that_drains_waits_for_nobody(stage: Stage) -> None:
    """Who was lost could not come back to it."""
    show = await begin(stage, "one ")
    await show.lose()
    assert await stage.gateway.drain(grace_s=1.0)
    await until(lambda: bool(show.node.cancelled), what="the node is told")


@pytest.mark.parametrize("seed", range(3))
async def test_any_losses_at_any_moment_leave_no_gap(stage: Stage, seed: int) -> None:
    """Whatever was lost on the way is asked for again: all events once, in order, to the end."""
    dice = random.Random(seed)
    words = [f"{number} " for number in range(60)]
    show = await begin(stage, words[0])
    asked = asyncio.create_task(_read(show, dice))
    for word in words[1:]:
        show.say(word)
        await asyncio.wait({asked}, timeout=dice.random() * 0.004)
    show.end()
    events = await asked
    assert [number for number, _ in events] == list(range(len(events)))
    assert text_of(events) == "".join(words)
    assert events[-1][1] == "[DONE]"
    assert not show.node.cancelled
    assert stage.gateway.metrics.value("roost_reattach_total", "resumed") > 1


async def _read(show: Show, dice: random.Random) -> list[tuple[int, str]]:
    """Read a stream to its end, over as many connections as it takes."""
    client, events = show.client, list[tuple[int, str]]()
    while not events or events[-1][1] != "[DONE]":
        part = await _part(client, dice.randrange(1, 12))
        events += numbered(part.body)
        client.close()
        client = await show.back(since=events[-1][0] + 1 if events else 0)
        await client.head()
    return events


async def _part(client: Client, chunks: int) -> Reply:
    """Read so many chunks, or to the end."""
    reply = Reply(0, {}, b"", clean=False)
    for _ in range(chunks):
        size = int((await client.reader.readuntil(b"\r\n")).strip(), 16)
        reply.body += (await client.reader.readexactly(size + 2))[:-2]
        if size == 0 or b"[DONE]" in reply.body:
            break
    return reply
