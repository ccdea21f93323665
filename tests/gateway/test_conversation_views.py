"""Whose conversations are listed, shown and removed, over real sockets."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import cast

import msgspec
import pytest

from roost.core.ids import TenantId
from roost.gateway.conversations.infer import InferSettings
from roost.gateway.front.access import Principal, by_digest
from roost.store.conversations.journal import Journal, JournalSettings
from tests.conftest import until
from tests.gateway.conftest import SETTINGS, Reply, Stage, ask, staged
from tests.gateway.test_infer import PATH, RELAY, ran, saying, texts, turn

AT = "/roost/v1/conversations"
ONE, TWO, BOSS = ({"authorization": f"Bearer {name}"} for name in ("one", "two", "boss"))


@pytest.fixture
async def stage() -> AsyncIterator[Stage]:
    """A gateway with two users and an operator."""
    keys = {
        hashlib.sha256(name.encode()).hexdigest(): Principal(TenantId(f"key:{name}"), role)
        for name, role in (("one", "user"), ("two", "user"), ("boss", "admin"))
    }
    settings = msgspec.structs.replace(SETTINGS, infer=InferSettings(relay=RELAY))
    journal = Journal(None, JournalSettings())
    async with staged(settings, by_digest(keys), journal) as made:
        node = made.add_node()
        node.on_open = saying(node, "CANARY")
        await made.ready()
        await ask(made.port, "POST", PATH, turn("mine", "a/b c"), **ONE)
        await ask(made.port, "POST", PATH, turn("hers", "c2"), **TWO)
        yield made


def names(reply: Reply) -> list[str]:
    """The conversations in a list."""
    views = cast("list[dict[str, object]]", reply.json()["conversations"])
    return [str(view["name"]) for view in views]


async def test_everybody_lists_their_own_and_operators_all(stage: Stage) -> None:
    """The list has no word of what was said."""
    for who, expected in ((ONE, ["a/b c"]), (TWO, ["c2"]), (BOSS, ["c2", "a/b c"])):
        reply = await ask(stage.port, "GET", AT, **who)
        assert names(reply) == expected
        assert b"CANARY" not in reply.body
    assert (await ask(stage.port, "GET", AT)).status == 401


async def test_only_who_said_it_may_read_it(stage: Stage) -> None:
    """To others, operators included, a conversation is not there."""
    reply = await ask(stage.port, "GET", f"{AT}/a%2Fb%20c", **ONE)
    messages = cast("list[dict[str, object]]", reply.json()["messages"])
    assert [message["content"] for message in messages] == ["mine", "CANARY"]
    for who in (TWO, BOSS):
        assert (await ask(stage.port, "GET", f"{AT}/a%2Fb%20c", **who)).status == 404


async def test_removed_is_forgotten(stage: Stage) -> None:
    """The next turn of that name begins anew; nobody removes what is not theirs."""
    assert (await ask(stage.port, "DELETE", f"{AT}/c2", **ONE)).status == 404
    hers = f"{AT}/c2?tenant=key:two"
    assert (await ask(stage.port, "DELETE", hers, **ONE)).status == 403
    assert (await ask(stage.port, "DELETE", hers, **BOSS)).status == 200
    assert (await ask(stage.port, "DELETE", hers, **BOSS)).status == 404
    assert (await ask(stage.port, "DELETE", f"{AT}/a%2Fb%20c", **ONE)).status == 200
    assert names(await ask(stage.port, "GET", AT, **BOSS)) == []


async def test_a_conversation_in_mid_turn_is_not_removed(stage: Stage) -> None:
    """Its turn would bring half of it back: whoever removes is told when to try again."""
    silent = stage.add_node("n2")
    mind = stage.gateway.mind
    mind.park_node(next(iter(mind.links)), parked=True)
    await until(lambda: len(mind.links) == 2, what="both are there")
    await stage.ready()
    client = await stage.client()
    client.send("POST", PATH, turn("more", "c2"), **TWO)
    await until(ran(silent, 1), what="it runs")
    assert texts(silent.opened[0]) == ["user: hers", "assistant: CANARY", "user: more"]
    reply = await ask(stage.port, "DELETE", f"{AT}/c2", **TWO)
    assert reply.status == 429
    assert "retry-after" in reply.headers
