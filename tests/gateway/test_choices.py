"""Several choices of one request: a lease for each, one reply, one end, one failure for all."""

from __future__ import annotations

from collections import Counter
from functools import partial

import msgspec
import pytest

from roost.core.events import Delta, Failed, Finished, Started, Usage
from roost.core.reading import Reading
from roost.core.request import Sampling, TextPrompt
from roost.errors import Failure
from roost.wire.messages import Open
from tests.conftest import until
from tests.gateway.conftest import Reply, Stage, ask
from tests.gateway.puppet import MODEL, Puppet
from tests.gateway.test_fleet_gateway import idle, opened_count

CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"
TWO = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}], "n": 2, "seed": 7}
USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
CALL = ("<tool_call>", "</tool_call>")


def by_seed(node: Puppet) -> None:
    """Let a node say which seed it was given, in two pieces."""

    def answer(opened: Open) -> None:
        node.answer(opened, "seed ", str(opened.request.sampling.seed), cached=2)

    node.on_open = answer


def texts(reply: Reply) -> dict[int, str]:
    """Put a streamed reply's texts together, each under its choice."""
    found: Counter[int] = Counter()
    said: dict[int, str] = {}
    *chunks, done = reply.events()
    assert done == "[DONE]"
    for chunk in map(msgspec.json.decode, chunks):
        for choice in chunk["choices"]:
            delta = choice.get("delta", choice)
            index = choice["index"]
            said[index] = said.get(index, "") + (delta.get("content") or delta.get("text") or "")
            found[index] += choice["finish_reason"] is not None
    assert set(found.values()) == {1}, "every choice ends once"
    return said


async def test_two_choices_whole(stage: Stage) -> None:
    """Both are there in order, each with a seed of its own, and their tokens are added up."""
    by_seed(stage.add_node())
    await stage.ready()
    reply = await ask(stage.port, "POST", CHAT, TWO)
    body = msgspec.json.decode(reply.body)
    assert reply.status == 200
    assert [one["index"] for one in body["choices"]] == [0, 1]
    assert [one["message"]["content"] for one in body["choices"]] == ["seed 7", "seed 8"]
    assert {name: body["usage"][name] for name in USAGE} == USAGE
    assert body["usage"]["prompt_tokens_details"] == {"cached_tokens": 2}
    await until(lambda: idle(stage), what="both leases are given back")


@pytest.mark.parametrize("path", [CHAT, TEXT])
async def test_three_choices_streamed(stage: Stage, path: str) -> None:
    """They come side by side, and one end follows the last of them."""
    by_seed(stage.add_node())
    await stage.ready()
    wanted = {"stream": True, "stream_options": {"include_usage": True}, "n": 3}
    body = TWO if path == CHAT else {"model": MODEL, "prompt": "hello", "seed": 7}
    reply = await ask(stage.port, "POST", path, {**body, **wanted})
    assert (reply.status, reply.clean) == (200, True)
    assert texts(reply) == {0: "seed 7", 1: "seed 8", 2: "seed 9"}
    usage = msgspec.json.decode(reply.events()[-2])
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 6)
    await until(lambda: idle(stage), what="all leases are given back")


async def test_each_choice_waits_for_a_place_of_its_own(stage: Stage) -> None:
    """On a node with one slot they run one after another; nothing deadlocks."""
    node = stage.add_node(slots=1)
    await stage.ready()
    client = await stage.client()
    client.send("POST", CHAT, {**TWO, "stream": True})
    for number in (1, 2):
        await until(partial(opened_count, node, number), what="the next choice is asked for")
        node.answer(node.opened[-1], "x")
    assert texts(await client.reply()) == {0: "x", 1: "x"}


async def test_what_fails_for_one_fails_for_all(stage: Stage) -> None:
    """Before the first byte that is a status; the other choice is cancelled."""
    node = stage.add_node()
    await stage.ready()
    client = await stage.client()
    client.send("POST", CHAT, TWO)
    await until(lambda: len(node.opened) == 2, what="both are asked for")
    first, second = node.opened
    failure = Failure("bad_request", "The template refuses.", "messages")
    node.refuse(first.stream, failure)
    reply = await client.reply()
    assert reply.status == 400
    assert b"The template refuses." in reply.body
    await until(lambda: node.cancelled == [second.stream], what="the other one is cancelled")
    node.release(second.stream)
    await until(lambda: idle(stage), what="all leases are given back")


async def test_what_breaks_in_mid_stream_breaks_all(stage: Stage) -> None:
    """One error event, no `[DONE]`, and a body that does not end cleanly."""
    node = stage.add_node()
    await stage.ready()
    client = await stage.client()
    client.send("POST", CHAT, {**TWO, "stream": True})
    await until(lambda: len(node.opened) == 2, what="both are asked for")
    first, second = node.opened
    node.say(second.stream, Started(9, 0, 0), Delta("well"))
    node.say(first.stream, Started(9, 0, 0), Delta("I"), Failed(Failure("internal", "No.")))
    node.release(first.stream)
    reply = await client.reply()
    assert not reply.clean
    assert sum('"error"' in event for event in reply.events()) == 1
    assert "[DONE]" not in reply.events()
    await until(lambda: node.cancelled == [second.stream], what="the other one is cancelled")
    node.release(second.stream)
    await until(lambda: idle(stage), what="all leases are given back")


