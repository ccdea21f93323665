"""What clients are told of their homes, over real sockets, with puppet nodes on real links."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from roost.core.events import Delta, Finished, Started, Usage
from roost.core.fence import Life
from roost.core.ids import NodeId
from roost.core.request import ChatPrompt
from roost.gateway.conversations.infer import InferSettings
from roost.gateway.entry.identity import IdentitySettings
from roost.gateway.reading.session_token import SessionKey
from roost.store.conversations.journal import Journal, JournalSettings
from roost.wire.messages import Open
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Stage, ask, staged
from tests.gateway.puppet import MODEL, Puppet

HELLO = {"model": MODEL}
STREAM = {**HELLO, "stream": True}


async def test_a_home_with_only_a_shared_beginning_left_is_called_lost(stage: Stage) -> None:
    """Headers and the last chunk say so, and what was computed again."""
    node = stage.add_node()
    await stage.ready()
    first = {"role": "user", "content": "question"}
    found = {"first": Started(400, 0, 0), "second": Started(450, 30, 0)}

    def serve(opened: Open) -> None:
        started = found["second" if len(node.opened) > 1 else "first"]
        usage = Usage(started.prompt_tokens, started.cached_tokens, 1)
        node.say(opened.stream, started, Delta("hi there"), Finished("stop", usage))
        node.release(opened.stream)

    node.on_open = serve
    await ask(stage.port, "POST", "/v1/chat/completions", {**HELLO, "messages": [first]})
    history = [first, {"role": "assistant", "content": "hi there"}, {**first, "content": "more"}]
    reply = await ask(stage.port, "POST", "/v1/chat/completions", {**STREAM, "messages": history})
    assert reply.headers["x-roost-placement"] == "lost"
    last = msgspec.json.decode(reply.body.split(b"data: ")[-2])["roost"]
    assert (last["placement"], last["lost_tokens"]) == ("lost", 370)


async def test_an_old_token_leads_nobody_away_from_the_newest_kv() -> None:
    """A turn that insists is sent where the last one was, whichever token it brings."""
    keys = IdentitySettings((SessionKey("k1", b"0123456789abcdef"),), 3600.0, Life("g1", 1))
    settings = msgspec.structs.replace(SETTINGS, identity=keys, infer=InferSettings())
    turn = {"conversation_id": "c", "prompt": "hi", "model": MODEL, "max_tokens": 50}
    async with staged(settings, journal=Journal(None, JournalSettings())) as stage:
        nodes = {name: stage.add_node(name) for name in ("a", "b")}
        for node in nodes.values():
            node.on_open = _growing(node)
        mind = stage.gateway.mind
        await until(lambda: len(mind.coordinator.statistics().in_flight) == 2, what="all joined")
        first = await ask(stage.port, "POST", "/coordinator/infer", turn)
        token, home = first.headers["x-roost-session"], NodeId(first.headers["x-roost-node"])
        mind.park_node(home, parked=True)
        moved = await ask(stage.port, "POST", "/coordinator/infer", turn, x_roost_session=token)
        assert moved.headers["x-roost-node"] != home
        mind.park_node(home, parked=False)
        headers = {"x_roost_session": token, "x_roost_affinity": "require"}
        third = await ask(stage.port, "POST", "/coordinator/infer", turn, **headers)
        assert third.headers["x-roost-node"] == moved.headers["x-roost-node"]


def _growing(node: Puppet) -> Callable[[Open], None]:
    """Answer as if every message had 10 tokens, all but the last of them cached."""

    def serve(opened: Open) -> None:
        prompt = opened.request.prompt
        assert isinstance(prompt, ChatPrompt)
        tokens = 10 * len(prompt.messages)
        node.say(opened.stream, Started(tokens, tokens - 10, 0), Delta("yes"))
        node.say(opened.stream, Finished("stop", Usage(tokens, tokens - 10, 1)))
        node.release(opened.stream)

    return serve
