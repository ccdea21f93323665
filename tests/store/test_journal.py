"""The thread that keeps conversations: order, shared commits, a full disk, death in mid-commit."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import Queue

import pytest

from roost.core.conversation import KeptConversation, SaidTurn, Summary
from roost.errors import Failure
from roost.store.conversations.journal import Journal, JournalSettings, Shelves
from roost.store.conversations.transcripts import DAMAGED, Shelf, open_disk
from roost.store.home import Home
from tests.store.test_transcripts import LARGE, key, said

WAIT_S = 10.0


def ask(journal: Journal, work: Callable[[Shelves], object]) -> object:
    """Have something done and wait for its result."""
    told: Queue[object] = Queue()
    journal.submit(work, told.put)
    return told.get(timeout=WAIT_S)


def together(journal: Journal, *jobs: Callable[[Shelves], object]) -> None:
    """Have these done in one group, whatever comes of them."""
    gate: Queue[None] = Queue()
    began: Queue[None] = Queue()

    def hold(_: Shelves) -> object:
        began.put(None)
        return gate.get(timeout=WAIT_S)

    told: Queue[object] = Queue()
    journal.submit(hold, lambda _: None)
    began.get(timeout=WAIT_S)
    for job in jobs:
        journal.submit(job, told.put)
    gate.put(None)
    for _ in jobs:
        told.get(timeout=WAIT_S)


def note(turn: SaidTurn) -> Callable[[Shelves], object]:
    """The job that adds a turn."""
    return lambda shelves: shelves.note(turn)


def recalled(journal: Journal, name: str) -> list[str]:
    """The texts of a conversation."""
    kept = ask(journal, lambda shelves: shelves.recall(key(name)))
    if kept is None:
        return []
    assert isinstance(kept, KeptConversation)
    return [message.content for message in kept.messages]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty ROOST_HOME."""
    return Home.open(tmp_path / "home")


def test_what_is_told_is_on_disk(home: Home) -> None:
    """Once `done` is told, another connection sees the turn, and so does the next journal."""
    journal = Journal(open_disk(home, LARGE), JournalSettings())
    assert ask(journal, note(said("a", "hello", "hi"))) is None
    other = Shelf(open_disk(home, LARGE))
    assert other.recall(key("a")) is not None
    other.close()
    journal.close()
    again = Journal(open_disk(home, LARGE), JournalSettings())
    assert recalled(again, "a") == ["hello", "hi"]
    again.close()


def test_jobs_that_wait_share_a_commit_and_keep_their_order(home: Home) -> None:
    """A reading job sees every turn submitted before it, and what waits goes in one group."""
    journal = Journal(open_disk(home, LARGE), JournalSettings(group_max=64))
    told: Queue[object] = Queue()
    for number in range(100):
        journal.submit(note(said("a", f"q{number}", f"a{number}")), told.put)
    assert recalled(journal, "a") == [f"{c}{n}" for n in range(100) for c in "qa"]
    assert told.qsize() == 100
    journal.close()


def test_in_memory_nothing_touches_the_disk(home: Home) -> None:
    """Without a connection the same jobs work, and no file appears."""
    journal = Journal(None, JournalSettings())
    ask(journal, note(said("a", "hello", "hi")))
    assert recalled(journal, "a") == ["hello", "hi"]
    assert not journal.degraded
    assert ask(journal, lambda shelves: shelves.forget(key("a"))) is True
    assert recalled(journal, "a") == []
    journal.close()
    assert list(home.root.glob("conversations*")) == []


def test_what_is_removed_is_in_no_file_while_the_journal_runs(home: Home) -> None:
    """Neither the file nor its log has a word of it once the removal is told."""
    journal = Journal(open_disk(home, LARGE), JournalSettings())
    ask(journal, note(said("a", "SECRET-CANARY", "noted")))
    ask(journal, note(said("b", "kept", "yes")))
    assert b"SECRET-CANARY" in b"".join(file.read_bytes() for file in home.root.glob("conv*"))
    assert ask(journal, lambda shelves: shelves.forget(key("a"))) is True
    assert b"SECRET-CANARY" not in b"".join(file.read_bytes() for file in home.root.glob("conv*"))
    assert recalled(journal, "b") == ["kept", "yes"]
    journal.close()


