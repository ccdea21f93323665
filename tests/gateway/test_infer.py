"""POST /coordinator/infer over real sockets: turns, their past, their order, their endings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import cast

import msgspec
import pytest

from roost.core.events import Delta, Failed, Started
from roost.core.request import ChatPrompt
from roost.errors import Failure
from roost.fleet.conversations.registry import ConversationSettings
from roost.fleet.streams.relay import RelaySettings
from roost.gateway.conversations.infer import InferSettings
from roost.store.conversations.journal import Journal, JournalSettings
from roost.wire.messages import Open
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Client, Reply, Stage, ask, staged
from tests.gateway.puppet import MODEL, Puppet

PATH = "/coordinator/infer"
RELAY = RelaySettings(keepalive_s=0.2, sealed=True)


def turn(prompt: str, conversation: str = "c1", **more: object) -> dict[str, object]:
    """A body."""
    return {
        "conversation_id": conversation,
        "prompt": prompt,
        "model": MODEL,
        "max_tokens": 50,
        **more,
    }


def infer(settings: InferSettings) -> InferSettings:
    """Settings of these tests."""
    return msgspec.structs.replace(settings, relay=RELAY)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A gateway that keeps conversations in memory."""
    settings = msgspec.structs.replace(SETTINGS, infer=infer(InferSettings()))
    async with staged(settings, journal=Journal(None, JournalSettings())) as made:
        yield made


def events(reply: Reply) -> list[dict[str, object]]:
    """The events of a reply."""
    return [msgspec.json.decode(event) for event in reply.events()]


def texts(opened: Open) -> list[str]:
    """What a node was asked to go on with."""
    prompt = opened.request.prompt
    assert isinstance(prompt, ChatPrompt)
    return [f"{message.role}: {message.content}" for message in prompt.messages]


def saying(node: Puppet, *pieces: str) -> Callable[[Open], None]:
    """Let a puppet answer everything like this."""
    return lambda opened: node.answer(opened, *pieces, cached=8)


def waiting(stage: Stage) -> int:
    """How many turns wait for the one before."""
    return stage.gateway.infer.conversations.counts().waiting


def waits(stage: Stage, count: int) -> Callable[[], bool]:
    """Whether so many turns wait."""
    return lambda: waiting(stage) == count


def ran(node: Puppet, count: int) -> Callable[[], bool]:
    """Whether a node was given so many turns."""
    return lambda: len(node.opened) == count


def joined(stage: Stage, count: int) -> Callable[[], bool]:
    """Whether so many nodes are there."""
    return lambda: len(stage.gateway.mind.coordinator.statistics().in_flight) == count


async def test_a_turn_is_answered_in_the_words_of_system_1(stage: Stage) -> None:
    """Tokens are numbered from 0, and a last event tells the end and how it was served."""
    node = stage.add_node()
    node.on_open = saying(node, "Hel", "lo")
    await stage.ready()
    reply = await ask(stage.port, "POST", PATH, turn("hi"))
    assert reply.status == 200
    assert reply.clean
    assert reply.headers["content-type"].startswith("text/event-stream")
    assert reply.headers["cache-control"] == "no-cache"
    *tokens, last = events(reply)
    assert tokens == [{"token": "Hel", "seq": 0}, {"token": "lo", "seq": 1}]
    roost = cast("dict[str, object]", last.pop("roost"))
    assert last == {"finished": True, "reason": "stop", "seq": 2}
    assert roost["node"] == "n1"
    assert node.opened[0].request.max_tokens == 50


async def test_the_next_turn_brings_the_whole_past_to_its_home(stage: Stage) -> None:
    """A client sends one turn; the node gets the conversation, and the same node gets it."""
    nodes = [stage.add_node(name) for name in ("a", "b", "c")]
    for node in nodes:
        node.on_open = saying(node, "Fine", ", thanks")
    await until(joined(stage, 3), what="all joined")
    first = await ask(stage.port, "POST", PATH, turn("How are you?"))
    for number in range(4):
        again = await ask(stage.port, "POST", PATH, turn(f"And now {number}?"))
        assert again.headers["x-roost-node"] == first.headers["x-roost-node"]
        assert again.headers["x-roost-placement"] == "warm"
    home = next(node for node in nodes if node.opened)
    assert texts(home.opened[1]) == [
        "user: How are you?",
        "assistant: Fine, thanks",
        "user: And now 0?",
    ]
    assert len(texts(home.opened[4])) == 9
    other = await ask(stage.port, "POST", PATH, turn("How are you?", "another"))
    assert other.status == 200
    begun = [texts(opened) for node in nodes for opened in node.opened]
    assert begun.count(["user: How are you?"]) == 2


