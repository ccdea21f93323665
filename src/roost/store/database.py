"""SHELL: roost.db, the SQLite file that the processes of one ROOST_HOME share.

Write-ahead logging lets readers and one writer work side by side; whoever finds the file locked
waits up to `busy_s`. Every statement is bound by parameters and is a transaction of its own, so
there is nothing half-done to see, and nothing to lose but the statement that failed.
"""

from __future__ import annotations

import sqlite3
import threading
from typing import Self, TypeAlias

from roost.store.home import Home
from roost.store.schema import BUSY_S, explained, open_file

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
_ALLOWANCES = """
alter table keys add column allowance text not null default '{}';
alter table keys add column cache_salt text not null default '';
"""
_STEPS = (_FIRST, _SHARES, _ALLOWANCES)
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
        return cls(open_file(home.database, home.locks / "database", _STEPS, busy_s))

    def read(self, statement: str, *values: Cell) -> tuple[Row, ...]:
        """Return the rows that a select finds."""
        with self._lock, explained():
            return tuple(self._connection.execute(statement, values))

    def write(self, statement: str, *values: Cell) -> int:
        """Change the database and return the number of rows changed; on disk when it returns."""
        with self._lock, explained():
            return self._connection.execute(statement, values).rowcount

    def version(self) -> tuple[int, int]:
        """Return a value that differs whenever anybody, here or elsewhere, has changed the file.

        It costs a few microseconds. A file's time would not do: it has not moved when two changes
        fall into one tick of the clock, and then a revoked key would live on.
        """
        with self._lock, explained():
            elsewhere = self._connection.execute("pragma data_version").fetchone()
            return int(elsewhere[0]), self._connection.total_changes

    def close(self) -> None:
        """Close the connection; using it afterwards is a storage error."""
        with self._lock:
            self._connection.close()
