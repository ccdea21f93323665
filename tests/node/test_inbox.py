"""The inbox: bounded, in order, and woken in time."""

from __future__ import annotations

import asyncio

import pytest

from roost.node.inbox import Inbox


async def test_items_come_out_in_order_and_waiting_ends_at_once() -> None:
    """A reader that waits for an hour is woken by the first item."""
    inbox: Inbox[int] = Inbox(10)
    async with asyncio.TaskGroup() as tasks:
        reader = tasks.create_task(inbox.wait(3600.0))
        await asyncio.sleep(0)
        await inbox.put(1)
        await inbox.put(2)
        await reader
    await inbox.wait(3600.0)
    assert (len(inbox), inbox.take(), inbox.take(), inbox.take()) == (2, 1, 2, None)
    inbox.close()


async def test_a_full_inbox_lets_nobody_in() -> None:
    """Who can wait does, who cannot is told; every place that is freed is used once."""
    inbox: Inbox[int] = Inbox(2)
    assert inbox.put_now(1)
    assert inbox.put_now(2)
    assert not inbox.put_now(9)
    async with asyncio.TaskGroup() as tasks:
        waiting = [tasks.create_task(inbox.put(number)) for number in (3, 4)]
        await asyncio.sleep(0)
        assert inbox.take() == 1
        await asyncio.sleep(0)
        assert ([task.done() for task in waiting], len(inbox)) == ([True, False], 2)
        assert [inbox.take(), inbox.take()] == [2, 3]
        await asyncio.sleep(0)
        assert inbox.take() == 4


@pytest.mark.parametrize("has_turn", [True, False])
async def test_a_turn_that_is_not_used_is_passed_on(has_turn: bool) -> None:
    """A writer that is cancelled in the line, or just as it may enter, keeps nobody out."""
    inbox: Inbox[int] = Inbox(1)
    await inbox.put(1)
    async with asyncio.TaskGroup() as tasks:
        leaves, stays = [tasks.create_task(inbox.put(number)) for number in (2, 3)]
        await asyncio.sleep(0)
        if has_turn:
            assert inbox.take() == 1
        leaves.cancel()
        await asyncio.sleep(0)
        if not has_turn:
            assert inbox.take() == 1
        await stays
    assert inbox.take() == 3


async def test_a_wait_ends_with_its_time() -> None:
    """Nothing comes; a shorter wait than the one before has a timer of its own."""
    inbox: Inbox[int] = Inbox(1)
    loop = asyncio.get_running_loop()
    waiting = loop.create_task(inbox.wait(3600.0))
    await asyncio.sleep(0)
    inbox.put_now(1)
    await waiting
    assert inbox.take() == 1
    began = loop.time()
    await inbox.wait(0.01)
    assert 0.005 < loop.time() - began < 60.0
    inbox.close()
