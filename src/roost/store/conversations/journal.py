"""SHELL: one thread that owns conversations.db: jobs in order, those that wait together in one go.

A commit costs a sync of the disk, some milliseconds; whatever arrives meanwhile shares the next.
A disk that is full or broken does not end conversations: what is said then is kept in memory, and
moves to the disk when it can be written again. Where that is not enough, it is refused.
"""

from __future__ import annotations

import contextlib
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from roost.core.conversation import ConversationView, KeptConversation, SaidTurn, Summary
from roost.core.ids import ConversationKey, TenantId
from roost.core.pin import Pin
from roost.core.request import Message
from roost.core.response import KeptResponse
from roost.errors import Failure, RoostError
from roost.store.conversations.responses import CHAIN_MAX
from roost.store.conversations.transcripts import LIST_MAX, Shelf, open_memory

CLOSE_S = 10.0
"""How long the last jobs may take at the end."""

DISK_FAILED = Failure("storage_error", "Conversations cannot be read or written on this disk now.")
NOT_KEPT = Failure(
    "storage_error",
    "This could not be kept on disk, so it counts as not said: free some space and say it again.",
)
GIVEN_UP = Failure(
    "storage_error",
    "The disk was too slow to keep this, so it counts as not said: say it again later.",
)
BEHIND = Failure("storage_error", "The disk does not keep up with what has to be written.")


class JournalSettings(msgspec.Struct, frozen=True):
    """Limits: jobs that may wait, jobs in one commit, text kept in memory, time between two tries.

    A disk that failed is tried again every `retry_s`. Until then memory has to do, unless what no
    disk has is to be `refused`.
    """

    jobs_max: int = 4096
    group_max: int = 256
    memory_max_bytes: int = 64 * 1024 * 1024
    retry_s: float = 5.0
    refused: bool = False


