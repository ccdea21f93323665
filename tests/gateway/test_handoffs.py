"""/roost/v1/prefill and /roost/v1/decode: a prompt computed ahead, and its one answer."""

from __future__ import annotations

from functools import partial
from typing import cast

import msgspec
import pytest

from roost.core.request import ChatPrompt, TextPrompt
from roost.errors import Failure
from roost.fleet.conversations.handoffs import HandoffSettings
from roost.wire.messages import Open
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Reply, Stage, staged
from tests.gateway.puppet import MODEL, Puppet
from tests.gateway.test_control import data
from tests.gateway.test_fleet_gateway import idle
from tests.gateway.test_operations import by_name, call

PREFILL, DECODE = "/roost/v1/prefill", "/roost/v1/decode"
TALK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]
FEW = msgspec.structs.replace(SETTINGS, handoffs=HandoffSettings(each_max=1))


def answering(node: Puppet, *pieces: str) -> None:
    """Let a node answer everything like this."""
    node.on_open = lambda opened: node.answer(opened, *pieces, cached=4)


async def prefilled(stage: Stage, who: str = "ann", given: object = "hi") -> Reply:
    """Have a prompt computed, and wait until its place is free."""
    reply = await call(stage, who, "POST", PREFILL, {"model_id": MODEL, "input": given})
    await until(partial(idle, stage), what="its place is free")
    return reply


async def decoded(
    stage: Stage, secret: object, who: str = "ann", more: dict[str, object] | None = None
) -> Reply:
    """Have it answered."""
    body = {"handoff": secret, "max_tokens": 9, **(more or {})}
    return await call(stage, who, "POST", DECODE, body)


def code(reply: Reply) -> str:
    """What the control protocol calls what is wrong."""
    return str(msgspec.json.decode(reply.body)["error"]["code"])


async def test_a_prompt_is_computed_ahead_and_answered_once_where_it_is() -> None:
    """On the same node of several, with the same words, by whatever the decode asks for."""
    async with staged(authorise=by_name) as stage:
        nodes = {name: stage.add_node(name) for name in ("a", "b", "c")}
        for node in nodes.values():
            answering(node, "Hel", "lo")
        await until(lambda: len(stage.gateway.mind.links) == 3, what="all are there")
        await stage.ready()
        for given in (TALK, "Once upon a time"):
            before = {name: len(node.opened) for name, node in nodes.items()}
            first = await prefilled(stage, given=given)
            assert first.headers["cache-control"] == "no-store"
            told = data(first)
            assert (told["prompt_tokens"], told["reused"], told["state_id"]) == (9, True, None)
            (where,) = [name for name, node in nodes.items() if len(node.opened) > before[name]]
            asked: dict[str, object] = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "stop": ["x"]}
            reply = await decoded(stage, told["handoff"], more=asked)
            assert data(reply) == {
                "text": "Hello",
                "handoff": None,
                "completion_tokens": 2,
                "finish_reason": "stop",
            }
            await until(partial(idle, stage), what="its place is free")
            ahead, then = [one.request for one in nodes[where].opened[-2:]]
            assert ahead.prompt == then.prompt
            assert (ahead.max_tokens, then.max_tokens, then.stop) == (1, 9, ("x",))
            assert (then.sampling.temperature, then.sampling.seed) == (0.5, 7)
            again = await decoded(stage, told["handoff"])
            assert (again.status, code(again)) == (410, "expired_handoff")
        prompts = [opened.request.prompt for node in nodes.values() for opened in node.opened]
        assert {type(prompt) for prompt in prompts} == {ChatPrompt, TextPrompt}


async def test_it_is_bound_to_who_got_it_and_spent_by_a_decode_that_fails() -> None:
    """Another key gets what a made-up secret gets; a failure does not give it back."""
    async with staged(authorise=by_name) as stage:
        node = stage.add_node()
        answering(node, "ok")
        await stage.ready()
        secret = data(await prefilled(stage))["handoff"]
        wrong = await decoded(stage, secret, more={"temperature": 3})
        assert wrong.status == 400, "what cannot be asked spends nothing"
        stolen, invented = await decoded(stage, secret, "bob"), await decoded(stage, "x" * 43)
        assert [stolen.status, invented.status] == [410, 410]

        def broken(opened: Open) -> None:
            node.refuse(opened.stream, Failure("internal", "It is broken."))

        node.on_open = broken
        assert (await decoded(stage, secret)).status >= 500
        await until(partial(idle, stage), what="its place is free")
        answering(node, "ok")
        assert (await decoded(stage, secret)).status == 410


