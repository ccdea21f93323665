"""SHELL: usage.db: how many tokens each key has used on which day, over all gateways of a home.

It is a file of its own: whoever checks keys looks into roost.db whenever that has changed, and this
changes all the time.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from roost.core.allowance import Spent
from roost.store.home import Home
from roost.store.schema import explained, open_file

if TYPE_CHECKING:
    import sqlite3

DAYS_KEPT = 62
"""The month that runs and the one before it are always whole."""
_STEPS = (
    """
create table used (
    key text not null,
    day integer not null,
    tokens integer not null check (tokens >= 0),
    primary key (key, day)
) without rowid;
""",
)


class UsageStore:
    """One connection to usage.db; threads may share it. Days are counted from 1970, in UTC."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    @classmethod
    def open(cls, home: Home) -> UsageStore:
        """Open usage.db, made with mode 0600 if it is missing; raises `storage_error`."""
        return cls(open_file(home.root / "usage.db", home.locks / "usage", _STEPS))

    def add(self, spent: Iterable[Spent], since_day: int) -> tuple[Spent, ...]:
        """Count what was used, all of it or nothing; returns the totals of each day from then on.

        It is on disk when this returns. Raises `storage_error`.
        """
        with self._whole() as connection:
            connection.executemany(
                "insert into used values (?, ?, ?)"
                " on conflict (key, day) do update set tokens = tokens + excluded.tokens",
                [(one.key, one.day, one.tokens) for one in spent],
            )
            connection.execute("delete from used where day < ?", (since_day - DAYS_KEPT,))
            rows = connection.execute(
                "select key, day, tokens from used where day >= ?", (since_day,)
            )
            return tuple(Spent(*row) for row in rows)

    def since(self, day: int) -> tuple[Spent, ...]:
        """Return the totals of each day from this one on; raises `storage_error`."""
        return self.add((), day)

    def close(self) -> None:
        """Close the connection; using it afterwards is a storage error."""
        with self._lock:
            self._connection.close()

    @contextmanager
    def _whole(self) -> Iterator[sqlite3.Connection]:
        with self._lock, explained("usage.db"):
            self._connection.execute("begin immediate")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("rollback")
                raise
            self._connection.execute("commit")
