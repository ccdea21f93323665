"""Requests for vectors at a gateway: who is asked, what is tried again, what is refused."""

from __future__ import annotations

import asyncio
from types import MethodType
from typing import cast

import msgspec
import pytest

from roost.core.events import Failed, Finished, Started, Usage, Vectors
from roost.core.ids import ModelId
from roost.core.request import EmbedPrompt, RankPrompt
from roost.core.snapshots import NodeStatus
from roost.core.vectors import numbers, packed
from roost.dialects.openai.embeddings import EmbeddingsBody
from roost.dialects.vectors import Written, as_numbers
from roost.errors import Failure
from roost.gateway.generation import GenerationSettings
from roost.wire.messages import Open
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Client, Reply, Stage, ask, staged
from tests.gateway.puppet import MODEL, Puppet, status

PATH = "/v1/embeddings"
VECTORS, SCORES = ModelId("v"), ModelId("s")
DIED = Failure("runtime_died", "it died")


def both(slots: int = 2) -> NodeStatus:
    """Report a model for texts, one for vectors of 2 numbers and one for scores."""
    report = status(slots, (MODEL, VECTORS, SCORES))
    texts, vectors, scores = report.models
    vectors = msgspec.structs.replace(vectors, mode="embed", vector_sizes=(2,), has_chat=False)
    scores = msgspec.structs.replace(scores, mode="rank", has_chat=False)
    return msgspec.structs.replace(report, models=(texts, vectors, scores))


async def joined(stage: Stage, name: str = "n1", slots: int = 2) -> Puppet:
    """Let a node join that has both, and makes of each input a vector of its number."""
    node = stage.add_node(name, slots)
    node.report_with(both(slots))
    node.on_open = lambda opened: made(node, opened)
    await until(lambda: name in known(stage), what=f"{name} has reported")
    return node


def known(stage: Stage) -> list[str]:
    """Name the nodes that have reported models."""
    return [str(one.id) for one in stage.gateway.mind.coordinator.fleet() if one.models]


def inputs_of(opened: Open) -> tuple[str | tuple[int, ...], ...]:
    """What vectors are wanted of."""
    prompt = opened.request.prompt
    assert isinstance(prompt, EmbedPrompt)
    return prompt.inputs


def made(node: Puppet, opened: Open) -> None:
    """Answer with two messages of vectors."""
    inputs = inputs_of(opened)
    rows = [(float(len(one)), 0.5) for one in inputs]
    stream = opened.stream
    node.say(stream, Started(9, 0, 0), Vectors(2, packed(rows[:1])))
    if rows[1:]:
        node.say(stream, Vectors(2, packed(rows[1:])))
    node.say(stream, Finished("stop", Usage(prompt_tokens=9)))
    node.release(stream)


async def embed(stage: Stage, sent: object, **more: object) -> Reply:
    """Ask for vectors of this."""
    return await ask(stage.port, "POST", PATH, {"model": VECTORS, "input": sent, **more})


def firsts(reply: Reply) -> list[float]:
    """The first number of each vector of a reply, which is its input's length."""
    assert reply.status == 200, reply.body
    data = cast("list[dict[str, object]]", reply.json()["data"])
    assert [one["index"] for one in data] == list(range(len(data)))
    return [cast("list[float]", one["embedding"])[0] for one in data]


def error(reply: Reply) -> dict[str, object]:
    """The error in a reply."""
    return cast("dict[str, object]", reply.json()["error"])


async def test_vectors_come_in_the_order_of_inputs_beside_each_other(stage: Stage) -> None:
    """Ten requests at once, each gets its own; usage, model and node are told."""
    await joined(stage, slots=10)
    asked = [embed(stage, ["x" * size, "y" * (size + 1), [7] * 3]) for size in range(1, 11)]
    replies = await asyncio.gather(*asked)
    assert [firsts(reply) for reply in replies] == [[float(n), n + 1.0, 3.0] for n in range(1, 11)]
    body = replies[0].json()
    assert body["usage"] == {"prompt_tokens": 9, "total_tokens": 9}
    assert body["model"] == VECTORS
    assert replies[0].headers["x-roost-node"] == "n1"


