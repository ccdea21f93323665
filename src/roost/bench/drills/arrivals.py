"""SHELL: open loops, whose send times are fixed before anything is sent, and closed ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic

from roost.bench.drills.answers import Answer
from roost.bench.drills.asking import Chat, ask

OPEN_MAX = 40_000


async def open_loop(chat: Callable[[int], Chat], per_s: float, seconds: float) -> list[Answer]:
    """Ask at a constant rate however long answers take; return when all have ended.

    Request n is due at n / rate, and its latency counts from there.
    """
    return await open_steps(chat, ((per_s, seconds),))


def due_times(steps: Sequence[tuple[float, float]]) -> list[float]:
    """Return when requests are due, for steps of (rate per second, seconds) in a row."""
    times: list[float] = []
    begin_s = 0.0
    for per_s, seconds in steps:
        times += [begin_s + number / per_s for number in range(round(per_s * seconds))]
        begin_s += seconds
    return times


async def open_steps(
    chat: Callable[[int], Chat], steps: Sequence[tuple[float, float]]
) -> list[Answer]:
    """Ask at the rates of these steps however long answers take; return when all have ended."""
    times = due_times(steps)
    if len(times) > OPEN_MAX:
        raise ValueError(f"{len(times)} requests are more than this client can be trusted with")
    begin_s = monotonic() + 0.02
    async with asyncio.TaskGroup() as group:
        tasks = []
        for number, time_s in enumerate(times):
            due_s = begin_s + time_s
            if (wait_s := due_s - monotonic()) > 0:
                await asyncio.sleep(wait_s)
            tasks.append(group.create_task(ask(chat(number), due_s)))
    return [task.result() for task in tasks]


async def closed_loop(chat: Callable[[int], Chat], clients: int, seconds: float) -> list[Answer]:
    """Let so many clients ask one after the other for some seconds; what runs then is finished."""
    until_s = monotonic() + seconds
    answers: list[Answer] = []

    async def client() -> None:
        while monotonic() < until_s:
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