class Shelves:
    """The disk's conversations and memory's, as one; used by the journal's thread alone."""

    def __init__(self, disk: Shelf | None, memory: Shelf, settings: JournalSettings) -> None:
        self._disk = disk
        self._memory = memory
        self._settings = settings
        self.ill = False
        self.dropped = 0
        self.removed = False

    def note(self, turn: SaidTurn) -> None:
        """Add a turn; raises `storage_error` where it is refused."""
        if self._disk is not None and not self.ill:
            self._disk.note(turn)
            return
        self._check_memory_will_do()
        self._memory.note(turn)
        self.dropped += self._memory.shrink(self._settings.memory_max_bytes)

    def summarise(self, key: ConversationKey, made: Summary | None, tokens: int) -> bool:
        """Note with what a model goes on; False where that cannot be noted now.

        A disk that is ill has the turns that it stands for, so memory is no place for it. Nothing
        is lost: it can be made again.
        """
        if self._disk is None:
            return self._memory.summarise(key, made, tokens)
        return not self.ill and self._disk.summarise(key, made, tokens)

    def recall(self, key: ConversationKey, *, whole: bool = False) -> KeptConversation | None:
        """Return what is kept: what the disk has of it, then what memory has."""
        # A disk that cannot be read is an error, never a conversation without its past.
        older = self._disk.recall(key, whole=whole) if self._disk is not None else None
        newer = self._memory.recall(key, whole=whole)
        if older is None or newer is None:
            return older or newer
        return msgspec.structs.replace(
            newer,
            began_unix_s=older.began_unix_s,
            messages=older.messages + newer.messages,
            summary=older.summary,
            skipped=older.skipped,
        )

    def recall_whole(self, key: ConversationKey) -> tuple[TenantId, KeptConversation] | None:
        """Return what is kept and whose it is."""
        kept = self.recall(key)
        owners = (shelf.owner(key) for shelf in self._both())
        owner = next((one for one in owners if one is not None), None)
        return None if kept is None or owner is None else (owner, kept)

    def repin(self, key: ConversationKey, pin: Pin) -> None:
        """Note where a conversation's KV is now; nothing where nothing is kept of it."""
        for shelf in self.in_use():
            shelf.repin(key, pin)

    def forget(self, key: ConversationKey) -> bool:
        """Remove a conversation, wherever it is."""
        found = [shelf.forget(key) for shelf in self._both()]
        self.removed = self.removed or any(found)
        return any(found)

    def prune(self, before_unix_s: float) -> int:
        """Remove what was last active before this."""
        count = sum(shelf.prune(before_unix_s) for shelf in self._both())
        self.removed = self.removed or count > 0
        return count

    def keep_response(self, kept: KeptResponse) -> None:
        """Add a response; raises `storage_error` where it is refused."""
        if self._disk is not None and not self.ill:
            self._disk.responses.keep(kept)
            return
        self._check_memory_will_do()
        self._memory.responses.keep(kept)
        self.dropped += self._memory.responses.shrink(self._settings.memory_max_bytes)

    def response(self, tenant: TenantId, response_id: str) -> KeptResponse | None:
        """Return a tenant's response, wherever it is."""
        found = (shelf.responses.find(tenant, response_id) for shelf in self._both())
        return next((one for one in found if one is not None), None)

    def said_before(self, tenant: TenantId, response_id: str) -> tuple[Message, ...] | None:
        """Return all that was said up to the end of a response; None where some of it is gone."""
        chain: list[KeptResponse] = []
        while response_id:
            kept = self.response(tenant, response_id)
            if kept is None or len(chain) == CHAIN_MAX:
                return None
            chain.append(kept)
            response_id = kept.previous
        return tuple(m for one in reversed(chain) for m in (*one.asked, *one.answered))

    def forget_response(self, tenant: TenantId, response_id: str) -> bool:
        """Remove a response, wherever it is."""
        found = [shelf.responses.forget(tenant, response_id) for shelf in self._both()]
        self.removed = self.removed or any(found)
        return any(found)

    def scrub(self) -> bool:
        """Leave no trace of what was removed; to be called between transactions.

        False where that has to be tried again: the disk is ill or full, or another process reads.
        """
        if self._disk is None or not self.removed:
            return True
        if self.ill:
            return False
        try:
            self.removed = not self._disk.scrub()
        except sqlite3.Error:
            return False
        return not self.removed

    def list(self, tenant: TenantId | None) -> tuple[ConversationView, ...]:
        """List conversations, the last active first."""
        found = dict(entry for shelf in self._both() for entry in shelf.list(tenant))
        views = sorted(found.values(), key=lambda view: -view.active_unix_s)
        return tuple(views[:LIST_MAX])

    def heal(self) -> bool:
        """Move what memory has to a disk that was ill; False if it still is."""
        if self._disk is None or not self.ill:
            return True
        try:
            with _whole((self._disk, self._memory)):
                for turn in self._memory.turns():
                    self._disk.note(turn)
                for kept in self._memory.responses.all():
                    self._disk.responses.keep(kept)
                self._memory.clear()
        except sqlite3.Error:
            return False
        self.ill = False
        return True

    def in_use(self) -> tuple[Shelf, ...]:
        """What a transaction has to span."""
        return (self._memory,) if self.ill else self._both()

    @contextlib.contextmanager
    def whole(self) -> Iterator[None]:
        """Let a block happen on all that is in use, or on none: then nothing was dropped either."""
        dropped = self.dropped
        try:
            with _whole(self.in_use()):
                yield
        except BaseException:
            self.dropped = dropped
            raise

    def _check_memory_will_do(self) -> None:
        if self._disk is not None and self._settings.refused:
            raise RoostError(NOT_KEPT)

    def close(self) -> None:
        """Close both."""
        for shelf in self._both():
            shelf.close()

    def _both(self) -> tuple[Shelf, ...]:
        return (self._memory,) if self._disk is None else (self._disk, self._memory)


@contextlib.contextmanager
def _whole(shelves: tuple[Shelf, ...]) -> Iterator[None]:
    """Let a block happen on all of these, or on none."""
    try:
        for shelf in shelves:
            shelf.begin()
        yield
        for shelf in shelves:
            shelf.commit()
    except BaseException:
        for shelf in shelves:
            shelf.rollback()
        raise


Work: TypeAlias = Callable[[Shelves], object]
Done: TypeAlias = Callable[[object], None]
"""Told what the work returned once that is committed, or a `Failure`; in the journal's thread."""