async def test_large_bodies_are_read_elsewhere() -> None:
    """Like those of other APIs, so that nobody waits for them."""
    async with staged() as stage:
        await joined(stage)
        assert firsts(await embed(stage, ["a" * 150_000, "b"])) == [150_000, 1]


async def test_a_death_in_the_middle_is_made_good_elsewhere(stage: Stage) -> None:
    """Nothing was said yet: another node makes all of them, and what was lost is in no reply."""
    first, second = await joined(stage, "a"), await joined(stage, "b")
    dead: list[str] = []

    def die(node: Puppet, opened: Open) -> None:
        if dead:
            made(node, opened)
            return
        dead.append(node.name)
        half = Vectors(2, packed([(99.0, 0.0)]))
        node.say(opened.stream, Started(9, 0, 0), half, Failed(DIED))
        node.release(opened.stream)

    first.on_open = lambda opened: die(first, opened)
    second.on_open = lambda opened: die(second, opened)
    reply = await embed(stage, ["a", "bb"])
    assert firsts(reply) == [1, 2]
    assert len(first.opened) == len(second.opened) == 1
    assert reply.headers["x-roost-node"] != dead[0]


async def test_vectors_are_written_as_they_come(stage: Stage) -> None:
    """Of a reply nothing is left to be written at its end but what holds it together."""
    written: list[float] = []

    def write(row: bytes) -> bytes:
        written.append(numbers(row)[0])
        return as_numbers(row)

    node = await joined(stage)
    node.on_open = None
    asking = asyncio.ensure_future(embed(stage, ["a", "bb", "ccc"]))
    await until(lambda: bool(node.opened), what="the node was asked")
    (turn,) = stage.gateway.mind.turns.values()
    assert isinstance(turn.ahead, MethodType)
    body = turn.ahead.__self__
    assert isinstance(body, EmbeddingsBody)
    body._vectors = Written(3, write)  # noqa: SLF001 - no client sees when it is written
    stream = node.opened[0].stream
    try:
        node.say(stream, Started(9, 0, 0), Vectors(2, packed([(1.0, 0.5), (2.0, 0.5)])))
        await until(lambda: written == [1, 2], what="the first batch is written")
        node.say(stream, Vectors(2, packed([(3.0, 0.5)])))
        await until(lambda: written == [1, 2, 3], what="the second batch is written")
    finally:
        node.say(stream, Finished("stop", Usage(prompt_tokens=9)))
        node.release(stream)
    assert firsts(await asking) == [1, 2, 3]
    assert written == [1, 2, 3], "nothing is written again at the end"


async def test_only_who_makes_vectors_is_asked(stage: Stage) -> None:
    """Neither a model for texts nor a node that knows none; chats never get to one for vectors."""
    old = stage.add_node("old", 2, (MODEL, VECTORS))
    await until(lambda: "old" in known(stage), what="the old node has reported")
    refused = await embed(stage, "a")
    assert refused.status == 400
    assert error(refused)["param"] == "model"
    await joined(stage, "new")
    for _ in range(4):
        assert firsts(await embed(stage, "a")) == [1]
    assert not old.opened
    reply = await ask(stage.port, "POST", PATH, {"model": MODEL, "input": "a"})
    assert reply.status == 400
    assert "makes no vectors" in cast("str", error(reply)["message"])