def test_a_log_that_cannot_be_emptied_does_nothing_twice(home: Home) -> None:
    """What was committed is told as it is; traces of what was removed go when they can."""
    connection = open_disk(home, LARGE)
    journal = Journal(connection, JournalSettings(retry_s=0.05))
    ask(journal, note(said("a", "SECRET-CANARY", "noted")))
    open_reads: Queue[sqlite3.Cursor] = Queue()
    # A connection that still reads cannot empty its log, like one whose disk is full.
    ask(
        journal,
        lambda _: open_reads.put(
            connection.execute("select 1 union all select count(*) from turns")
        ),
    )
    gate: Queue[None] = Queue()
    journal.submit(lambda _: gate.get(timeout=WAIT_S), lambda _: None)
    told: Queue[object] = Queue()
    journal.submit(note(said("b", "kept", "once")), told.put)
    journal.submit(lambda shelves: shelves.forget(key("a")), told.put)
    gate.put(None)
    assert [told.get(timeout=WAIT_S) for _ in range(2)] == [None, True]
    assert recalled(journal, "b") == ["kept", "once"]
    assert not journal.degraded
    ask(journal, lambda _: open_reads.get().close())
    files = partial(home.root.glob, "conv*")
    while b"SECRET-CANARY" in b"".join(file.read_bytes() for file in files()):
        ask(journal, lambda _: None)
    journal.close()


def test_a_reader_elsewhere_holds_up_no_removal(home: Home) -> None:
    """Another process that reads keeps the log as it is for so long, and costs nobody a turn."""
    journal = Journal(open_disk(home, LARGE), JournalSettings(retry_s=0.05))
    ask(journal, note(said("a", "SECRET-CANARY", "noted")))
    reader = sqlite3.connect(home.root / "conversations.db", isolation_level=None)
    reader.execute("begin")
    reader.execute("select * from turns").fetchall()
    assert ask(journal, lambda shelves: shelves.forget(key("a"))) is True
    assert ask(journal, note(said("b", "kept", "once"))) is None
    reader.close()
    files = partial(home.root.glob, "conv*")
    while b"SECRET-CANARY" in b"".join(file.read_bytes() for file in files()):
        ask(journal, lambda _: None)
    assert recalled(journal, "b") == ["kept", "once"]
    journal.close()


def test_what_is_removed_while_the_disk_is_ill_goes_later(home: Home) -> None:
    """A removal that could be done leaves its traces only until the disk is well again."""
    small = open_disk(home, 64 * 1024)
    journal = Journal(small, JournalSettings(retry_s=0.05))
    ask(journal, note(said("a", "SECRET-CANARY", "noted")))
    ask(journal, note(said("b", "x" * 100_000, "")))
    assert journal.degraded
    assert ask(journal, lambda shelves: shelves.forget(key("a"))) is True
    ask(journal, lambda _: small.execute("pragma max_page_count = 100000").fetchone())
    files = partial(home.root.glob, "conv*")
    while b"SECRET-CANARY" in b"".join(file.read_bytes() for file in files()):
        ask(journal, lambda _: None)
    journal.close()


def test_a_damaged_conversation_is_told_and_costs_no_other(home: Home) -> None:
    """Its reader hears that it is damaged, the disk is not given up for it, and it can go."""
    connection = open_disk(home, LARGE)
    journal = Journal(connection, JournalSettings())
    ask(journal, note(said("a", "hello", "hi")))
    ask(journal, note(said("b", "kept", "once")))
    change = "update turns set asked = cast(asked as blob) where key = ?"
    ask(journal, lambda _: connection.execute(change, (key("a"),)).rowcount)
    assert ask(journal, lambda shelves: shelves.recall(key("a"))) == DAMAGED
    assert not journal.degraded
    assert recalled(journal, "b") == ["kept", "once"]
    assert ask(journal, lambda shelves: shelves.forget(key("a"))) is True
    assert recalled(journal, "a") == []
    journal.close()