@pytest.mark.parametrize("name", ["conversation_id", "prompt", "model", "max_tokens"])
async def test_missing_and_empty_fields_are_400(stage: Stage, name: str) -> None:
    """Every field is needed, and an empty one is as good as none."""
    body = turn("hi")
    for wrong in ("", None, 0):
        reply = await ask(stage.port, "POST", PATH, {**body, name: wrong})
        assert reply.status == 400
        told = reply.json()
        assert isinstance(told["error"], str)
        assert told["param"] == name
        assert told["request_id"] == reply.headers["x-roost-request-id"]
    del body[name]
    assert (await ask(stage.port, "POST", PATH, body)).status == 400


async def test_no_worker_is_503_with_the_reason(stage: Stage) -> None:
    """Nobody there is told apart from nobody healthy, and the turn is not in the past."""
    reply = await ask(stage.port, "POST", PATH, turn("lost words"))
    assert reply.status == 503
    told = reply.json()
    assert (told["error"], told["reason"]) == ("System at capacity", "no_workers")
    assert 1 <= int(reply.headers["retry-after"]) <= 120
    node = stage.add_node()
    node.on_open = saying(node, "here")
    await stage.ready()
    await ask(stage.port, "POST", PATH, turn("found words"))
    assert texts(node.opened[0]) == ["user: found words"]


@pytest.mark.parametrize("legacy", [False, True])
async def test_overload_is_429_or_as_system_1_had_it(legacy: bool) -> None:
    """Full is 429 with a reason and a time; the switch makes 503 of it, at this address alone."""
    fleet = msgspec.structs.replace(SETTINGS.fleet, queue_length=0)
    settings = msgspec.structs.replace(
        SETTINGS, fleet=fleet, infer=infer(InferSettings(legacy_503=legacy))
    )
    async with staged(settings) as stage:
        node = stage.add_node(slots=1)
        await stage.ready()
        client = await stage.client()
        client.send("POST", PATH, turn("hi"))
        await until(lambda: bool(node.opened), what="the first is served")
        reply = await ask(stage.port, "POST", PATH, turn("hi", "c2"))
        assert reply.status == (503 if legacy else 429)
        assert reply.json()["reason"] == "all_workers_at_capacity"
        assert "retry-after" in reply.headers
        body = {"model": MODEL, "messages": [{"role": "user", "content": "x"}]}
        assert (await ask(stage.port, "POST", "/v1/chat/completions", body)).status == 429


async def test_failed_attempts_are_502_with_who_was_tried(stage: Stage) -> None:
    """Where every prefill fails, the client learns of each node, and the turn is not kept."""
    died = Failure("runtime_error", "the runtime said so")
    nodes = [stage.add_node(name) for name in ("a", "b")]
    await until(joined(stage, 2), what="both joined")

    def die(node: Puppet, opened: Open) -> None:
        node.say(opened.stream, Failed(died))
        node.release(opened.stream)

    for node in nodes:
        node.on_open = partial(die, node)
    reply = await ask(stage.port, "POST", PATH, turn("hi"))
    assert reply.status == 502
    told = reply.json()
    assert told["reason"] == "runtime_error"
    assert sorted(cast("list[str]", told["tried"])) == ["a", "b"]
    for node in nodes:
        node.on_open = saying(node, "ok")
    await ask(stage.port, "POST", PATH, turn("again"))
    asked = [texts(opened) for node in nodes for opened in node.opened]
    assert sorted(asked) == [["user: again"], ["user: hi"], ["user: hi"]]


async def test_overlapping_turns_run_in_order_and_know_each_other(stage: Stage) -> None:
    """Turns sent at once run one after the other, each with the answers of those before it."""
    node = stage.add_node(slots=4)
    await stage.ready()
    clients = [await stage.client() for _ in range(3)]
    for number, client in enumerate(clients):
        client.send("POST", PATH, turn(f"q{number}"))
        await until(waits(stage, number), what="it waits")
    await until(lambda: len(node.opened) == 1, what="the first runs")
    for number, client in enumerate(clients):
        await until(ran(node, number + 1), what="its turn")
        node.answer(node.opened[number], f"a{number}")
        assert events(await client.reply())[0] == {"token": f"a{number}", "seq": 0}
    assert texts(node.opened[2]) == [
        *("user: q0", "assistant: a0", "user: q1", "assistant: a1", "user: q2"),
    ]


