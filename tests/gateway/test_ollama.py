"""Ollama's API over real sockets: lines, errors in its shape, and how long models stay."""

from __future__ import annotations

import json

import msgspec
import pytest

from roost.core.events import Delta, Finished, Started, Usage
from roost.core.ids import ModelId
from roost.core.request import ChatPrompt, TextPrompt
from roost.core.snapshots import NodeStatus
from roost.errors import Failure
from roost.gateway.desk.staying import UNLOAD_WAIT_S
from roost.gateway.front.access import Principal
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Reply, Stage, ask, staged
from tests.gateway.puppet import MODEL, Puppet, status

CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}
ADMIN = Principal(role="admin")


def lines(reply: Reply) -> list[dict[str, object]]:
    """Parse a stream of lines."""
    assert reply.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in reply.body.decode().splitlines()]


def text_of(told: list[dict[str, object]]) -> str:
    """Put a chat's text together."""
    return "".join(msgspec.convert(one["message"], dict[str, str])["content"] for one in told)


async def test_a_chat_whole_and_in_lines_is_the_same(stage: Stage) -> None:
    """A stream is what comes unasked; both say how long each part took, in nanoseconds."""
    node = stage.add_node()
    node.on_open = lambda opened: node.answer(opened, "He", "llo", cached=4)
    await stage.ready()
    whole = await ask(stage.port, "POST", "/api/chat", {**CHAT, "stream": False})
    streamed = await ask(stage.port, "POST", "/api/chat", CHAT)
    body, told = whole.json(), lines(streamed)
    assert (whole.status, streamed.status) == (200, 200)
    assert body["message"] == {"role": "assistant", "content": "Hello"}
    assert text_of(told) == "Hello"
    assert [one["done"] for one in told] == [False] * (len(told) - 1) + [True]
    for end in (body, told[-1]):
        assert (end["done_reason"], end["prompt_eval_count"], end["eval_count"]) == ("stop", 9, 2)
        spans = [msgspec.convert(end[f"{name}_duration"], int) for name in ("load", "prompt_eval")]
        spans.append(msgspec.convert(end["eval_duration"], int))
        assert all(span >= 0 for span in spans)
        assert sum(spans) == pytest.approx(end["total_duration"], abs=10)
        assert msgspec.convert(end["roost"], dict[str, object])["node"] == "n1"


async def test_a_prompt_and_a_tag_that_clients_add(stage: Stage) -> None:
    """/api/generate answers by `response`; `:latest` is no part of the name."""
    node = stage.add_node(models=(ModelId("tiny"),))
    node.on_open = lambda opened: node.answer(opened, "yes")
    await stage.ready()
    asked = {"model": "tiny:latest", "prompt": "Is it?", "raw": True, "stream": False}
    reply = await ask(stage.port, "POST", "/api/generate", asked)
    assert (reply.status, reply.json()["response"]) == (200, "yes")
    assert node.opened[0].request.prompt == TextPrompt("Is it?")
    assert node.opened[0].request.model == "tiny"


async def test_a_stream_that_is_killed_is_never_done(stage: Stage) -> None:
    """Its last line is the error, and the connection does not end cleanly."""
    node = stage.add_node()
    await stage.ready()
    client = await stage.client()
    client.send("POST", "/api/chat", CHAT)
    await until(lambda: bool(node.opened), what="the request reaches the node")
    node.say(node.opened[0].stream, Started(5, 0, 0), Delta("half"))
    node.leave()
    reply = await client.reply()
    told = lines(reply)
    assert not reply.clean
    assert list(told[-1]) == ["error"]
    assert not any(one.get("done") for one in told)
    client.close()


