"""A slow disk: what is told as not kept is not kept afterwards either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from queue import Queue

import pytest

from roost.core.conversation import KeptConversation
from roost.errors import Failure
from roost.gateway.conversations.archive import Archive, ArchiveSettings
from roost.observe.logs import get
from roost.observe.metrics import Metrics
from roost.store.conversations.journal import Journal, JournalSettings, Shelves
from roost.store.conversations.transcripts import open_disk
from roost.store.home import Home
from tests.conftest import until
from tests.store.test_transcripts import LARGE, key, said

WAIT_S = 30.0


class Slow:
    """A disk in the middle of something, until it is let go on; `before` goes on for that."""

    def __init__(self, journal: Journal, before: Slow | None = None) -> None:
        self._gate: Queue[None] = Queue()
        self._began: Queue[None] = Queue()
        journal.submit(self._hold, _nobody)
        if before is not None:
            before.go_on()
        self._began.get(timeout=WAIT_S)

    def go_on(self) -> None:
        """Have it be quick again."""
        self._gate.put(None)

    def _hold(self, _: Shelves) -> object:
        self._began.put(None)
        return self._gate.get(timeout=WAIT_S)


def _nobody(_result: object) -> None:
    """Nobody waits for what makes it slow."""


@asynccontextmanager
async def archived(
    home: Path, *, refused: bool, wait_s: float
) -> AsyncIterator[tuple[Archive, Journal, Metrics]]:
    """An archive on a disk."""
    disk = open_disk(Home.open(home), LARGE)
    journal, metrics = Journal(disk, JournalSettings(refused=refused)), Metrics()
    settings = ArchiveSettings(commit_wait_s=wait_s, refused=refused)
    archive = Archive(journal, settings, metrics, get())
    yield archive, journal, metrics
    await archive.close()


async def after(wait_s: float) -> None:
    """Wait until whoever has been patient for so long has lost it."""
    over = asyncio.Event()
    asyncio.get_running_loop().call_later(wait_s, over.set)
    await over.wait()


async def recalled(archive: Archive) -> list[str]:
    """What is kept of the conversation."""
    told: list[KeptConversation | Failure | None] = []
    archive.recall(key("a"), told.append)
    await until(lambda: bool(told), what="it is looked up")
    assert not isinstance(told[0], Failure)
    return [one.content for one in told[0].messages] if told[0] else []


@pytest.mark.slow
async def test_what_was_given_up_is_not_kept_later(tmp_path: Path) -> None:
    """It is told as not kept; whoever says it again has said it once."""
    # The second time the disk has to have begun within this.
    async with archived(tmp_path, refused=True, wait_s=0.5) as (archive, journal, metrics):
        slow, told = Slow(journal), list[Failure | None]()
        archive.note(said("a", "hello", "hi"), told.append)
        await until(lambda: bool(told), what="it is given up")
        slow.go_on()
        (failure,) = told
        assert failure is not None
        assert (failure.reason, "not said" in failure.message) == ("storage_error", True)
        assert await recalled(archive) == []
        archive.note(said("a", "hello", "hi"), told.append)
        await until(lambda: len(told) == 2, what="it is said again")
        assert (told[1], await recalled(archive)) == (None, ["hello", "hi"])
        assert metrics.value("roost_transcripts_lost_total") == 1


async def test_what_has_begun_is_waited_for(tmp_path: Path) -> None:
    """Nobody knows how a commit ends that has begun, so nobody is told before it has."""
    async with archived(tmp_path, refused=True, wait_s=0.0) as (archive, journal, metrics):
        before, told = Slow(journal), list[Failure | None]()
        archive.note(said("a", "hello", "hi"), told.append)
        # In the same commit, behind it.
        behind = Slow(journal, before)
        await after(0.0)
        assert told == []
        behind.go_on()
        await until(lambda: bool(told), what="it is kept")
        assert (told, await recalled(archive)) == ([None], ["hello", "hi"])
        assert metrics.value("roost_transcripts_lost_total") == 0


async def test_by_default_a_slow_disk_is_not_waited_for_and_keeps_it(tmp_path: Path) -> None:
    """The end is told after a while, and the turn is there when the disk has done it."""
    async with archived(tmp_path, refused=False, wait_s=0.05) as (archive, journal, _):
        slow, told = Slow(journal), list[Failure | None]()
        archive.note(said("a", "hello", "hi"), told.append)
        await until(lambda: bool(told), what="its end is told")
        slow.go_on()
        assert (await recalled(archive), told) == (["hello", "hi"], [None])


async def test_what_nobody_waits_for_is_not_given_up(tmp_path: Path) -> None:
    """A cut answer is kept whenever the disk comes to it."""
    async with archived(tmp_path, refused=True, wait_s=0.0) as (archive, journal, metrics):
        slow = Slow(journal)
        archive.note(said("a", "hello", "hi"), None)
        await after(0.0)
        slow.go_on()
        assert await recalled(archive) == ["hello", "hi"]
        assert metrics.value("roost_transcripts_lost_total") == 0
