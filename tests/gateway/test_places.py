"""Whoever waits until an attempt's place is free."""

from __future__ import annotations

from functools import partial

from tests.conftest import until
from tests.gateway.conftest import Stage
from tests.gateway.puppet import MODEL

HELLO = {"model": MODEL, "messages": [{"role": "user", "content": "hello"}]}


async def test_two_may_wait_for_one_place_and_each_for_as_long_as_it_likes(stage: Stage) -> None:
    """The time of one is not the other's, and each is told once."""
    node = stage.add_node()
    await stage.ready()
    client = await stage.client()
    client.send("POST", "/v1/chat/completions", HELLO)
    await until(lambda: bool(node.opened), what="it runs")
    mind, told = stage.gateway.mind, list[str]()
    (turn,) = mind.turns.values()
    mind.when_free(turn, 0.01, partial(told.append, "early"))
    mind.when_free(turn, 600.0, partial(told.append, "late"))
    await until(lambda: bool(told), what="the time of one is over")
    assert told == ["early"]
    mind.when_free(turn, 600.0, partial(told.append, "third"))
    node.answer(node.opened[0], "Hello")
    assert (await client.reply()).status == 200
    await until(lambda: len(told) == 3, what="the place is free")
    assert told == ["early", "late", "third"]