async def test_who_waits_gets_lines_that_say_nothing() -> None:
    """Every line is an object, the signs of life too, since nothing else can be read here."""
    relay = msgspec.structs.replace(
        SETTINGS.generation.relay, commit_after_s=0.05, keepalive_s=0.05
    )
    generation = msgspec.structs.replace(SETTINGS.generation, relay=relay)
    async with staged(msgspec.structs.replace(SETTINGS, generation=generation)) as stage:
        node = stage.add_node()
        await stage.ready()
        client = await stage.client()
        client.send("POST", "/api/chat", CHAT)
        await client.head()
        await client.reader.readuntil(b'"done":false}\n\r\n')
        opened = node.opened[0]
        usage = Usage(5, 0, 1)
        node.say(opened.stream, Started(5, 0, 0), Delta("at last"), Finished("stop", usage))
        node.release(opened.stream)
        rest = (await client.rest()).body.decode().splitlines()
        assert text_of([json.loads(line) for line in rest]) == "at last"


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("POST", "/api/chat", {**CHAT, "model": "nope"}, 404),
        ("POST", "/api/show", {"model": "nope"}, 404),
        ("POST", "/api/show", {}, 400),
        ("POST", "/api/chat", {**CHAT, "think": "a lot"}, 400),
        ("POST", "/api/pull", {"model": "x"}, 404),
        ("DELETE", "/api/chat", None, 405),
        ("POST", "/api/chat", b"{", 400),
        ("POST", "/api//generate/", {"prompt": 1}, 400),
    ],
)
async def test_errors_are_a_text_under_error(
    stage: Stage, method: str, path: str, body: object, code: int
) -> None:
    """Whoever finds the mistake, also for addresses that are not offered."""
    stage.add_node()
    await stage.ready()
    reply = await ask(stage.port, method, path, body)
    found = reply.json()
    assert (reply.status, list(found)) == (code, ["error"])
    assert isinstance(found["error"], str)


async def test_a_stream_cannot_be_attached_to_again(stage: Stage) -> None:
    """Its lines have no numbers, and whoever asks for that is told."""
    stage.add_node()
    await stage.ready()
    reply = await ask(stage.port, "POST", "/api/chat", CHAT, x_roost_reattach_s="5")
    assert (reply.status, list(reply.json())) == (400, ["error"])


async def test_models_and_what_is_loaded(stage: Stage) -> None:
    """As all of a fleet's nodes have it."""
    stage.add_node("a", models=(MODEL,))
    stage.add_node("b", models=(MODEL, ModelId("other")))
    await until(lambda: len(stage.gateway.mind.coordinator.models()) == 2, what="both are there")
    tags = (await ask(stage.port, "GET", "/api/tags")).json()["models"]
    assert [one["name"] for one in msgspec.convert(tags, list[dict[str, object]])] == [
        "other",
        MODEL,
    ]
    running = (await ask(stage.port, "GET", "/api/ps")).json()["models"]
    assert len(msgspec.convert(running, list[dict[str, object]])) == 2
    shown = await ask(stage.port, "POST", "/api/show", {"model": MODEL})
    assert shown.json()["capabilities"] == ["completion", "tools"]
    version = (await ask(stage.port, "GET", "/api/version")).json()
    assert set(version) == {"version", "roost"}


def taking_orders(**runtime: object) -> NodeStatus:
    """The report of a node that takes orders; its runtime is as given."""
    report = status()
    [view] = report.runtimes
    view = msgspec.structs.replace(view, **runtime)
    return msgspec.structs.replace(report, orders=(), runtimes=(view,))


async def ordered(node: Puppet, count: int) -> list[tuple[str, float, float | None]]:
    """Wait for so many orders, and return what each wants."""
    await until(lambda: len(node.orders) >= count, what=f"{count} orders")
    assert all(order.model == MODEL and not order.force for order in node.orders)
    return [(order.what, order.wait_s, order.keep_s) for order in node.orders]


async def joined(stage: Stage, report: NodeStatus) -> Puppet:
    """Add a node with this report that answers everybody."""
    node = stage.add_node()
    node.report_with(report)
    node.on_open = lambda opened: node.answer(opened, "ok")
    await stage.ready()
    return node


