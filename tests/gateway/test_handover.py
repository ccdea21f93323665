"""Draining a node: its conversations are computed anew elsewhere, and then it is told so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

from roost.core.ids import NodeId
from roost.errors import Failure
from roost.fleet.nodes.handover import HandoverSettings
from roost.gateway.assemble import GatewaySettings
from roost.gateway.conversations.infer import InferSettings
from roost.store.conversations.journal import Journal, JournalSettings
from roost.store.conversations.transcripts import open_disk
from roost.store.home import Home
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Stage, ask, staged
from tests.gateway.puppet import Puppet, status
from tests.gateway.test_continuity import HELD, holding
from tests.gateway.test_infer import PATH, infer, joined, texts, turn
from tests.gateway.test_lines import lines_of

QUICK = HandoverSettings(look_s=0.02, retry_s=0.05)
TALKS = ("c0", "c1", "c2", "c3", "c4")
SAID = ["user: one", "assistant: yes"]


def settings() -> GatewaySettings:
    """A gateway that looks at its nodes often."""
    return msgspec.structs.replace(SETTINGS, infer=infer(InferSettings()), handover=QUICK)


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A gateway with conversations in memory, and one node with five of them."""
    async with staged(settings(), journal=Journal(None, JournalSettings())) as made:
        await _talked(made)
        yield made


async def _talked(stage: Stage) -> None:
    """Have five first turns on node a, and then let b join."""
    await _join(stage, "a")
    for name in TALKS:
        reply = await ask(stage.port, "POST", PATH, turn("one", name))
        assert reply.headers["x-roost-node"] == "a"
    await _join(stage, "b")


async def _join(stage: Stage, name: str) -> Puppet:
    node = stage.add_node(name)
    node.on_open = holding(node, 0)
    stage.nodes.append(node)
    await until(joined(stage, len(stage.nodes)), what="it has joined")
    await stage.ready()
    return node


def _drain(stage: Stage, node: str = "a") -> None:
    stage.gateway.mind.park_node(NodeId(node), parked=True)


def _moved(stage: Stage, outcome: str = "moved") -> Callable[[], float]:
    return lambda: stage.gateway.metrics.value("roost_handovers_total", outcome)


async def test_idle_conversations_move_and_then_the_node_is_told(stage: Stage) -> None:
    """Each is computed once on the other node, from its own words, and its next turn is there."""
    a, b = stage.nodes
    _drain(stage)
    await until(lambda: a.vacant == [True], what="the node is told")
    assert _moved(stage)() == len(TALKS)
    assert [texts(opened) for opened in b.opened] == [SAID] * len(TALKS)
    assert {opened.request.max_tokens for opened in b.opened} == {1}
    b.on_open = holding(b, HELD)
    for name in TALKS:
        reply = await ask(stage.port, "POST", PATH, turn("two", name))
        assert (reply.status, reply.headers["x-roost-node"]) == (200, "b")
        assert reply.headers["x-roost-placement"] == "moved(home_drained)"
        assert "x-roost-lost-tokens" not in reply.headers
        assert texts(b.opened[-1]) == [*SAID, "user: two"]
    reply = await ask(stage.port, "POST", PATH, turn("three", "c0"))
    assert reply.headers["x-roost-placement"] == "warm", "it is told once"


async def test_a_turn_that_comes_meanwhile_waits_for_it(stage: Stage) -> None:
    """The lock is the turns' own: nothing of a conversation runs twice at once."""
    _, b = stage.nodes
    b.on_open = None
    _drain(stage)
    await until(lambda: len(b.opened) == QUICK.at_once, what="two are being moved")
    client = await stage.client()
    client.send("POST", PATH, turn("two", "c0"))
    registry = stage.gateway.infer.conversations
    await until(lambda: registry.counts().waiting == 1, what="the turn waits")
    for opened in b.opened:
        holding(b, 0)(opened)
    b.on_open = holding(b, HELD)
    reply = await client.reply()
    assert (reply.status, reply.headers["x-roost-placement"]) == (200, "moved(home_drained)")


async def test_who_cannot_be_moved_is_tried_again_and_then_left(
    stage: Stage, capsys: pytest.CaptureFixture[str]
) -> None:
    """A conversation that nobody takes holds the drain up for a while, and is rebuilt later."""
    a, b = stage.nodes
    b.on_open = lambda opened: b.refuse(opened.stream, Failure("internal", "broken"))
    _drain(stage)
    await until(lambda: a.vacant == [True], what="the node is told all the same")
    assert _moved(stage, "failed")() >= QUICK.tries * len(TALKS)
    told = lines_of(capsys, "conversation_not_moved")
    assert len(told) == _moved(stage, "failed")()
    assert {line["reason"] for line in told} == {"internal"}
    assert len({line["session"] for line in told}) == len(TALKS)
    assert _moved(stage)() == 0


async def test_undrained_it_is_at_work_again(stage: Stage) -> None:
    """An operator may change their mind before and after the node has let go."""
    a, _ = stage.nodes
    _drain(stage)
    await until(lambda: a.vacant == [True], what="the node is told")
    stage.gateway.mind.park_node(NodeId("a"), parked=False)
    await until(lambda: a.vacant == [True, False], what="and told again")


async def test_a_node_that_does_not_understand_is_not_told(stage: Stage) -> None:
    """One of an older version is drained as before."""
    a, b = stage.nodes
    before = stage.gateway.mind.coordinator.fleet()
    a.report(msgspec.structs.replace(status(slots=3), vacant=None))
    state = stage.gateway.mind.coordinator
    await until(lambda: state.fleet() != before, what="the report is in")
    _drain(stage)
    await until(lambda: _moved(stage)() == len(TALKS), what="all are moved")
    _drain(stage, "b")
    await until(lambda: b.vacant == [True], what="the other is told")
    assert a.vacant == []


async def test_where_words_are_kept_is_known_after_a_restart(tmp_path: Path) -> None:
    """The gateway that comes next finds each conversation where it was moved to."""
    home = Home.open(tmp_path / "home")
    async with staged(settings(), journal=_journal(home)) as stage:
        await _talked(stage)
        _drain(stage)
        await until(lambda: _moved(stage)() == len(TALKS), what="all are moved")
    async with staged(settings(), journal=_journal(home)) as stage:
        for name in ("a", "b", "c"):
            await _join(stage, name)
        for name in TALKS:
            reply = await ask(stage.port, "POST", PATH, turn("two", name))
            assert reply.headers["x-roost-node"] == "b"


async def test_without_words_there_is_nothing_to_move() -> None:
    """Where nothing is kept, the next turn is all that anybody can compute."""
    async with staged(settings()) as stage:
        await _talked(stage)
        _drain(stage)
        await until(lambda: stage.nodes[0].vacant == [True], what="the node is told")
        assert stage.nodes[1].opened == []
        assert _moved(stage, "nothing_kept")() == len(TALKS)


def _journal(home: Home) -> Journal:
    return Journal(open_disk(home, 2**30), JournalSettings())
