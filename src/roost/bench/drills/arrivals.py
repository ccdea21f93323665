"""SHELL: open loops, whose send times are fixed before anything is sent, and closed ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from roost.bench.drills.asking import Answer, Chat, ask

OPEN_MAX = 4000


async def open_loop(chat: Callable[[int], Chat], per_s: float, seconds: float) -> list[Answer]:
    """Ask at a constant rate however long answers take; return when all have ended.

    Request n is due at n / rate, and its latency counts from there.
    """
    loop = asyncio.get_running_loop()
    begin_s = loop.time() + 0.02
    count = round(per_s * seconds)
    if count > OPEN_MAX:
        raise ValueError(f"{count} requests at once are more than this client can be trusted with")
    async with asyncio.TaskGroup() as group:
        tasks = []
        for number in range(count):
            due_s = begin_s + number / per_s
            if (wait_s := due_s - loop.time()) > 0:
                await asyncio.sleep(wait_s)
            tasks.append(group.create_task(ask(chat(number), due_s)))
    return [task.result() for task in tasks]


async def closed_loop(chat: Callable[[int], Chat], clients: int, seconds: float) -> list[Answer]:
    """Let so many clients ask one after the other for some seconds; what runs then is finished."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + seconds
    answers: list[Answer] = []

    async def client() -> None:
        while loop.time() < until_s:
            answers.append(await ask(chat(len(answers))))

    async with asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client())
    return answers


async def at_once(chats: list[Chat]) -> list[Answer]:
    """Ask for all of them at the same moment."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ask(chat)) for chat in chats]
    return [task.result() for task in tasks]
