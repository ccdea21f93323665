"""SHELL: how an SQLite file of ROOST_HOME is opened: mode, log, and the way from older schemas."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from roost.errors import fail
from roost.store.files import locked, translated

BUSY_S = 5.0


def open_file(
    path: Path, lock: Path, steps: tuple[str, ...], busy_s: float = BUSY_S
) -> sqlite3.Connection:
    """Open a database file, made with mode 0600 if it is missing, at the newest schema.

    `steps` lead from each version of the schema to the next; `lock` keeps others out meanwhile.
    Raises `storage_error` for a damaged file or one that a newer roost has written.
    """
    with translated(), explained(path.name), locked(lock):
        # SQLite gives its log files the mode of the database, hence it is set before the first.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(
            path, timeout=busy_s, isolation_level=None, check_same_thread=False
        )
        try:
            prepare(connection, steps)
        except BaseException:
            connection.close()
            raise
    return connection


def prepare(connection: sqlite3.Connection, steps: tuple[str, ...]) -> None:
    """Bring a database to the newest schema, step by step, each in a transaction of its own."""
    (version,) = connection.execute("pragma user_version").fetchone()
    if version > len(steps):
        raise fail(
            "storage_error",
            f"ROOST_HOME was written by a newer roost (schema {version}; this one knows"
            f" {len(steps)}). Update roost, or use another ROOST_HOME.",
        )
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = full")
    for number, step in enumerate(steps[version:], start=version + 1):
        connection.executescript(f"begin immediate; {step} pragma user_version = {number}; commit;")


@contextlib.contextmanager
def explained(file: str = "the database") -> Iterator[None]:
    """Turn SQLite's errors into `storage_error`; its own words name no path and no value.

    `file` is the name by which people find it in ROOST_HOME.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise fail(
            "storage_error",
            f"In ROOST_HOME {file} cannot be used: {error}. Check the disk and permissions.",
        ) from error