def test_a_full_disk_degrades_to_memory_and_heals(home: Home) -> None:
    """A turn that does not fit the disk is kept in memory, and moves once there is room."""
    small = open_disk(home, 64 * 1024)
    journal = Journal(small, JournalSettings(retry_s=0.05))
    assert ask(journal, note(said("a", "first", "1"))) is None
    assert ask(journal, note(said("a", "x" * 100_000, "2"))) is None
    assert journal.degraded
    assert recalled(journal, "a") == ["first", "1", "x" * 100_000, "2"]
    ask(journal, lambda _: small.execute("pragma max_page_count = 100000").fetchone())
    while journal.degraded:
        ask(journal, lambda _: None)
    assert recalled(journal, "a") == ["first", "1", "x" * 100_000, "2"]
    journal.close()
    disk = Shelf(open_disk(home, LARGE))
    kept = disk.recall(key("a"))
    assert kept is not None
    assert len(kept.messages) == 4
    disk.close()


def test_a_disk_that_is_ill_keeps_the_summary_that_it_has(home: Home) -> None:
    """Turns go to memory, summaries wait: what they stand for is counted on the disk."""
    small = open_disk(home, 64 * 1024)
    journal = Journal(small, JournalSettings(retry_s=100.0))
    made = Summary("one", 1, 2, "proactive", 5)
    for text in ("1", "2"):
        ask(journal, note(said("a", text, text)))
    assert ask(journal, lambda shelves: shelves.summarise(key("a"), made, 9)) is True
    assert recalled(journal, "a") == ["2", "2"]
    ask(journal, note(said("a", "x" * 100_000, "3")))
    other = Summary("other", 2, 3, "proactive", 5)
    assert ask(journal, lambda shelves: shelves.summarise(key("a"), other, 9)) is False
    assert recalled(journal, "a") == ["2", "2", "x" * 100_000, "3"]
    kept = ask(journal, lambda shelves: shelves.recall(key("a")))
    assert isinstance(kept, KeptConversation)
    assert (kept.summary, kept.turns, kept.compacted) == (made, 3, None)
    journal.close()


def test_memory_is_bounded_while_the_disk_is_full(home: Home) -> None:
    """Of what does not fit the longest idle conversations go first, and are counted."""
    settings = JournalSettings(memory_max_bytes=2_500, retry_s=100.0)
    journal = Journal(open_disk(home, 64 * 1024), settings)
    ask(journal, note(said("huge", "x" * 100_000, "")))
    for number in range(4):
        ask(journal, note(said(f"c{number}", "y" * 1000, "", 200.0 + number)))
    assert journal.degraded
    assert journal.dropped == 3
    assert [len(recalled(journal, f"c{number}")) for number in range(4)] == [0, 0, 2, 2]
    journal.close()


def test_what_is_undone_counts_once() -> None:
    """A group with a defect is undone and done job by job: neither text nor loss counts twice."""
    journal = Journal(None, JournalSettings(memory_max_bytes=1_000))
    first = [note(said(f"c{number}", "y" * 300, "", float(number))) for number in range(3)]
    together(journal, *first, _defect)
    assert [len(recalled(journal, f"c{number}")) for number in range(3)] == [2, 2, 2]
    assert journal.dropped == 0
    together(journal, lambda shelves: shelves.forget(key("c0")), _defect)
    together(journal, *(note(said(f"d{n}", "y" * 300, "", 9.0 + n)) for n in range(2)), _defect)
    assert journal.dropped == 1
    kept = [name for name in ("c1", "c2", "d0", "d1") if recalled(journal, name)]
    assert kept == ["c2", "d0", "d1"]
    journal.close()


def test_a_disk_that_cannot_be_read_is_an_error_not_an_empty_past(home: Home) -> None:
    """Whoever asks is told `storage_error`; new turns go to memory."""
    connection = open_disk(home, LARGE)
    journal = Journal(connection, JournalSettings(retry_s=100.0))
    ask(journal, note(said("a", "hello", "hi")))
    ask(journal, lambda _: connection.execute("alter table turns rename to elsewhere").fetchone())
    result = ask(journal, lambda shelves: shelves.recall(key("a")))
    assert isinstance(result, Failure)
    assert result.reason == "storage_error"
    assert ask(journal, note(said("b", "x", "y"))) is None
    journal.close()


