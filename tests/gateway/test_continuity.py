"""What becomes of a conversation whose home was lost: what it is told, and what it goes on from.

One row of the table in `docs/decisions/0030-what-a-loss-costs.md` for each event, over real
sockets, with puppet nodes; the machines' own tests have the rest of its cells.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import cast

import msgspec
import pytest

from roost.core.events import Delta, Finished, Started, Usage
from roost.core.ids import ModelId, NodeId
from roost.core.snapshots import NodeStatus
from roost.gateway.conversations.infer import InferSettings
from roost.store.conversations.journal import Journal, JournalSettings
from roost.wire.messages import Open
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Reply, Stage, ask, staged
from tests.gateway.puppet import MODEL, Puppet, status
from tests.gateway.test_infer import PATH, infer, joined, texts, turn

CHAT = "/v1/chat/completions"
PAST = ["user: one", "assistant: yes", "user: two"]
HELD, LEFT = 400, 30
OTHER = ModelId("toy/other:1")
REQUIRE = {"x_roost_affinity": "require"}


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A gateway with two nodes that hold what they have computed."""
    settings = msgspec.structs.replace(SETTINGS, infer=infer(InferSettings()))
    async with staged(settings, journal=Journal(None, JournalSettings())) as made:
        for name in ("a", "b"):
            node = made.add_node(name)
            node.on_open = holding(node, 0)
            made.nodes.append(node)
        await until(joined(made, 2), what="both joined")
        await made.ready()
        yield made


def holding(node: Puppet, cached: int) -> Callable[[Open], None]:
    """Let a puppet answer `yes`, with so much of the prompt cached."""

    def answer(opened: Open) -> None:
        usage = Usage(HELD, cached, 1)
        node.say(opened.stream, Started(HELD, cached, 0), Delta("yes"), Finished("stop", usage))
        node.release(opened.stream)

    return answer


async def _leaves(stage: Stage, home: Puppet) -> None:
    home.leave()
    state = stage.gateway.mind.coordinator
    await until(lambda: any(n.state == "dead" for n in state.fleet()), what="it is missed")


async def _loses_its_runtime(stage: Stage, home: Puppet) -> None:
    report: NodeStatus = status()
    home.report(msgspec.structs.replace(report, runtimes=()))
    state = stage.gateway.mind.coordinator
    await until(lambda: any(not n.runtimes for n in state.fleet()), what="the report is in")
    home.on_open = holding(home, 0)


async def _forgets(_: Stage, home: Puppet) -> None:
    home.on_open = holding(home, LEFT)


async def _drains(stage: Stage, home: Puppet) -> None:
    stage.gateway.mind.park_node(NodeId(home.name), parked=True)


EVENTS = {
    "the node leaves": (_leaves, "lost", HELD),
    "its runtime ends": (_loses_its_runtime, "lost", HELD),
    "it has forgotten most": (_forgets, "lost", HELD - LEFT),
    "it is drained": (_drains, "moved(home_draining)", HELD),
}


async def _first(stage: Stage, path: str, body: dict[str, object]) -> Puppet:
    """Have a first turn served; who did."""
    reply = await ask(stage.port, "POST", path, body)
    assert (reply.status, reply.headers["x-roost-placement"]) == (200, "cold")
    home = next(node for node in stage.nodes if node.opened)
    for node in stage.nodes:
        node.on_open = holding(node, HELD - 1 if node is home else 0)
    return home


def _chat(*texts_: str) -> dict[str, object]:
    roles = ("user", "assistant")
    said = [{"role": roles[n % 2], "content": text} for n, text in enumerate(texts_)]
    return {"model": MODEL, "messages": said, "stream": True}


def _cost(reply: Reply) -> tuple[int, str, int]:
    """Status, label and lost tokens of a reply."""
    headers = reply.headers
    lost = int(headers.get("x-roost-lost-tokens", 0))
    return reply.status, headers.get("x-roost-placement", ""), lost


def _given(stage: Stage) -> list[str]:
    """What the last node that was asked for something was asked to go on with."""
    return max((texts(opened) for node in stage.nodes for opened in node.opened), key=len)


