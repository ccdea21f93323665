"""SHELL: roost.db, the SQLite file that the processes of one ROOST_HOME share.

Write-ahead logging lets readers and one writer work side by side; whoever finds the file locked
waits up to `busy_s`. Every statement is bound by parameters and is a transaction of its own, so
there is nothing half-done to see, and nothing to lose but the statement that failed.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
from collections.abc import Iterator
from typing import Self, TypeAlias

from roost.errors import fail
from roost.store.files import locked, translated
from roost.store.home import Home

BUSY_S = 5.0

Cell: TypeAlias = str | int | float | bytes | None
Row: TypeAlias = tuple[Cell, ...]

_FIRST = """
create table keys (
    id text primary key,
    hash blob not null unique,
    name text not null,
    tenant text not null,
    role text not null check (role in ('user', 'admin')),
    created_unix_s integer not null,
    revoked_unix_s integer
);
create table tokens (
    id text primary key,
    hash blob not null unique,
    created_unix_s integer not null,
    expires_unix_s integer,
    revoked_unix_s integer
);
"""
_SHARES = """
alter table keys add column weight real not null default 1.0;
alter table keys add column class text not null default 'interactive';
"""
_STEPS = (_FIRST, _SHARES)
"""What leads from each version of the schema to the next; a step once released never changes."""

SCHEMA_VERSION = len(_STEPS)


class Database:
    """One connection to roost.db; threads may share it, each statement holds a lock."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    @classmethod
    def open(cls, home: Home, busy_s: float = BUSY_S) -> Self:
        """Open roost.db, made with mode 0600 if it is missing.

        Raises `storage_error` for a damaged file or one that a newer roost has written.
        """
        with translated(), _explained(), locked(home.locks / "database"):
            # SQLite gives its log files the mode of the database, hence it is set before the first.
            os.close(os.open(home.database, os.O_RDWR | os.O_CREAT, 0o600))
            connection = sqlite3.connect(
                home.database, timeout=busy_s, isolation_level=None, check_same_thread=False
            )
            try:
                _prepare(connection)
            except BaseException:
                connection.close()
                raise
        return cls(connection)

    def read(self, statement: str, *values: Cell) -> tuple[Row, ...]:
        """Return the rows that a select finds."""
        with self._lock, _explained():
            return tuple(self._connection.execute(statement, values))

    def write(self, statement: str, *values: Cell) -> int:
        """Change the database and return the number of rows changed; on disk when it returns."""
        with self._lock, _explained():
            return self._connection.execute(statement, values).rowcount

    def version(self) -> tuple[int, int]:
        """Return a value that differs whenever anybody, here or elsewhere, has changed the file.

        It costs a few microseconds. A file's time would not do: it has not moved when two changes
        fall into one tick of the clock, and then a revoked key would live on.
        """
        with self._lock, _explained():
            elsewhere = self._connection.execute("pragma data_version").fetchone()
            return int(elsewhere[0]), self._connection.total_changes

    def close(self) -> None:
        """Close the connection; using it afterwards is a storage error."""
        with self._lock:
            self._connection.close()


def _prepare(connection: sqlite3.Connection) -> None:
    (version,) = connection.execute("pragma user_version").fetchone()
    if version > SCHEMA_VERSION:
        raise fail(
            "storage_error",
            f"ROOST_HOME was written by a newer roost (schema {version}; this one knows"
            f" {SCHEMA_VERSION}). Update roost, or use another ROOST_HOME.",
        )
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    for number, step in enumerate(_STEPS[version:], start=version + 1):
        connection.executescript(f"begin immediate; {step} pragma user_version = {number}; commit;")


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turn SQLite's errors into `storage_error`; its own words name no path and no value."""
    try:
        yield
    except sqlite3.Error as error:
        raise fail(
            "storage_error",
            f"The database in ROOST_HOME cannot be used: {error}. Check the disk and permissions.",
        ) from error
