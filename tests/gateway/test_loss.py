"""What becomes of a request when its node is lost, and how attempts are told apart."""

from __future__ import annotations

import msgspec

from roost.core.fence import Epoch, Fence
from roost.errors import Failure
from roost.wire.messages import Open
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Stage, ask, staged
from tests.gateway.puppet import MODEL

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