async def test_chats_never_get_to_a_model_for_vectors(stage: Stage) -> None:
    """Neither by its name nor as what is meant where no name is given."""
    node = await joined(stage)
    node.on_open = lambda opened: node.answer(opened, "hi")
    messages = [{"role": "user", "content": "hello"}]
    for path, more in (
        ("/v1/chat/completions", {"messages": messages}),
        ("/v1/completions", {"prompt": "hello"}),
        ("/v1/messages", {"messages": messages, "max_tokens": 3}),
        ("/v1/responses", {"input": "hello"}),
    ):
        reply = await ask(stage.port, "POST", path, {"model": VECTORS, **more})
        assert reply.status == 400, path
        assert "makes vectors and says no texts" in cast("str", error(reply)["message"])
    named = {"messages": messages}
    assert (await ask(stage.port, "POST", "/v1/chat/completions", named)).status == 200
    assert [opened.request.model for opened in node.opened] == [MODEL]
    node.on_open = lambda opened: made(node, opened)
    assert firsts(await ask(stage.port, "POST", PATH, {"input": "a"})) == [1]


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"input": ["a", "b", "c"]}, 400, "input"),
        ({"input": "a", "dimensions": 1}, 400, "dimensions"),
        ({"input": "a", "model": "nobody"}, 404, "model"),
        ({"input": ""}, 400, "input"),
        ({"input": "a", "encoding_format": "x"}, 400, "encoding_format"),
    ],
)
async def test_what_cannot_be_is_refused(fields: dict[str, object], code: int, param: str) -> None:
    """Before anybody is asked, with the field at fault, and the setting where one is the limit."""
    generation = GenerationSettings(inputs_max=2)
    async with staged(msgspec.structs.replace(SETTINGS, generation=generation)) as stage:
        node = await joined(stage)
        reply = await ask(stage.port, "POST", PATH, {"model": VECTORS, **fields})
        assert (reply.status, error(reply)["param"]) == (code, param)
        if len(fields["input"]) == 3:  # type: ignore[arg-type]
            assert "`embed.inputs_max`" in cast("str", error(reply)["message"])
        assert not node.opened


async def test_a_refusal_of_the_node_keeps_its_status(stage: Stage) -> None:
    """What the node says of inputs is the client's to hear, and is not tried elsewhere."""
    node, other = await joined(stage, "a"), await joined(stage, "b")
    failure = Failure("context_length_exceeded", "Input 3 is too long.", param="input")
    node.on_open = lambda opened: node.refuse(opened.stream, failure)
    other.on_open = lambda opened: other.refuse(opened.stream, failure)
    reply = await embed(stage, "a")
    assert reply.status == 400
    assert error(reply)["code"] == "context_length_exceeded"
    assert len(node.opened) + len(other.opened) == 1


async def test_a_node_that_makes_too_few_is_no_success(stage: Stage) -> None:
    """Nobody gets a list in which a vector is another input's."""
    node = await joined(stage)

    def short(opened: Open) -> None:
        node.say(opened.stream, Vectors(2, packed([(1.0, 0.0)])), Finished("stop", Usage(9)))
        node.release(opened.stream)

    node.on_open = short
    reply = await embed(stage, ["a", "b"])
    assert reply.status == 502
    assert error(reply)["code"] == "upstream_error"


async def test_who_leaves_takes_the_work_along(stage: Stage) -> None:
    """The node is told to stop, and its place is free when it says so."""
    node = await joined(stage)
    node.on_open = None
    client = await Client.connect(stage.port)
    client.send("POST", PATH, {"model": VECTORS, "input": "a"})
    await until(lambda: bool(node.opened), what="it has come to the node")
    client.close()
    await until(lambda: bool(node.cancelled), what="the node is told")
    assert stage.gateway.mind.coordinator.statistics().leases == 1
    counted = stage.gateway.metrics.value
    assert counted("roost_tenant_tokens_total", "no_key") == 0, "it had not begun"
    node.release(node.opened[0].stream)
    await until(lambda: stage.gateway.mind.coordinator.statistics().leases == 0, what="free")


