"""What becomes of a request when its node is lost, and how attempts are told apart."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from roost.core.events import Delta, Failed, Finished, Started, Usage
from roost.core.fence import Epoch, Fence
from roost.core.request import ChatPrompt, Continuation
from roost.errors import Failure
from roost.gateway.conversations.infer import InferSettings
from roost.store.conversations.journal import Journal, JournalSettings
from roost.wire.messages import Open
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Stage, ask, staged
from tests.gateway.puppet import MODEL, Puppet, status

DIED = Failure("runtime_died", "The runtime died.")
HELLO = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}


async def test_every_attempt_is_fenced_off_from_the_one_before() -> None:
    """Under the request's id, with this start of the gateway and a number that rises."""
    async with staged() as stage:
        one, two = stage.add_node("n1"), stage.add_node("n2")

        def serve(opened: Open) -> None:
            node, other = (one, two) if opened in one.opened else (two, one)
            if other.opened:
                node.answer(opened, "ok")
            else:
                node.refuse(opened.stream, Failure("runtime_died", "The runtime died."))

        one.on_open = two.on_open = serve
        await stage.ready()
        reply = await ask(stage.port, "POST", "/v1/chat/completions", HELLO)
        assert reply.status == 200
        life = SETTINGS.link.life
        fences = [message.fence for message in (*one.opened, *two.opened) if message.fence]
        assert sorted(fences, key=lambda fence: fence.epoch) == [
            Fence(fences[0].key, Epoch(life.generation, counter, life.gateway))
            for counter in (1, 2)
        ]
        assert fences[0].key == reply.headers["x-roost-request-id"]


async def test_whoever_was_fenced_off_hears_so_and_is_not_tried_elsewhere(stage: Stage) -> None:
    """Somebody newer has the work: another attempt would contradict it."""
    nodes = [stage.add_node("n1"), stage.add_node("n2")]
    for node in nodes:
        node.on_open = lambda opened, node=node: node.refuse(
            opened.stream, Failure("fenced", "Taken over.")
        )
    await until(lambda: len(stage.gateway.mind.links) == 2, what="both nodes are there")
    await stage.ready()
    reply = await ask(stage.port, "POST", "/v1/chat/completions", HELLO)
    assert reply.status == 409
    assert "Taken over." in msgspec.json.encode(reply.json()).decode()
    assert sum(len(node.opened) for node in nodes) == 1


def twins(stage: Stage, *weights: str) -> list[Puppet]:
    """Let nodes join that say which weights they have."""
    nodes = [stage.add_node(f"n{n}") for n in range(1, len(weights) + 1)]
    for node, one in zip(nodes, weights, strict=True):
        before = status()
        offers = tuple(msgspec.structs.replace(offer, digest=one) for offer in before.models)
        node.report_with(msgspec.structs.replace(before, models=offers))
    return nodes


def dies_then_goes_on(nodes: list[Puppet]) -> None:
    """Whoever is asked first dies after "Hel"; whoever is asked to go on says the rest."""

    def serve(node: Puppet, opened: Open) -> None:
        begun = opened.request.continuation
        if begun is None:
            node.say(opened.stream, Started(9, 4, 0))
            node.say(opened.stream, Delta("He", 2, ids=(5, 6)), Delta("l", 1, ids=(7,)))
            node.say(opened.stream, Failed(DIED, Usage(9, 4, 3)))
            # It has no runtime of the model any more, and makes no other.
            node.report(status(models=()))
        else:
            node.say(opened.stream, Started(9 + len(begun.tokens), 8, 0))
            node.say(opened.stream, Delta("lo", 1, ids=(8,)))
            usage = Usage(9 + len(begun.tokens), 8, 1)
            node.say(opened.stream, Finished("stop", usage))
        node.release(opened.stream)

    for node in nodes:
        node.on_open = lambda opened, node=node: serve(node, opened)


async def ready(stage: Stage, count: int) -> None:
    """Wait until so many nodes have reported."""
    coordinator = stage.gateway.mind.coordinator
    await until(
        lambda: (
            sum(bool(view.models and view.models[0].digest) for view in coordinator.fleet())
            == count
        ),
        what="every node has reported",
    )