async def test_too_many_turns_at_once_are_refused() -> None:
    """The line behind a turn is bounded."""
    conversations = ConversationSettings(waiting=1)
    settings = msgspec.structs.replace(
        SETTINGS, infer=infer(InferSettings(conversations=conversations))
    )
    async with staged(settings, journal=Journal(None, JournalSettings())) as stage:
        node = stage.add_node()
        await stage.ready()
        for number in range(2):
            client = await stage.client()
            client.send("POST", PATH, turn(f"q{number}"))
            await until(waits(stage, number), what="it waits")
        reply = await ask(stage.port, "POST", PATH, turn("q2"))
        assert (reply.status, reply.json()["reason"]) == (429, "conversation_busy")
        assert "retry-after" in reply.headers
        await until(lambda: len(node.opened) == 1, what="only the first runs")


async def test_who_leaves_while_it_waits_holds_up_nobody(stage: Stage) -> None:
    """A client gone from the line, or in mid-answer, lets the next turn begin."""
    node = stage.add_node(slots=4)
    await stage.ready()
    clients = [await stage.client() for _ in range(3)]
    for number, client in enumerate(clients):
        client.send("POST", PATH, turn(f"q{number}"))
        await until(waits(stage, number), what="it waits")
    clients[1].close()
    await until(lambda: waiting(stage) == 1, what="it is out of the line")
    await until(lambda: len(node.opened) == 1, what="the first runs")
    node.say(node.opened[0].stream, Started(5, 0, 0), Delta("half an"))
    await clients[0].reader.readuntil(b"half an")
    clients[0].close()
    await until(lambda: bool(node.cancelled), what="the node hears of it")
    # Its KV is in a place that is still being given back: the next turn is for that place.
    assert len(node.opened) == 1
    node.release(node.opened[0].stream, 0.01)
    await until(lambda: len(node.opened) == 2, what="the third runs")
    assert texts(node.opened[1]) == ["user: q0", "assistant: half an", "user: q2"]
    node.answer(node.opened[1], "whole")
    assert events(await clients[2].reply())[-1]["reason"] == "stop"


async def test_a_cut_answer_ends_in_one_error_event_and_is_remembered(stage: Stage) -> None:
    """What reached the client is part of the conversation; the error says what was lost."""
    node = stage.add_node()
    await stage.ready()
    client = await stage.client()
    client.send("POST", PATH, turn("q"))
    await until(lambda: bool(node.opened), what="it runs")
    node.say(node.opened[0].stream, Started(5, 0, 0), Delta("one"), Delta(" two"))
    node.say(node.opened[0].stream, Failed(Failure("runtime_died", "gone")))
    node.release(node.opened[0].stream)
    reply = await client.reply()
    assert not reply.clean
    last = events(reply)[-1]
    assert last.pop("roost", None) is None
    assert last == {
        "error": "Worker decode failed",
        "code": "runtime_died",
        "finished": True,
        "reason": "error",
        "seq": len(events(reply)) - 1,
    }
    node.on_open = saying(node, "ok")
    await ask(stage.port, "POST", PATH, turn("and?"))
    assert texts(node.opened[1]) == ["user: q", "assistant: one two", "user: and?"]


async def test_a_prompt_too_long_is_413_alone_and_409_with_its_past(stage: Stage) -> None:
    """Only where a new conversation would help is it said to be full."""
    node = stage.add_node()
    await stage.ready()
    too_long = Failure("context_length_exceeded", "prompt is too long: 600 tokens > 512 maximum")
    node.on_open = lambda opened: node.refuse(opened.stream, too_long)
    alone = await ask(stage.port, "POST", PATH, turn("x" * 3000))
    assert (alone.status, alone.json()["reason"]) == (413, "prompt_too_long")
    node.on_open = saying(node, "ok")
    await ask(stage.port, "POST", PATH, turn("hello there"))
    node.on_open = lambda opened: node.refuse(opened.stream, too_long)
    later = await ask(stage.port, "POST", PATH, turn("short"))
    assert (later.status, later.json()["reason"]) == (409, "session_full")
    huge = await ask(stage.port, "POST", PATH, turn("x" * 3000))
    assert (huge.status, huge.json()["reason"]) == (413, "prompt_too_long")


