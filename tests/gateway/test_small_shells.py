"""The loop, the tasks and the ids that the gateway's shells share."""

from __future__ import annotations

import asyncio

import pytest

from roost.gateway.loop import run
from roost.gateway.request_ids import RequestIds
from roost.gateway.tasks import Tasks


async def _loop_name() -> str:
    return type(asyncio.get_running_loop()).__module__


def test_serving_processes_run_on_uvloop() -> None:
    """Where uvloop is installed it is used, and the result comes back."""
    assert run(_loop_name()).startswith("uvloop")


def test_ids_are_128_bits_and_differ() -> None:
    """Ids are 32 hex digits, over the edge of a batch too."""
    ids = RequestIds()
    made = [ids() for _ in range(1000)]
    assert len(set(made)) == 1000
    assert all(len(bytes.fromhex(one)) == 16 for one in made)


@pytest.mark.slow
async def test_tasks_are_kept_and_ended() -> None:
    """A task is held while it runs and cancelled on close."""
    tasks, seen = Tasks(), list[str]()

    async def work(name: str, seconds: float) -> None:
        try:
            await asyncio.wait_for(asyncio.Event().wait(), seconds)
        except TimeoutError:
            seen.append(f"{name} done")
        except asyncio.CancelledError:
            seen.append(f"{name} cancelled")
            raise

    tasks.start(work("short", 0.01), "short")
    tasks.start(work("long", 60), "long")
    await asyncio.sleep(0)
    assert len(tasks) == 2
    await tasks.close(0.8)
    assert sorted(seen) == ["long cancelled", "short done"]
    assert len(tasks) == 0