@pytest.mark.parametrize("event", EVENTS)
async def test_a_named_conversation_is_rebuilt_from_its_transcript(
    stage: Stage, event: str
) -> None:
    """Nothing is asked for: the next turn is whole, and told what the loss cost."""
    happens, label, lost = EVENTS[event]
    home = await _first(stage, PATH, turn("one"))
    await happens(stage, home)
    reply = await ask(stage.port, "POST", PATH, turn("two"))
    assert _cost(reply) == (200, label, lost)
    assert _given(stage) == PAST


@pytest.mark.parametrize("event", EVENTS)
async def test_a_plain_client_is_rebuilt_from_the_history_that_it_sends(
    stage: Stage, event: str
) -> None:
    """The gateway knows where the history was computed, and what that is worth."""
    happens, label, lost = EVENTS[event]
    home = await _first(stage, CHAT, _chat("one"))
    await happens(stage, home)
    reply = await ask(stage.port, "POST", CHAT, _chat("one", "yes", "two"))
    assert _cost(reply) == (200, label, lost)
    assert _given(stage) == PAST


@pytest.mark.parametrize("path", [PATH, CHAT])
@pytest.mark.parametrize("event", EVENTS)
async def test_who_requires_what_is_lost_is_told_so(stage: Stage, event: str, path: str) -> None:
    """409 `session_gone`, no word of an answer, and no other node is asked."""
    happens, _, _ = EVENTS[event]
    named = path == PATH
    home = await _first(stage, path, turn("one") if named else _chat("one"))
    await happens(stage, home)
    asked = turn("two") if named else _chat("one", "yes", "two")
    reply = await ask(stage.port, "POST", path, asked, **REQUIRE)
    told = reply.json()
    error = told if named else cast("dict[str, object]", told["error"])
    assert (reply.status, error["reason" if named else "code"]) == (409, "session_gone")
    assert not any(node.opened for node in stage.nodes if node is not home)
    idle = stage.gateway.mind.coordinator.statistics
    await until(lambda: (idle().running, idle().leases) == (0, 0), what="nothing is left of it")
    again = await ask(stage.port, "POST", path, asked)
    assert _cost(again)[0] == 200


async def test_who_requires_what_is_there_gets_it(stage: Stage) -> None:
    """A home that kept its word serves, and nothing was lost."""
    await _first(stage, PATH, turn("one"))
    reply = await ask(stage.port, "POST", PATH, turn("two"), **REQUIRE)
    assert _cost(reply) == (200, "warm", 0)


async def test_another_model_is_another_state(stage: Stage) -> None:
    """KV of one model is of no use to another: the words go on, and who requires KV is told."""
    for node in stage.nodes:
        node.report(status(models=(MODEL, OTHER)))
    mind = stage.gateway.mind
    await until(lambda: len(mind.coordinator.models()) == 2, what="both models are there")
    await _first(stage, PATH, turn("one"))
    changed = {**turn("two"), "model": OTHER}
    reply = await ask(stage.port, "POST", PATH, changed, **REQUIRE)
    assert (reply.status, reply.json()["reason"]) == (409, "session_gone")
    reply = await ask(stage.port, "POST", PATH, changed)
    assert _cost(reply) == (200, "cold", 0)
    assert _given(stage) == PAST


async def test_an_edited_history_comes_home_for_what_it_shares(stage: Stage) -> None:
    """The longest beginning that is known is routed as what it is, the rest is new."""
    home = await _first(stage, CHAT, _chat("one"))
    edited = await ask(stage.port, "POST", CHAT, _chat("one", "no, something else", "two"))
    assert _cost(edited) == (200, "warm", 0)
    assert len(home.opened) == 2
    other = await ask(stage.port, "POST", CHAT, _chat("another beginning"))
    assert _cost(other)[1] == "cold"


async def test_a_conversation_that_begins_like_another_has_lost_nothing(stage: Stage) -> None:
    """Whatever became of the other one's KV, and although it requires its own."""
    home = await _first(stage, PATH, turn("one"))
    home.on_open = holding(home, 0)
    reply = await ask(stage.port, "POST", PATH, turn("one", "c2"), **REQUIRE)
    assert _cost(reply) == (200, "cold", 0)
