"""SHELL: responses in SQLite, in the same file as conversations: one row for each.

A row has its own turns only. What was said before is read along the chain of previous ones, so
that a long conversation costs no more to keep than what is said in it. Nothing here commits.
"""

from __future__ import annotations

import sqlite3
from typing import TypeAlias

import msgspec

from roost.core.ids import TenantId
from roost.core.request import Message
from roost.core.response import KeptResponse
from roost.errors import Failure, RoostError

SCHEMA = """
create table responses (
    id text primary key,
    tenant text not null,
    previous text not null,
    asked blob not null,
    answered blob not null,
    body blob not null,
    at_unix_s real not null
) without rowid;
create index responses_by_age on responses (at_unix_s);
"""
CHAIN_MAX = 10_000
"""So many responses may go on from one another."""

DAMAGED = Failure("storage_error", "What is kept of this response is damaged. Begin anew.")
_Row: TypeAlias = tuple[str, str, str, bytes, bytes, bytes, float]
_COLUMNS = "id, tenant, previous, asked, answered, body, at_unix_s"
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[Message, ...]).decode


class ResponseShelf:
    """The responses behind one connection; `sqlite3.Error` comes out as it is."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def keep(self, kept: KeptResponse) -> None:
        """Add a response, or replace the one of the same id."""
        texts = (_encode(kept.asked), _encode(kept.answered), kept.body)
        self._connection.execute(
            f"insert or replace into responses ({_COLUMNS}) values (?, ?, ?, ?, ?, ?, ?)",  # noqa: S608
            (kept.id, kept.tenant, kept.previous, *texts, kept.at_unix_s),
        )

    def find(self, tenant: TenantId, response_id: str) -> KeptResponse | None:
        """Return a tenant's response; of others' nobody learns whether they exist.

        Raises `storage_error` where it is damaged.
        """
        row = self._connection.execute(
            f"select {_COLUMNS} from responses where id = ? and tenant = ?",  # noqa: S608
            (response_id, tenant),
        ).fetchone()
        return None if row is None else _kept(row)

    def forget(self, tenant: TenantId, response_id: str) -> bool:
        """Remove a response; what goes on from it cannot be gone on from any more."""
        found = self._connection.execute(
            "delete from responses where id = ? and tenant = ?", (response_id, tenant)
        )
        return found.rowcount > 0

    def prune(self, before_unix_s: float) -> int:
        """Remove what was made before this, and return how many."""
        found = self._connection.execute(
            "delete from responses where at_unix_s < ?", (before_unix_s,)
        )
        return found.rowcount

    def shrink(self, max_bytes: int) -> int:
        """Remove the oldest until at most so much is left; return how many."""
        sizes = self._connection.execute(
            "select id, length(asked) + length(answered) + length(body) from responses"
            " order by at_unix_s desc"
        ).fetchall()
        left, gone = max_bytes, []
        for response_id, size in sizes:
            left -= size
            if left < 0:
                gone.append((response_id,))
        self._connection.executemany("delete from responses where id = ?", gone)
        return len(gone)

    def all(self) -> list[KeptResponse]:
        """Return every response."""
        rows = self._connection.execute(f"select {_COLUMNS} from responses")  # noqa: S608
        return [_kept(row) for row in rows]

    def clear(self) -> None:
        """Remove everything."""
        self._connection.execute("delete from responses")


def _kept(row: object) -> KeptResponse:
    # SQLite notices damage to its own pages alone; a changed byte may change a value's type.
    try:
        found = msgspec.convert(row, _Row)
        response_id, tenant, previous, asked, answered, body, at_unix_s = found
        said, told = _decode(asked), _decode(answered)
    except (msgspec.MsgspecError, UnicodeError):
        raise RoostError(DAMAGED) from None
    return KeptResponse(response_id, TenantId(tenant), previous, said, told, body, at_unix_s)
