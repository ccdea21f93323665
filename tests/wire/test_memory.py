"""The in-memory pair: order, bounds, and what a close leaves behind."""

from __future__ import annotations

import asyncio

import pytest

from roost.errors import RoostError
from roost.wire.memory import GatewayConnection, NodeConnection, memory_pair
from roost.wire.messages import Ping


async def test_messages_arrive_in_order_and_as_they_are() -> None:
    """Both directions carry the very objects that were sent."""
    node: NodeConnection
    gateway: GatewayConnection
    node, gateway = memory_pair()
    first, second, answer = Ping(1), Ping(2), Ping(3)
    await node.send(first)
    await node.send(second)
    await gateway.send(answer)
    assert await gateway.receive() is first
    assert await gateway.receive() is second
    assert await node.receive() is answer


async def test_a_full_direction_makes_the_sender_wait() -> None:
    """The third message waits until the first has been read."""
    node, gateway = memory_pair(messages_max=2)
    await node.send(Ping(1))
    await node.send(Ping(2))
    async with asyncio.TaskGroup() as group:
        third = group.create_task(node.send(Ping(3)))
        await asyncio.sleep(0)
        assert not third.done()
        assert [await gateway.receive() for _ in range(3)] == [Ping(1), Ping(2), Ping(3)]


async def test_what_was_sent_before_a_close_is_read() -> None:
    """The peer reads to the end, then learns of the close; closing twice is harmless."""
    node, gateway = memory_pair()
    await node.send(Ping(1))
    await node.close()
    await node.close()
    assert await gateway.receive() == Ping(1)
    assert await gateway.receive() is None
    assert await gateway.receive() is None


async def test_a_close_wakes_everybody() -> None:
    """A waiting reader gets None and a waiting sender a failure."""
    node, gateway = memory_pair(messages_max=1)
    await node.send(Ping(1))
    async with asyncio.TaskGroup() as group:
        blocked = group.create_task(_failure_of_send(node))
        reader = group.create_task(node.receive())
        await asyncio.sleep(0)
        await gateway.close()
    assert blocked.result() == "node_lost"
    assert reader.result() is None
    assert await _failure_of_send(gateway) == "node_lost"


async def _failure_of_send(connection: NodeConnection | GatewayConnection) -> str:
    with pytest.raises(RoostError) as caught:
        await connection.send(Ping(9))
    return caught.value.failure.reason


async def test_an_ear_hears_at_once_and_nothing_is_overtaken() -> None:
    """What an ear does not take waits, and everything after it waits behind it."""
    node, gateway = memory_pair(messages_max=2)
    heard: list[object] = []
    takes = [True, False]

    def ear(message: object) -> bool:
        taken = takes.pop(0)
        if taken:
            heard.append(message)
        return taken

    gateway.listen(ear)
    assert [node.send_now(Ping(number)) for number in (1, 2, 3, 4)] == [True, True, True, False]
    assert heard == [Ping(1)]
    assert [await gateway.receive(), await gateway.receive()] == [Ping(2), Ping(3)]
    assert not takes, "an ear is not asked while something waits"


async def test_nothing_is_handed_over_at_once_after_a_close() -> None:
    """Whichever end has closed."""
    for closing in (0, 1):
        pair = memory_pair()
        pair[1].listen(lambda _message: True)
        await pair[closing].close()
        assert not pair[0].send_now(Ping(1))