async def test_a_place_that_is_not_given_back_is_not_waited_for_long() -> None:
    """A node that does not answer a cancel holds up the next turn for a moment only."""
    settings = msgspec.structs.replace(SETTINGS, infer=infer(InferSettings(release_wait_s=0.05)))
    async with staged(settings, journal=Journal(None, JournalSettings())) as stage:
        node = stage.add_node()
        await stage.ready()
        clients = [await stage.client() for _ in range(2)]
        for number, client in enumerate(clients):
            client.send("POST", PATH, turn(f"q{number}"))
            await until(waits(stage, number), what="it waits")
        await until(ran(node, 1), what="the first runs")
        clients[0].close()
        await until(ran(node, 2), what="the next one runs all the same")


async def test_a_turn_that_waits_is_cancelled_by_its_id(stage: Stage) -> None:
    """A request can be stopped before the coordinator has heard of it."""
    node = stage.add_node()
    await stage.ready()
    clients = [await stage.client() for _ in range(2)]
    for number, client in enumerate(clients):
        client.send("POST", PATH, turn(f"q{number}"))
        await until(waits(stage, number), what="it waits")
    await until(ran(node, 1), what="the first runs")
    waiting_one = next(r for r in stage.gateway.mind.turns if r != node.opened[0].request_id)
    reply = await ask(stage.port, "DELETE", f"/roost/v1/requests/{waiting_one}")
    assert reply.status == 202
    stopped = await clients[1].reply()
    assert (stopped.status, stopped.json()["reason"]) == (499, "cancelled")
    assert waiting(stage) == 0


async def test_what_becomes_of_a_loss_is_passed_on(stage: Stage) -> None:
    """`on_loss: replay` counts here too: the node is asked for what going on needs."""
    node = stage.add_node("a")
    await stage.ready()
    client = await stage.client()
    client.send("POST", PATH, turn("q", roost={"on_loss": "replay"}))
    await until(ran(node, 1), what="it runs")
    assert node.opened[0].request.return_tokens
    client.close()


async def test_a_deadline_counts_the_wait_for_the_turn_before(stage: Stage) -> None:
    """A client's own time runs from arrival, also behind another turn."""
    node = stage.add_node()
    await stage.ready()
    client = await stage.client()
    client.send("POST", PATH, turn("q0"))
    await until(lambda: len(node.opened) == 1, what="the first runs")
    late = await ask(stage.port, "POST", PATH, turn("q1", roost={"timeout_ms": 50}))
    assert (late.status, late.json()["reason"]) == (504, "deadline")
    assert waiting(stage) == 0
    client.close()


async def test_two_tenants_with_one_name_do_not_meet(stage: Stage) -> None:
    """A conversation belongs to whoever pays for it."""
    node = stage.add_node()
    node.on_open = saying(node, "ok")
    await stage.ready()
    await ask(stage.port, "POST", PATH, turn("my secret"))
    # Another address is another tenant while there are no keys; loopback has many.
    client = await Client.connect_from(stage.port, "127.0.0.2")
    client.send("POST", PATH, turn("what did I say?"))
    await client.reply()
    client.close()
    assert texts(node.opened[1]) == ["user: what did I say?"]


async def test_prompts_are_in_no_log(stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither question nor answer is ever written to a log."""
    node = stage.add_node()
    node.on_open = saying(node, "CANARY-ANSWER")
    await stage.ready()
    reply = await ask(stage.port, "POST", PATH, turn("CANARY-PROMPT", unknown_field=1))
    assert b"CANARY-ANSWER" in reply.body
    said = "".join(capfd.readouterr())
    assert "CANARY" not in said


@pytest.mark.parametrize("way", ["explode", 1, None, ["pause"], {"pause": True}])
async def test_asking_for_a_way_that_does_not_exist_is_400(stage: Stage, way: object) -> None:
    """`roost.on_full` knows two words."""
    reply = await ask(stage.port, "POST", PATH, turn("q", roost={"on_full": way}))
    assert (reply.status, reply.json()["param"]) == (400, "roost.on_full")
