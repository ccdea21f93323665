"""What clients are told of their homes, over real sockets, with puppet nodes on real links."""

from __future__ import annotations

import msgspec

from roost.core.events import Delta, Finished, Started, Usage
from roost.wire.messages import Open
from tests.gateway.conftest import Stage, ask
from tests.gateway.puppet import MODEL

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