async def test_room_is_reserved_before_any_work_and_comes_back() -> None:
    """The second is refused before a node hears of it; what came to nothing holds no place."""
    async with staged(FEW, authorise=by_name) as stage:
        node = stage.add_node()
        node.on_open = lambda opened: node.refuse(
            opened.stream, Failure("context_length_exceeded", "It is too long.")
        )
        await stage.ready()
        assert (await prefilled(stage)).status == 400
        answering(node, "ok")
        secret = data(await prefilled(stage))["handoff"]
        opened = len(node.opened)
        full = await prefilled(stage)
        assert (full.status, code(full)) == (429, "resource_exhausted")
        assert int(full.headers["retry-after"]) > 0
        assert len(node.opened) == opened
        assert (await prefilled(stage, "bob")).status == 200
        assert (await decoded(stage, secret)).status == 200
        assert (await prefilled(stage)).status == 200


async def test_a_client_that_leaves_leaves_no_place_taken() -> None:
    """Its prefill is withdrawn, and another one may come."""
    async with staged(FEW, authorise=by_name) as stage:
        node = stage.add_node()
        await stage.ready()
        client = await stage.client()
        body = {"model_id": MODEL, "input": "hi"}
        client.send("POST", PREFILL, body, authorization="Bearer ann")
        await until(lambda: len(node.opened) == 1, what="it runs")
        client.close()
        await until(lambda: bool(node.cancelled), what="it is withdrawn")
        node.release(node.opened[0].stream)
        await until(partial(idle, stage), what="its place is free")
        answering(node, "ok")
        assert (await prefilled(stage)).status == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (PREFILL, {"model_id": MODEL}),
        (PREFILL, {"model_id": MODEL, "input": ""}),
        (PREFILL, {"model_id": MODEL, "input": []}),
        (PREFILL, {"model_id": MODEL, "input": [{"role": "tool", "content": "x"}]}),
        (PREFILL, {"model_id": MODEL, "input": [TALK[1]] * 257}),
        (PREFILL, {"model_id": MODEL, "input": "x" * 524_289}),
        (PREFILL, {"model_id": MODEL, "input": "x", "policy": {"mode": "disk"}}),
        (PREFILL, {"model_id": MODEL, "input": "x", "more": 1}),
        (DECODE, {"handoff": "x"}),
        (DECODE, {"handoff": "x", "max_tokens": 0}),
        (DECODE, {"handoff": "x" * 4097, "max_tokens": 1}),
        (DECODE, {"handoff": "x", "max_tokens": 1, "temperature": 3}),
        (DECODE, {"handoff": "x", "max_tokens": 1, "stop": [""]}),
        (DECODE, {"handoff": "x", "max_tokens": 1, "stop": ["x"] * 17}),
    ],
)
async def test_what_is_wrong_is_told_in_the_envelope(
    stage: Stage, path: str, body: dict[str, object]
) -> None:
    """400, and whose fault it is."""
    reply = await call(stage, "ann", "POST", path, body)
    assert (reply.status, code(reply)) == (400, "invalid_request")


@pytest.mark.parametrize("header", ["idempotency_key", "x_roost_reattach_s"])
async def test_what_would_give_a_secret_again_is_refused(stage: Stage, header: str) -> None:
    """A handoff is for once, and so is the answer that has it."""
    client = await stage.client()
    client.send("POST", PREFILL, {"model_id": MODEL, "input": "x"}, **{header: "30"})
    reply = await client.reply()
    assert reply.status == 400
    assert "is for once" in str(cast("dict[str, object]", reply.json()["error"])["message"])


async def test_its_answers_are_held_to_the_limits_of_all_others_also_after_a_reload() -> None:
    """As far as a node may run ahead of its reader, as it is set now."""
    async with staged(authorise=by_name) as stage:
        node = stage.add_node()
        answering(node, "ok")
        await stage.ready()
        secret = data(await prefilled(stage))["handoff"]
        relay = msgspec.structs.replace(SETTINGS.generation.relay, buffer_events=8)
        generation = msgspec.structs.replace(SETTINGS.generation, relay=relay)
        stage.gateway.use(msgspec.structs.replace(SETTINGS, generation=generation))
        assert data(await decoded(stage, secret))["text"] == "ok"
        assert [opened.credit for opened in node.opened] == [64, 8]
