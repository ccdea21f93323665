"""Tests of the shared SQLite file: modes, schema versions, damage, several openers."""

from __future__ import annotations

import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from roost.errors import RoostError
from roost.store.database import SCHEMA_VERSION, Database
from roost.store.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """A new ROOST_HOME."""
    return Home.open(tmp_path / "home")


def refusal(home: Home) -> str:
    """Return the message with which the database is refused."""
    with pytest.raises(RoostError) as caught:
        Database.open(home)
    assert caught.value.failure.reason == "storage_error"
    assert str(home.root) not in caught.value.failure.message
    return caught.value.failure.message


def insert(database: Database, name: str) -> int:
    """Add a token row."""
    statement = "insert into tokens (id, hash, created_unix_s) values (?, ?, 0)"
    return database.write(statement, name, name.encode())


def test_only_the_owner_may_read_it(home: Home) -> None:
    """The file and its write-ahead log have mode 0600."""
    database = Database.open(home)
    insert(database, "a")
    files = list(home.root.glob("roost.db*"))
    assert len(files) >= 2
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    database.close()


def test_several_openers_see_each_others_changes(home: Home) -> None:
    """What one writes the other reads, and its version differs afterwards, and only then."""
    one, two = Database.open(home), Database.open(home)
    before = two.version()
    assert two.version() == before
    assert insert(one, "a") == 1
    assert two.version() != before
    assert two.read("select id from tokens where id = ?", "a") == (("a",),)
    mine = one.version()
    insert(one, "b")
    assert one.version() != mine
    one.close()
    two.close()


@pytest.mark.slow
def test_many_open_and_write_at_once(home: Home) -> None:
    """Openers of a new home do not trip over each other, and no write is lost."""
    failures: list[BaseException] = []

    def work(name: str) -> None:
        try:
            database = Database.open(home)
            for number in range(10):
                insert(database, f"{name}-{number}")
            database.close()
        except RoostError as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    database = Database.open(home)
    assert database.read("select count(*) from tokens") == ((80,),)
    database.close()


def test_a_newer_schema_is_refused(home: Home) -> None:
    """A file of a newer roost is left alone, and the message says what to do."""
    Database.open(home).close()
    connection = sqlite3.connect(home.database)
    connection.execute(f"pragma user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    message = refusal(home)
    assert "newer roost" in message
    assert "Update" in message


def test_a_damaged_file_is_refused(home: Home) -> None:
    """Rubbish in place of a database is a storage error."""
    home.database.write_bytes(b"rubbish " * 1000)
    assert "not a database" in refusal(home)


def test_a_locked_file_is_waited_for_and_given_up(home: Home) -> None:
    """Whoever finds the file locked waits for a bounded time."""
    database = Database.open(home, busy_s=0.01)
    connection = sqlite3.connect(home.database, isolation_level=None)
    connection.execute("begin immediate")
    with pytest.raises(RoostError, match="locked"):
        insert(database, "a")
    connection.execute("rollback")
    connection.close()
    assert insert(database, "a") == 1
    database.close()


def test_a_closed_database_answers_with_an_error(home: Home) -> None:
    """After closing, every use is a storage error."""
    database = Database.open(home)
    database.close()
    with pytest.raises(RoostError):
        database.version()
