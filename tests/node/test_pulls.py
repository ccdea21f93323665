"""Pulls onto a node: in turn, told of from beginning to end, and nobody's to wait for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

from roost.core.snapshots import PullView
from roost.errors import fail
from roost.node.models.pulls import CANCELLED, FULL, VIEWS_MAX, WAITING_MAX, Puller
from roost.observe import logs
from roost.store.pulling.pull import Watch
from roost.wire.messages import Pull
from tests.conftest import until

Fetch = Callable[[Pull, Watch], str]


class Told:
    """What the agent would be told."""

    def __init__(self) -> None:
        self.all: list[tuple[PullView, ...]] = []

    async def __call__(self, views: tuple[PullView, ...]) -> None:
        """Take one report."""
        self.all.append(views)

    def of(self, job: str) -> list[str]:
        """The stages of one pull, each once."""
        stages = [view.stage for views in self.all for view in views if view.job == job]
        return list(dict.fromkeys(stages))


@asynccontextmanager
async def working(fetch: Fetch) -> AsyncIterator[tuple[Puller, Told]]:
    """Run a puller with this way to fetch."""
    puller, told = Puller(fetch, logs.get()), Told()
    task = asyncio.get_running_loop().create_task(puller.run(told))
    try:
        yield puller, told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def last(puller: Puller, job: str) -> PullView:
    """What is known of one pull now."""
    return next(view for view in puller.views() if view.job == job)


def is_over(puller: Puller, job: str) -> bool:
    """Whether nothing more comes of one pull."""
    return last(puller, job).is_over


async def test_a_pull_is_told_of_from_beginning_to_end() -> None:
    """Stages, bytes and the model's id; a job that is asked for twice is done once."""
    fetched: list[str] = []
    begin, end = threading.Event(), threading.Event()

    def fetch(pull: Pull, watch: Watch) -> str:
        fetched.append(pull.source)
        assert begin.wait(10)
        watch("downloading", 5, 10)
        assert end.wait(10)
        return "m"

    async with working(fetch) as (puller, told):
        for _ in range(2):
            puller.ask(Pull("j", "hf:o/r"))
        await until(lambda: told.of("j") == ["waiting"], what="it is told of")
        begin.set()
        await until(lambda: "downloading" in told.of("j"), what="its progress is told")
        end.set()
        await until(lambda: "done" in told.of("j"), what="its end is told")
        puller.ask(Pull("j", "hf:o/r"))
        assert last(puller, "j") == PullView("j", "hf:o/r", "done", 5, 10, "m")
        assert told.of("j") == ["waiting", "downloading", "done"]
        assert fetched == ["hf:o/r"]


async def test_failures_are_told_and_the_next_one_goes_on() -> None:
    """What is wrong is said in words; a defect costs one pull."""

    def fetch(pull: Pull, _watch: Watch) -> str:
        if pull.job == "refused":
            raise fail("unauthorized", "The hub refuses access.")
        if pull.job == "defect":
            raise ZeroDivisionError
        return "m"

    async with working(fetch) as (puller, _told):
        for job in ("refused", "defect", "good"):
            puller.ask(Pull(job, "hf:o/r"))
        await until(lambda: last(puller, "good").is_over, what="the last one is over")
        assert last(puller, "refused").failure == "The hub refuses access."
        assert "defect" in (last(puller, "defect").failure or "")
        assert (last(puller, "good").stage, last(puller, "good").failure) == ("done", None)


async def test_one_at_a_time_and_so_many_wait() -> None:
    """The others wait in order; too many are refused, and ended ones are forgotten at last."""
    go = threading.Event()
    running: list[str] = []

    def fetch(pull: Pull, _watch: Watch) -> str:
        running.append(pull.job)
        assert go.wait(10)
        return "m"

    async with working(fetch) as (puller, _told):
        puller.ask(Pull("0", "hf:o/r"))
        await until(lambda: running == ["0"], what="the first one runs")
        for number in range(1, WAITING_MAX + 2):
            puller.ask(Pull(str(number), "hf:o/r"))
        assert last(puller, str(WAITING_MAX + 1)).failure == FULL
        assert running == ["0"]
        go.set()
        await until(lambda: last(puller, str(WAITING_MAX)).is_over, what="all are over")
        assert running == [str(number) for number in range(WAITING_MAX + 1)]
        for number in range(100, 100 + VIEWS_MAX):
            puller.ask(Pull(str(number), "hf:o/r"))
            await until(partial(is_over, puller, str(number)), what="it is over")
        assert len(puller.views()) == VIEWS_MAX


async def test_a_fetch_that_says_nothing_does_not_keep_the_node() -> None:
    """The end waits for no thread, and the thread's next sign of life is its last."""
    go, ended = threading.Event(), threading.Event()

    def fetch(_pull: Pull, watch: Watch) -> str:
        watch("downloading", 0, None)
        assert go.wait(10)
        try:
            watch("downloading", 1, None)
        finally:
            ended.set()
        raise AssertionError("nobody wants this any more")

    async with working(fetch) as (puller, told):
        puller.ask(Pull("j", "hf:o/r"))
        await until(lambda: "downloading" in told.of("j"), what="it runs")
    go.set()
    await until(ended.is_set, what="the thread has ended")
    assert told.of("j")[-1] == "downloading"


async def test_a_pull_that_nobody_wants_any_more_ends_at_once() -> None:
    """Also the one that runs and says nothing; the next begins, and late words change nothing."""
    go, ended = threading.Event(), threading.Event()

    def fetch(pull: Pull, watch: Watch) -> str:
        if pull.job == "next":
            return "m"
        watch("downloading", 5, 10)
        assert go.wait(10)
        try:
            watch("downloading", 6, 10)
        finally:
            ended.set()
        raise AssertionError("nobody wants this any more")

    async with working(fetch) as (puller, told):
        puller.ask(Pull("j", "hf:o/r"))
        puller.ask(Pull("next", "hf:o/r"))
        await until(lambda: "downloading" in told.of("j"), what="it runs")
        puller.cancel("j")
        puller.cancel("j")
        await until(lambda: last(puller, "next").stage == "done", what="the next one is done")
        cancelled = PullView("j", "hf:o/r", "failed", 5, 10, failure=CANCELLED.message)
        assert last(puller, "j") == cancelled
        go.set()
        await until(ended.is_set, what="the thread has ended")
        puller.cancel("next")
        puller.cancel("unknown")
        assert last(puller, "next").stage == "done"
        assert last(puller, "j") == cancelled


async def test_a_pull_that_waits_is_given_up_where_it_stands() -> None:
    """It never begins."""
    go = threading.Event()
    fetched: list[str] = []

    def fetch(pull: Pull, _watch: Watch) -> str:
        fetched.append(pull.job)
        assert go.wait(10)
        return "m"

    async with working(fetch) as (puller, _told):
        for job in ("a", "b", "c"):
            puller.ask(Pull(job, "hf:o/r"))
        await until(lambda: fetched == ["a"], what="the first one runs")
        puller.cancel("b")
        assert last(puller, "b").failure == CANCELLED.message
        go.set()
        await until(lambda: last(puller, "c").is_over, what="the last one is over")
        assert fetched == ["a", "c"]