@pytest.mark.parametrize("ending", ["leaves", "fails"])
async def test_what_was_begun_on_is_paid_for(ending: str, stage: Stage) -> None:
    """Whoever leaves, or is failed, in the middle has had the tokens of its texts worked on."""
    node = await joined(stage)
    node.on_open = None
    client = await stage.client()
    client.send("POST", PATH, {"model": VECTORS, "input": ["a", "b"]})
    await until(lambda: bool(node.opened), what="it has come to the node")
    stream = node.opened[0].stream
    node.say(stream, Started(9, 0, 0), Vectors(2, packed([(1.0, 0.0)])))
    if ending == "leaves":
        (turn,) = stage.gateway.mind.turns.values()
        await until(lambda: turn.started is not None, what="it has begun")
        client.close()
        await until(lambda: bool(node.cancelled), what="the node is told")
    else:
        node.say(stream, Failed(Failure("bad_request", "No.")))
        assert (await client.reply()).status == 400
    node.release(stream)
    await until(lambda: not stage.gateway.mind.turns, what="it is over")
    assert stage.gateway.metrics.value("roost_tenant_tokens_total", "no_key") == 9


async def test_a_key_makes_it_once(stage: Stage) -> None:
    """A repetition under its Idempotency-Key is given the first reply."""
    node = await joined(stage)
    body = {"model": VECTORS, "input": ["a", "bb"]}
    replies = [await ask(stage.port, "POST", PATH, body, idempotency_key="k") for _ in range(2)]
    assert replies[0].body == replies[1].body
    assert firsts(replies[0]) == [1, 2]
    assert len(node.opened) == 1


async def test_documents_are_scored_and_sorted(stage: Stage) -> None:
    """The best first, with usage; made anew elsewhere after a death, like vectors."""
    first, second = await joined(stage, "a"), await joined(stage, "b")
    dead: list[str] = []

    def score(node: Puppet, opened: Open) -> None:
        assert opened.request.prompt == RankPrompt("q", ("x", "xxx", "xx"))
        stream, half = opened.stream, Vectors(1, packed([(1.0,)]))
        if not dead:
            dead.append(node.name)
            node.say(stream, half, Failed(DIED))
        else:
            rest = Vectors(1, packed([(3.0,), (2.0,)]))
            node.say(stream, Started(9, 0, 0), half, rest, Finished("stop", Usage(9)))
        node.release(stream)

    first.on_open = lambda opened: score(first, opened)
    second.on_open = lambda opened: score(second, opened)
    body = {"model": SCORES, "query": "q", "documents": ["x", "xxx", "xx"], "top_n": 2}
    reply = await ask(stage.port, "POST", "/v1/rerank", body)
    assert reply.status == 200, reply.body
    assert reply.json()["results"] == [
        {"index": 1, "relevance_score": 3.0},
        {"index": 2, "relevance_score": 2.0},
    ]
    assert reply.json()["usage"] == {"prompt_tokens": 9, "total_tokens": 9}
    assert len(first.opened) == len(second.opened) == 1


@pytest.mark.parametrize("model", [MODEL, VECTORS])
async def test_only_a_model_that_scores_is_asked_for_scores(model: ModelId, stage: Stage) -> None:
    """The refusal names one that can; nor is that one asked for anything else."""
    node = await joined(stage)
    body = {"model": model, "query": "q", "documents": ["x"]}
    reply = await ask(stage.port, "POST", "/v1/rerank", body)
    assert (reply.status, error(reply)["param"]) == (400, "model")
    assert "scores no documents" in cast("str", error(reply)["message"])
    refused = await ask(stage.port, "POST", PATH, {"model": SCORES, "input": "x"})
    assert "scores documents and makes no vectors" in cast("str", error(refused)["message"])
    many = {"model": SCORES, "query": "q", "documents": ["x"] * 2049}
    refused = await ask(stage.port, "POST", "/v1/rerank", many)
    assert (refused.status, error(refused)["param"]) == (400, "documents")
    assert not node.opened


async def test_a_deadline_in_the_line_is_told(stage: Stage) -> None:
    """Whoever waits for a place for vectors waits as for any other."""
    node = await joined(stage, slots=1)
    node.on_open = None
    first = asyncio.create_task(embed(stage, "a"))
    await until(lambda: bool(node.opened), what="the place is taken")
    late = await ask(
        stage.port, "POST", PATH, {"model": VECTORS, "input": "b"}, x_roost_timeout_ms="50"
    )
    assert late.status == 504
    made(node, node.opened[0])
    assert firsts(await first) == [1]