async def test_a_call_that_cannot_be_used_breaks_all(stage: Stage) -> None:
    """A model that writes nonsense for a call leaves no choice that could be given."""
    node = stage.add_node()
    reading = Reading(None, CALL, tools=("look",))

    def answer(opened: Open) -> None:
        text = "fine" if opened.request.sampling == Sampling(seed=7) else "<tool_call>{</tool_call>"
        node.say(opened.stream, Started(9, 0, 0, reading), Delta(text))
        node.say(opened.stream, Finished("stop", Usage(9, 0, 1)))
        node.release(opened.stream)

    node.on_open = answer
    await stage.ready()
    whole = await ask(stage.port, "POST", CHAT, TWO)
    assert (whole.status, msgspec.json.decode(whole.body)["error"]["code"]) == (
        502,
        "bad_tool_call",
    )
    streamed = await ask(stage.port, "POST", CHAT, {**TWO, "stream": True})
    assert not streamed.clean
    assert "[DONE]" not in streamed.events()
    await until(lambda: idle(stage), what="all leases are given back")


async def test_a_client_that_leaves_frees_them_all(stage: Stage) -> None:
    """Nothing runs on for somebody who has gone."""
    node = stage.add_node()
    await stage.ready()
    client = await stage.client()
    client.send("POST", CHAT, {**TWO, "stream": True})
    await until(lambda: len(node.opened) == 2, what="both are asked for")
    client.close()
    await until(lambda: len(node.cancelled) == 2, what="both are cancelled")
    for opened in node.opened:
        node.release(opened.stream)
    await until(lambda: idle(stage), what="all leases are given back")


async def test_too_many_for_the_line_are_refused(stage: Stage) -> None:
    """More than can run or wait get the honest 429, and nothing of them stays behind."""
    node = stage.add_node(slots=1)
    await stage.ready()
    reply = await ask(stage.port, "POST", CHAT, {**TWO, "n": 16})
    assert reply.status == 429
    assert "retry-after" in reply.headers
    for opened in node.opened:
        node.release(opened.stream)
    await until(lambda: idle(stage), what="all leases are given back")


@pytest.mark.parametrize(
    "headers", [{"Idempotency_Key": "k"}, {"x_roost_reattach_s": "5"}], ids=["key", "reattach"]
)
async def test_what_cannot_be_kept_is_refused(stage: Stage, headers: dict[str, str]) -> None:
    """A reply that a client could come back for has one choice."""
    stage.add_node()
    await stage.ready()
    reply = await ask(stage.port, "POST", CHAT, {**TWO, "stream": True}, **headers)
    assert reply.status == 400
    assert msgspec.json.decode(reply.body)["error"]["param"] == "n"


@pytest.mark.parametrize("stream", [False, True])
async def test_several_prompts_and_their_echo(stage: Stage, *, stream: bool) -> None:
    """Each prompt has its choices, in order, and each is counted once."""
    node = stage.add_node()

    def answer(opened: Open) -> None:
        prompt = opened.request.prompt
        assert isinstance(prompt, TextPrompt)
        node.answer(opened, f"-{prompt.text.upper()}", cached=1)

    node.on_open = answer
    await stage.ready()
    wanted = {"n": 2, "echo": True, "stream": stream, "stream_options": {"include_usage": True}}
    reply = await ask(stage.port, "POST", TEXT, {"model": MODEL, "prompt": ["a", "b"], **wanted})
    if stream:
        said = [text for _, text in sorted(texts(reply).items())]
        usage = msgspec.json.decode(reply.events()[-2])["usage"]
    else:
        body = msgspec.json.decode(reply.body)
        said, usage = [one["text"] for one in body["choices"]], body["usage"]
    assert said == ["a-A", "a-A", "b-B", "b-B"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (18, 4)
    await until(lambda: idle(stage), what="all leases are given back")


async def test_an_answer_to_one_prompt_repeats_it_too(stage: Stage) -> None:
    """Streamed, the prompt is there before the first text; an empty answer is the prompt alone."""
    node = stage.add_node()
    node.on_open = node.answer
    await stage.ready()
    body = {"model": MODEL, "prompt": "well", "echo": True}
    whole = await ask(stage.port, "POST", TEXT, body)
    assert msgspec.json.decode(whole.body)["choices"][0]["text"] == "well"
    streamed = await ask(stage.port, "POST", TEXT, {**body, "stream": True})
    assert texts(streamed) == {0: "well"}