def test_a_defect_in_one_job_costs_no_other(home: Home) -> None:
    """Its asker hears of it; those in the same group are done."""
    journal = Journal(open_disk(home, LARGE), JournalSettings())
    told: Queue[object] = Queue()
    journal.submit(note(said("a", "1", "1")), told.put)
    journal.submit(_defect, told.put)
    journal.submit(note(said("a", "2", "2")), told.put)
    results = [told.get(timeout=WAIT_S) for _ in range(3)]
    assert [isinstance(one, Failure) for one in results] == [False, True, False]
    assert recalled(journal, "a") == ["1", "1", "2", "2"]
    assert not journal.degraded
    journal.close()


def test_the_queue_is_bounded(home: Home) -> None:
    """Whoever comes while too many wait is told at once."""
    gate: Queue[None] = Queue()
    began: Queue[None] = Queue()
    journal = Journal(open_disk(home, LARGE), JournalSettings(jobs_max=2))

    def hold(_: Shelves) -> object:
        began.put(None)
        return gate.get(timeout=WAIT_S)

    told: Queue[object] = Queue()
    journal.submit(hold, told.put)
    began.get(timeout=WAIT_S)
    for _ in range(3):
        journal.submit(lambda _: None, told.put)
    refused = told.get(timeout=WAIT_S)
    assert isinstance(refused, Failure)
    assert refused.reason == "storage_error"
    assert journal.waiting == 2
    gate.put(None)
    assert [told.get(timeout=WAIT_S) for _ in range(3)] == [None, None, None]
    journal.close()


WRITER = """
import sys
from pathlib import Path
from queue import Queue
from roost.store.home import Home
from roost.store.conversations.journal import Journal, JournalSettings
from roost.store.conversations.transcripts import open_disk
from tests.store.test_transcripts import said

journal = Journal(open_disk(Home.open(Path(sys.argv[1])), 2**30), JournalSettings())
told = Queue()
for number in range(10**6):
    name = f"c{number % 7}"
    turn = said(name, f"question {number}", "answer " * 50, float(number))
    journal.submit(lambda shelves, turn=turn: shelves.note(turn), lambda _, n=number: told.put(n))
    while number - told.qsize() > 200 or not told.empty():
        print(told.get(), flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("lines", [1, 40, 173])
def test_kill_9_in_mid_commit_loses_nothing_that_was_told(home: Home, lines: int) -> None:
    """A process killed while it writes leaves a sound file that has every turn it had told of."""
    process = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(home.root)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert process.stdout is not None
    told = [int(process.stdout.readline()) for _ in range(lines)]
    process.send_signal(signal.SIGKILL)
    told += [int(line) for line in process.stdout.read().splitlines() if line]
    process.stdout.close()
    process.wait()
    connection = open_disk(home, LARGE)
    assert connection.execute("pragma integrity_check").fetchall() == [("ok",)]
    shelf = Shelf(connection)
    found = [int(turn.asked.split()[1]) for turn in shelf.turns()]
    # Whole turns, in order, without a hole: a crash takes only from the end.
    assert found == list(range(len(found)))
    assert set(told) <= set(found)
    assert all(turn.answered == "answer " * 50 for turn in shelf.turns())
    shelf.close()


def test_a_file_locked_for_long_is_a_disk_that_failed(home: Home) -> None:
    """Another process that holds the file costs nobody a turn: memory has it until later."""
    journal = Journal(open_disk(home, LARGE, busy_s=0.05), JournalSettings(retry_s=0.05))
    holder = sqlite3.connect(home.root / "conversations.db", isolation_level=None)
    holder.execute("begin immediate")
    assert ask(journal, note(said("a", "hello", "hi"))) is None
    assert journal.degraded
    holder.execute("rollback")
    holder.close()
    while journal.degraded:
        ask(journal, partial(_nothing, 0))
    assert recalled(journal, "a") == ["hello", "hi"]
    journal.close()


def _nothing(value: int, _shelves: Shelves) -> object:
    return value


def _defect(_shelves: Shelves) -> object:
    raise ValueError("a mistake of ours")
