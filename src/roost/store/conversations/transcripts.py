"""SHELL: conversations in SQLite: one row for where each is, one for each of its turns.

Another row has the summary that stands for the first of them towards the model; it replaces none.
The same tables live in conversations.db and in memory. Nothing here commits: whoever calls does, so
that turns which end together are one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec

from roost.core.conversation import ConversationView, KeptConversation, SaidTurn, Summary
from roost.core.ids import ConversationKey, ModelId, NodeId, TenantId
from roost.core.pin import Pin
from roost.core.request import Message
from roost.errors import Failure, RoostError
from roost.store.conversations.responses import SCHEMA, ResponseShelf
from roost.store.home import Home
from roost.store.schema import BUSY_S, explained, open_file, prepare

LIST_MAX = 1000
PAGE_BYTES = 4096
SCRUB_WAIT_MS = 100
"""How long whoever removes something waits for other processes that read."""

_FIRST = """
create table conversations (
    key blob primary key,
    tenant text not null,
    name text not null,
    model text not null,
    node text not null,
    tokens integer not null,
    began_unix_s real not null,
    active_unix_s real not null
) without rowid;
create index conversations_by_age on conversations (active_unix_s);
create table turns (
    number integer primary key,
    key blob not null references conversations (key) on delete cascade,
    asked text not null,
    answered text not null,
    complete integer not null,
    at_unix_s real not null
);
create index turns_by_conversation on turns (key, number);
"""
_SECOND = """
create table summaries (
    key blob primary key references conversations (key) on delete cascade,
    text text not null,
    covers integer not null,
    turns integer not null,
    trigger text not null,
    dropped_tokens integer not null
) without rowid;
"""
_TEXT_OF_ONE = """
select sum(size) from (
    select length(cast(asked as blob)) + length(cast(answered as blob)) as size from turns
    where key = ?1
    union all select length(cast(text as blob)) from summaries where key = ?1
)
"""
_TEXT_OF_OLD = """
with old as (select key from conversations where active_unix_s < ?1)
select sum(size) from (
    select length(cast(asked as blob)) + length(cast(answered as blob)) as size from turns
    where key in old
    union all select length(cast(text as blob)) from summaries where key in old
)
"""
DAMAGED = Failure(
    "storage_error", "What is kept of this conversation is damaged. Remove it to begin it anew."
)
_Place: TypeAlias = tuple[str, str, int, float, float]
_VIEW: tuple[type, ...] = (str, str, str, str, int, int, float, float)
STEPS = (_FIRST, _SECOND, SCHEMA)
"""What leads from each version of the schema to the next; a step once released never changes."""


def open_disk(home: Home, max_bytes: int, busy_s: float = BUSY_S) -> sqlite3.Connection:
    """Open conversations.db, which may grow to `max_bytes`; raises `storage_error`.

    A file of its own: each commit to roost.db would have its readers look at every key again, and
    damage to what was said must not take the keys with it.
    """
    path: Path = home.root / "conversations.db"
    connection = open_file(path, home.locks / "conversations", STEPS, busy_s)
    with explained():
        _ready(connection)
        connection.execute(f"pragma max_page_count = {max(1, max_bytes // PAGE_BYTES)}")
    return connection


def open_memory() -> sqlite3.Connection:
    """Open the same tables in memory."""
    connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    prepare(connection, STEPS)
    _ready(connection)
    return connection


def _ready(connection: sqlite3.Connection) -> None:
    connection.text_factory = _text
    connection.execute("pragma foreign_keys = on")
    # What is removed is overwritten: nobody finds it in the file afterwards.
    connection.execute("pragma secure_delete = on")


class Shelf:
    """The conversations behind one connection; `sqlite3.Error` comes out as it is."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.responses = ResponseShelf(connection)
        self.text_bytes = 0
        self._bytes_before: int | None = None

    def begin(self) -> None:
        """Open a transaction for writing; waits for other processes as long as the file says."""
        self._connection.execute("begin immediate")
        self._bytes_before = self.text_bytes

    def commit(self) -> None:
        """Make what was done since `begin` last."""
        self._connection.execute("commit")
        self._bytes_before = None

    def rollback(self) -> None:
        """Undo what was done since `begin`; also where SQLite has done so by itself."""
        # None where nothing was begun: another shelf of the same transaction could not.
        if self._bytes_before is not None:
            self.text_bytes, self._bytes_before = self._bytes_before, None
        if self._connection.in_transaction:
            self._connection.execute("rollback")

    def scrub(self) -> bool:
        """Leave nothing in the log of what was removed; not inside a transaction.

        A page that is overwritten in the file still stands as it was in the log. False if another
        process reads, so that the log has to stay.
        """
        (busy_ms,) = self._connection.execute("pragma busy_timeout").fetchone()
        # It may be tried again, and turns that end meanwhile have to be written.
        self._connection.execute(f"pragma busy_timeout = {SCRUB_WAIT_MS}")
        try:
            ((busy, _, _),) = self._connection.execute("pragma wal_checkpoint(truncate)")
        finally:
            self._connection.execute(f"pragma busy_timeout = {busy_ms}")
        return not busy

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def note(self, turn: SaidTurn) -> None:
        """Add a turn, and with the first one its conversation."""
        pin = turn.pin
        self._connection.execute(
            "insert into conversations values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (key) do update"
            " set model = excluded.model, node = excluded.node, tokens = excluded.tokens,"
            " active_unix_s = excluded.active_unix_s",
            (
                *(turn.key, turn.tenant, turn.name, pin.model, pin.node, pin.tokens),
                *(turn.at_unix_s, turn.at_unix_s),
            ),
        )
        self._connection.execute(
            "insert into turns (key, asked, answered, complete, at_unix_s) values (?, ?, ?, ?, ?)",
            (turn.key, turn.asked, turn.answered, turn.complete, turn.at_unix_s),
        )
        self.text_bytes += len(turn.asked.encode()) + len(turn.answered.encode())

    def summarise(self, key: ConversationKey, made: Summary | None, tokens: int) -> bool:
        """Note with what a model goes on, None for all there is, and what that costs it.

        False if nothing is kept of the conversation here.
        """
        found = self._connection.execute(
            "update conversations set tokens = ? where key = ?", (tokens, key)
        )
        if not found.rowcount:
            return False
        before = self._connection.execute(
            "select length(cast(text as blob)) from summaries where key = ?", (key,)
        ).fetchone()
        self.text_bytes -= before[0] if before else 0
        if made is None:
            self._connection.execute("delete from summaries where key = ?", (key,))
            return True
        self._connection.execute(
            "insert or replace into summaries values (?, ?, ?, ?, ?, ?)",
            (key, made.text, made.covers, made.turns, made.trigger, made.dropped_tokens),
        )
        self.text_bytes += len(made.text.encode())
        return True

    def recall(self, key: ConversationKey, *, whole: bool = False) -> KeptConversation | None:
        """Return what is kept of a conversation; raises `storage_error` where that is damaged.

        What a summary stands for is left out, unless the `whole` is wanted.
        """
        row = self._connection.execute(
            "select node, model, tokens, began_unix_s, active_unix_s from conversations"
            " where key = ?",
            (key,),
        ).fetchone()
        if row is None:
            return None
        # SQLite notices damage to its own pages alone; a changed byte may change a value's type.
        try:
            node, model, tokens, began_unix_s, active_unix_s = msgspec.convert(row, _Place)
            made = self._summary(key)
            skipped = 0 if made is None or whole else made.covers
            said = msgspec.convert(self._turns(key, skipped), list[tuple[str, str]])
        except msgspec.ValidationError:
            raise RoostError(DAMAGED) from None
        messages = tuple(
            message
            for asked, answered in said
            for message in (Message("user", asked), Message("assistant", answered))
        )
        pin = Pin(NodeId(node), ModelId(model), tokens)
        return KeptConversation(pin, began_unix_s, active_unix_s, messages, made, skipped)

    def _turns(self, key: ConversationKey, skipped: int) -> list[tuple[object, object]]:
        return self._connection.execute(
            "select asked, answered from turns where key = ? order by number limit -1 offset ?",
            (key, skipped),
        ).fetchall()

    def _summary(self, key: ConversationKey) -> Summary | None:
        row = self._connection.execute(
            "select text, covers, turns, trigger, dropped_tokens from summaries where key = ?",
            (key,),
        ).fetchone()
        if row is None:
            return None
        return msgspec.convert(dict(zip(Summary.__struct_fields__, row, strict=True)), Summary)

    def owner(self, key: ConversationKey) -> TenantId | None:
        """Return whose conversation it is; None where nothing is kept of it."""
        row = self._connection.execute(
            "select tenant from conversations where key = ?", (key,)
        ).fetchone()
        return None if row is None else TenantId(row[0])

    def repin(self, key: ConversationKey, pin: Pin) -> None:
        """Note where a conversation's KV is now; it is no more active than before."""
        self._connection.execute(
            "update conversations set model = ?, node = ?, tokens = ? where key = ?",
            (pin.model, pin.node, pin.tokens, key),
        )

    def forget(self, key: ConversationKey) -> bool:
        """Remove a conversation and all its turns; False if there is none."""
        self.text_bytes -= self._measure(_TEXT_OF_ONE, key)
        found = self._connection.execute("delete from conversations where key = ?", (key,))
        return found.rowcount > 0

    def prune(self, before_unix_s: float) -> int:
        """Remove what was last active before this, and return how many."""
        self.text_bytes -= self._measure(_TEXT_OF_OLD, before_unix_s)
        found = self._connection.execute(
            "delete from conversations where active_unix_s < ?", (before_unix_s,)
        )
        return found.rowcount + self.responses.prune(before_unix_s)

    def shrink(self, max_bytes: int) -> int:
        """Remove the longest idle ones until at most so much text is left; return how many."""
        removed = 0
        while self.text_bytes > max_bytes:
            oldest = self._connection.execute(
                "select key from conversations order by active_unix_s limit 1"
            ).fetchone()
            if oldest is None or not self.forget(ConversationKey(oldest[0])):
                break
            removed += 1
        return removed

    def turns(self) -> Iterable[SaidTurn]:
        """Every turn of every conversation, oldest first."""
        rows = self._connection.execute(
            "select key, tenant, name, node, model, tokens, asked, answered, complete, at_unix_s"
            " from turns join conversations using (key) order by number"
        )
        for row in rows:
            pin = Pin(NodeId(row[3]), ModelId(row[4]), row[5])
            key, tenant = ConversationKey(row[0]), TenantId(row[1])
            yield SaidTurn(key, tenant, row[2], pin, row[6], row[7], bool(row[8]), row[9])

    def clear(self) -> None:
        """Remove everything."""
        self._connection.execute("delete from conversations")
        self.responses.clear()
        self.text_bytes = 0

    def list(self, tenant: TenantId | None) -> tuple[tuple[ConversationKey, ConversationView], ...]:
        """List conversations, the last active first; `tenant` None lists everybody's."""
        rows = self._connection.execute(
            "select key, tenant, name, model, node,"
            " (select count(*) from turns where turns.key = conversations.key),"
            " tokens, began_unix_s, active_unix_s from conversations"
            " where ?1 is null or tenant = ?1 order by active_unix_s desc limit ?2",
            (tenant, LIST_MAX),
        )
        return tuple((ConversationKey(row[0]), _view(row[1:])) for row in rows)

    def _measure(self, of_which: str, value: bytes | float) -> int:
        """How much text the turns have that one of the queries above is about, in bytes."""
        (size,) = self._connection.execute(of_which, (value,)).fetchone()
        return int(size or 0)


def _text(stored: bytes) -> str | None:
    """Read a text; None where it is damaged, as for a value of another type."""
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return None


def _view(row: tuple[object, ...]) -> ConversationView:
    """Make a line of a list; what is damaged in it is empty, so that the rest can be seen."""
    cells: list[object] = []
    for kind, cell in zip(_VIEW, row, strict=True):
        try:
            cells.append(msgspec.convert(cell, kind))
        except msgspec.ValidationError:
            cells.append(kind())
    named = dict(zip(ConversationView.__struct_fields__, cells, strict=True))
    return msgspec.convert(named, ConversationView)