async def test_a_stream_goes_on_elsewhere_and_says_so(stage: Stage) -> None:
    """The text is whole, usage is one answer's, and comment, last chunk and receipt tell."""
    nodes = twins(stage, "w", "w")
    dies_then_goes_on(nodes)
    await ready(stage, 2)
    body = {**HELLO, "stream": True, "stream_options": {"include_usage": True}}
    headers = {"x_roost_on_loss": "replay"}
    reply = await ask(stage.port, "POST", "/v1/chat/completions", body, **headers)
    assert (reply.status, reply.clean) == (200, True)
    events = reply.events()
    assert events[-1] == "[DONE]"
    chunks = [msgspec.json.decode(event) for event in events[:-1]]
    pieces = [c["choices"][0]["delta"].get("content", "") for c in chunks if c["choices"]]
    assert "".join(pieces) == "Hello"
    before, comment, after = reply.body.decode().partition(
        ": replayed after runtime_died at token 3\n"
    )
    assert comment
    assert '"lo"' in after
    assert '"lo"' not in before
    usage, facts = chunks[-1]["usage"], chunks[-1]["roost"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (9, 4)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 4
    assert (facts["replays"], facts["replayed_at"], facts["replayed_after"]) == (
        *(1, 3),
        "runtime_died",
    )
    first, second = (
        [opened for node in nodes for opened in node.opened if opened.fence]
        if (nodes[0].opened[0].request.continuation is None)
        else [opened for node in reversed(nodes) for opened in node.opened]
    )
    assert first.request.return_tokens
    assert second.request.continuation == Continuation((5, 6, 7), "w")
    path = f"/roost/v1/requests/{reply.headers['x-roost-request-id']}"
    receipt = (await ask(stage.port, "GET", path)).json()
    attempts = msgspec.convert(receipt["attempts"], list[dict[str, object]])
    assert [one["resumes_at"] for one in attempts] == [0, 3]
    assert receipt["completion_tokens"] == 4


async def test_a_node_that_refuses_to_go_on_is_not_told_of(stage: Stage) -> None:
    """Comment, last chunk, metric and receipt count the one that did."""
    nodes = twins(stage, "w", "w", "w")
    dies_then_goes_on(nodes)
    refused: list[Puppet] = []
    for node in nodes:

        def serve(
            opened: Open, node: Puppet = node, go_on: Callable[[Open], None] | None = node.on_open
        ) -> None:
            if opened.request.continuation is not None and not refused:
                refused.append(node)
                node.refuse(opened.stream, Failure("node_busy", "full", retry_after_s=1))
            elif go_on is not None:
                go_on(opened)

        node.on_open = serve
    await ready(stage, 3)
    body = {**HELLO, "stream": True}
    headers = {"x_roost_on_loss": "replay"}
    reply = await ask(stage.port, "POST", "/v1/chat/completions", body, **headers)
    assert (reply.status, reply.clean, len(refused)) == (200, True, 1)
    assert reply.body.count(b": replayed after runtime_died at token 3\n") == 1
    assert msgspec.json.decode(reply.events()[-2])["roost"]["replays"] == 1
    metrics = stage.gateway.mind.metrics
    assert metrics.value("roost_replays_total", "runtime_died") == 1
    path = f"/roost/v1/requests/{reply.headers['x-roost-request-id']}"
    receipt = (await ask(stage.port, "GET", path)).json()
    attempts = msgspec.convert(receipt["attempts"], list[dict[str, object]])
    went_on = [one["started_s"] is not None for one in attempts if one["resumes_at"]]
    assert went_on == [False, True]


async def test_a_whole_answer_goes_on_as_well(stage: Stage) -> None:
    """Asked for in the body, and told there too."""
    nodes = twins(stage, "w", "w")
    dies_then_goes_on(nodes)
    await ready(stage, 2)
    body = {**HELLO, "roost": {"on_loss": "replay"}}
    reply = await ask(stage.port, "POST", "/v1/chat/completions", body)
    assert reply.status == 200
    answer = msgspec.json.decode(reply.body)
    assert answer["choices"][0]["message"]["content"] == "Hello"
    assert answer["usage"]["completion_tokens"] == 4
    assert answer["roost"]["replays"] == 1
    assert reply.headers["x-roost-replayed-at"] == "3"


async def test_without_the_same_weights_it_is_the_error_of_always(stage: Stage) -> None:
    """Nobody else may go on, and nobody pretends to."""
    nodes = twins(stage, "w", "other")
    dies_then_goes_on(nodes)
    await ready(stage, 2)
    body = {**HELLO, "stream": True}
    headers = {"x_roost_on_loss": "replay"}
    reply = await ask(stage.port, "POST", "/v1/chat/completions", body, **headers)
    assert not reply.clean
    assert "runtime_died" in reply.events()[-1]
    assert sum(len(node.opened) for node in nodes) == 1


async def test_who_does_not_ask_pays_nothing_and_gets_the_error(stage: Stage) -> None:
    """No ids are asked of the node, and a cut answer ends."""
    nodes = twins(stage, "w", "w")
    dies_then_goes_on(nodes)
    await ready(stage, 2)
    reply = await ask(stage.port, "POST", "/v1/chat/completions", {**HELLO, "stream": True})
    assert not reply.clean
    (opened,) = [opened for node in nodes for opened in node.opened]
    assert not opened.request.return_tokens


async def test_a_bad_word_for_a_loss_is_refused_by_name(stage: Stage) -> None:
    """As a wrong value of any other header, before anything is asked of a node."""
    (node,) = twins(stage, "w")
    await ready(stage, 1)
    headers = {"x_roost_on_loss": "retry"}
    reply = await ask(stage.port, "POST", "/v1/chat/completions", HELLO, **headers)
    assert reply.status == 400
    assert msgspec.json.decode(reply.body)["error"]["param"] == "x-roost-on-loss"
    assert node.opened == []


async def test_client_and_node_are_lost_and_the_stream_goes_on(stage: Stage) -> None:
    """Whoever comes back finds the answer continued elsewhere: every event once, in order."""
    nodes = twins(stage, "w", "w")
    await ready(stage, 2)
    client = await stage.client()
    headers = {"x_roost_on_loss": "replay", "x_roost_reattach_s": "30"}
    client.send("POST", "/v1/chat/completions", {**HELLO, "stream": True}, **headers)
    await until(lambda: any(node.opened for node in nodes), what="it runs")
    first, second = sorted(nodes, key=lambda node: not node.opened)
    opened = first.opened[0]
    first.say(opened.stream, Started(9, 4, 0), Delta("Hel", 3, ids=(5, 6, 7)))
    await client.reader.readuntil(b'"Hel"')
    client.close()
    front = stage.gateway.front
    assert front is not None
    await until(lambda: front.connections == 0, what="the client is lost")

    def go_on(resumed: Open) -> None:
        second.say(resumed.stream, Started(12, 8, 0), Delta("lo", 1, ids=(8,)))
        second.say(resumed.stream, Finished("stop", Usage(12, 8, 1)))
        second.release(resumed.stream)

    second.on_open = go_on
    first.say(opened.stream, Failed(DIED, Usage(9, 4, 3)))
    first.release(opened.stream)
    path = f"/roost/v1/requests/{opened.request_id}/stream"
    reply = await ask(stage.port, "GET", path, last_event_id="1")
    assert reply.clean
    ids = [line for line in reply.body.decode().split("\n") if line.startswith("id: ")]
    assert ids == [f"id: {number}" for number in range(2, 2 + len(ids))]
    texts = [msgspec.json.decode(event) for event in reply.events()[:-1]]
    assert "".join(one["choices"][0]["delta"].get("content", "") for one in texts) == "lo"
    assert texts[-1]["roost"]["replays"] == 1


async def test_a_turn_of_a_named_conversation_goes_on_as_well() -> None:
    """Its events are numbered on, and what is kept is the whole answer."""
    settings = msgspec.structs.replace(SETTINGS, infer=InferSettings())
    async with staged(settings, journal=Journal(None, JournalSettings())) as stage:
        nodes = twins(stage, "w", "w")
        dies_then_goes_on(nodes)
        await ready(stage, 2)
        body: dict[str, object] = {
            "conversation_id": "c1",
            "prompt": "hello",
            "model": MODEL,
            "max_tokens": 50,
            "roost": {"on_loss": "replay"},
        }
        reply = await ask(stage.port, "POST", "/coordinator/infer", body)
        events = [msgspec.json.decode(event) for event in reply.events()]
        assert [event["token"] for event in events[:-1]] == ["Hel", "lo"]
        assert [event["seq"] for event in events] == [0, 1, 2]
        assert (events[-1]["reason"], events[-1]["roost"]["replays"]) == ("stop", 1)
        await ask(stage.port, "POST", "/coordinator/infer", {**body, "prompt": "and?"})
        asked = [opened.request.prompt for node in nodes for opened in node.opened]
        turns = [prompt.messages for prompt in asked if isinstance(prompt, ChatPrompt)]
        assert [m.content for m in max(turns, key=len)] == ["hello", "Hello", "and?"]
        body["roost"] = {"on_loss": "maybe"}
        assert (await ask(stage.port, "POST", "/coordinator/infer", body)).status == 400