class Job:
    """Something to be done with conversations, and who is told.

    It is given up by another thread than its own: either that comes first, or it begins.
    """

    def __init__(self, work: Work, done: Done) -> None:
        self.done = done
        self._work = work
        self._lock = threading.Lock()
        self._begun = self._given_up = False

    def give_up(self) -> bool:
        """Have it never be done; False where it has begun, so that its end has to be waited for."""
        with self._lock:
            self._given_up = not self._begun
            return self._given_up

    def do(self, shelves: Shelves) -> object:
        """Do it, once more where its group was undone; `GIVEN_UP` where nobody wants it."""
        with self._lock:
            self._begun = not self._given_up
        return self._work(shelves) if self._begun else GIVEN_UP


class Journal:
    """Keeps conversations; `connection` None keeps them in memory only. `close` ends it."""

    def __init__(self, connection: sqlite3.Connection | None, settings: JournalSettings) -> None:
        self._settings = settings
        disk = None if connection is None else Shelf(connection)
        self._shelves = Shelves(disk, Shelf(open_memory()), settings)
        self._jobs: queue.Queue[Job | None] = queue.Queue(settings.jobs_max)
        self._tried_s = 0.0
        self._scrub_s = 0.0
        self._thread = threading.Thread(target=self._run, name="conversations", daemon=True)
        self._thread.start()

    @property
    def degraded(self) -> bool:
        """Whether the disk cannot be written, so that memory has to do."""
        return self._shelves.ill

    @property
    def dropped(self) -> int:
        """How many conversations did not fit into memory any more and are lost."""
        return self._shelves.dropped

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return self._jobs.qsize()

    def submit(self, work: Work, done: Done) -> Job:
        """Have something done, in order; `done` is told of `storage_error` where it could not."""
        job = Job(work, done)
        try:
            self._jobs.put_nowait(job)
        except queue.Full:
            done(BEHIND)
        return job

    def close(self) -> None:
        """Do what waits, then end."""
        if self._thread.is_alive():
            self._jobs.put(None)
            self._thread.join(CLOSE_S)

    def _run(self) -> None:
        running = True
        while running:
            group = self._next_group()
            jobs = [job for job in group if job is not None]
            running = len(jobs) == len(group)
            self._try_again()
            self._do(jobs)
            self._scrub()
        self._try_again(now=True)
        self._shelves.close()

    def _next_group(self) -> list[Job | None]:
        """Wait for a job, and take with it those that wait as well; empty after `retry_s`."""
        group: list[Job | None] = []
        with contextlib.suppress(queue.Empty):
            group.append(self._jobs.get(timeout=self._settings.retry_s))
            while group[-1] is not None and len(group) < self._settings.group_max:
                group.append(self._jobs.get_nowait())
        return group

    def _try_again(self, *, now: bool = False) -> None:
        due_s = self._tried_s + self._settings.retry_s
        if self._shelves.ill and (now or time.monotonic() >= due_s):
            self._tried_s = time.monotonic()
            self._shelves.heal()

    def _do(self, jobs: list[Job]) -> None:
        if not jobs:
            return
        try:
            results = self._together(jobs)
        except Exception as error:  # noqa: BLE001 - one bad job must not cost the others theirs
            self._fell_ill(error)
            results = [self._alone(job) for job in jobs]
        self._scrub()
        for job, result in zip(jobs, results, strict=True):
            # Whoever asked may have gone with its event loop.
            with contextlib.suppress(RuntimeError):
                job.done(result)

    def _scrub(self) -> None:
        """Have no trace left of what was removed; what is committed stays so if that fails."""
        if time.monotonic() >= self._scrub_s and not self._shelves.scrub():
            self._scrub_s = time.monotonic() + self._settings.retry_s

    def _together(self, jobs: list[Job]) -> list[object]:
        with self._shelves.whole():
            return [job.do(self._shelves) for job in jobs]

    def _alone(self, job: Job) -> object:
        try:
            return self._together([job])[0]
        except sqlite3.Error:
            return DISK_FAILED
        except RoostError as error:
            return error.failure
        except Exception as error:  # noqa: BLE001 - told to whoever asked
            return Failure("internal", f"A job for conversations failed: {type(error).__name__}.")

    def _fell_ill(self, error: Exception) -> None:
        if isinstance(error, sqlite3.Error):
            self._shelves.ill, self._tried_s = True, time.monotonic()