async def test_keep_alive_is_told_to_the_nodes() -> None:
    """A time, for ever, and until now; the same wish is passed on once."""
    async with staged(authorise=lambda _: ADMIN) as stage:
        node = await joined(stage, taking_orders())
        for keep_alive in ("5m", "5m", 300, -1, 0):
            asked = {**CHAT, "stream": False, "keep_alive": keep_alive}
            assert (await ask(stage.port, "POST", "/api/chat", asked)).status == 200
        assert await ordered(node, 4) == [
            ("unpin", 0.0, 300.0),
            ("pin", 0.0, None),
            ("unpin", 0.0, None),
            ("unload", UNLOAD_WAIT_S, None),
        ]


async def test_a_model_is_loaded_and_unloaded_by_requests_without_words() -> None:
    """Nothing is said; whatever pin there may be is taken off before it is unloaded."""
    async with staged(authorise=lambda _: ADMIN) as stage:
        node = await joined(stage, taking_orders())
        loads = await ask(stage.port, "POST", "/api/chat", {"model": MODEL, "stream": False})
        assert (loads.json()["done_reason"], loads.json()["done"]) == ("load", True)
        assert loads.json()["message"] == {"role": "assistant", "content": ""}
        assert node.opened[0].request.max_tokens == 1
        gone = await ask(stage.port, "POST", "/api/generate", {"model": MODEL, "keep_alive": 0})
        assert [one["done_reason"] for one in lines(gone)] == ["unload"]
        assert await ordered(node, 2) == [
            ("unpin", 0.0, None),
            ("unload", UNLOAD_WAIT_S, None),
        ]
        unknown = {"model": "nope", "keep_alive": 0}
        assert (await ask(stage.port, "POST", "/api/generate", unknown)).status == 404
        assert len(node.opened) == 1


async def test_nodes_keep_what_their_operators_want(stage: Stage) -> None:
    """Without a key of the role admin a wish has no effect, and unloading is refused."""
    node = await joined(stage, taking_orders())
    asked = {**CHAT, "stream": False, "keep_alive": 0}
    assert (await ask(stage.port, "POST", "/api/chat", asked)).status == 200
    refused = await ask(stage.port, "POST", "/api/chat", {"model": MODEL, "keep_alive": 0})
    assert refused.status == 403
    assert "roost keys add" in str(refused.json()["error"])
    assert node.orders == []


async def test_a_wish_of_a_request_that_failed_is_not_carried_out() -> None:
    """Nobody had an answer of the model."""
    async with staged(authorise=lambda _: ADMIN) as stage:
        node = await joined(stage, taking_orders())
        node.on_open = lambda opened: node.refuse(opened.stream, Failure("bad_request", "no"))
        asked = {**CHAT, "stream": False, "keep_alive": -1}
        assert (await ask(stage.port, "POST", "/api/chat", asked)).status == 400
        node.on_open = lambda opened: node.answer(opened, "ok")
        asked["keep_alive"] = 60
        assert (await ask(stage.port, "POST", "/api/chat", asked)).status == 200
        assert await ordered(node, 1) == [("unpin", 0.0, 60.0)]


@pytest.mark.parametrize("state", ["absent", "loading"])
async def test_a_wish_is_not_for_nodes_without_the_model(state: str) -> None:
    """Who only tells of it hears nothing, and would keep it for ever the next time it is there."""
    async with staged(authorise=lambda _: ADMIN) as stage:
        node = await joined(stage, taking_orders(state=state))
        asked = {**CHAT, "stream": False, "keep_alive": -1}
        assert (await ask(stage.port, "POST", "/api/chat", asked)).status == 200
        node.report(taking_orders())
        asked["keep_alive"] = 60
        assert (await ask(stage.port, "POST", "/api/chat", asked)).status == 200
        assert await ordered(node, 1) == [("unpin", 0.0, 60.0)]


async def test_a_chat_is_trimmed_where_that_is_asked_for(stage: Stage) -> None:
    """By `truncate`; nothing is left out of one that does not say it."""
    node = await joined(stage, status())
    for fields in ({"truncate": True}, {"truncate": False}, {}):
        await ask(stage.port, "POST", "/api/chat", {**CHAT, **fields, "stream": False})
    prompts = [opened.request.prompt for opened in node.opened]
    assert [isinstance(one, ChatPrompt) and one.trims for one in prompts] == [True, False, False]
