"""Jobs: stopped before, during and after their work, they always come to their own end."""

from __future__ import annotations

import asyncio

import pytest

from roost.node.jobs import Job


class Work:
    """Waits in a stoppable part, then in one that is not; remembers how far it came."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.first = asyncio.Event()
        self.last = asyncio.Event()

    async def __call__(self, job: Job) -> None:
        """Both parts, then the end."""
        await job.stoppable(self._begin)
        self.steps.append("leaving")
        await self.last.wait()
        self.steps.append("left")

    async def _begin(self) -> None:
        self.steps.append("begun")
        await self.first.wait()
        self.steps.append("done")


async def test_work_that_is_not_stopped_runs_through() -> None:
    """Every step is taken; a stop after the end changes nothing."""
    work, job = Work(), Job()
    work.first.set()
    work.last.set()
    async with asyncio.TaskGroup() as group:
        job.start(group, work)
    job.stop()
    assert work.steps == ["begun", "done", "leaving", "left"]


async def test_a_stop_before_the_first_step_prevents_the_work() -> None:
    """The stoppable part is skipped, and the job still comes to its end."""
    work, job = Work(), Job()
    work.last.set()
    async with asyncio.TaskGroup() as group:
        job.start(group, work)
        job.stop()
    assert work.steps == ["leaving", "left"]


async def test_a_stop_interrupts_once_and_never_the_leaving() -> None:
    """The stoppable part ends early; a second stop does not cut short what follows."""
    work, job = Work(), Job()
    async with asyncio.TaskGroup() as group:
        job.start(group, work)
        await asyncio.sleep(0)
        job.stop()
        job.stop()
        await asyncio.sleep(0)
        job.stop()
        await asyncio.sleep(0)
        assert work.steps == ["begun", "leaving"]
        work.last.set()
    assert work.steps == ["begun", "leaving", "left"]


@pytest.mark.parametrize("ending", ["returns", "fails", "waits"])
async def test_work_that_stops_itself_is_left_in_peace(ending: str) -> None:
    """Where it ends without waiting again, and where it does, the leaving hears nothing of it."""
    steps: list[str] = []

    async def work(job: Job) -> None:
        async def begin() -> None:
            job.stop()
            if ending == "fails":
                raise LookupError
            if ending == "waits":
                await asyncio.Event().wait()

        try:
            await job.stoppable(begin)
        except LookupError:
            steps.append("failed")
        task = asyncio.current_task()
        assert task is not None
        assert not task.cancelling(), "a timeout of the leaving would not be told apart from it"
        await asyncio.sleep(0)
        await job.stoppable(begin)
        steps.append("left")

    async with asyncio.TaskGroup() as group:
        Job().start(group, work)
    assert steps == (["failed", "left"] if ending == "fails" else ["left"])


async def test_a_cancel_that_is_no_stop_goes_through() -> None:
    """When the whole group is cancelled the job is too."""
    work, job = Work(), Job()

    async def fail_beside_it() -> None:
        await asyncio.sleep(0)
        raise ValueError

    async def both() -> None:
        async with asyncio.TaskGroup() as group:
            job.start(group, work)
            group.create_task(fail_beside_it())

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    assert [type(e) for e in caught.value.exceptions] == [ValueError]
    assert work.steps == ["begun"]
