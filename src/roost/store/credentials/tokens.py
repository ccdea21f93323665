"""SHELL: join tokens in roost.db: with one, any number of nodes may join until it ends."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable

import msgspec

from roost.errors import fail
from roost.store.credentials.records import TokenRecord
from roost.store.credentials.secrets import (
    PIN_MARK,
    SECRET_BYTES,
    TOKEN_PREFIX,
    hashed,
    matching,
    spell,
)
from roost.store.database import Database

MAX_TTL_S = 10 * 366 * 86_400
MAX_TOKENS = 10_000


class NewToken(msgspec.Struct, frozen=True):
    """A token just made: `secret` is shown once and never again."""

    secret: str
    record: TokenRecord


class TokenStore:
    """The join tokens of one ROOST_HOME; needs no running gateway. `clock`: seconds since 1970."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._fixed: tuple[tuple[bytes, TokenRecord], ...] = ()

    def use(self, fixed: tuple[tuple[bytes, TokenRecord], ...]) -> None:
        """Let these tokens count too, and no others that are kept elsewhere: see `fixed_keys`."""
        self._fixed = fixed

    def issue(self, ttl_s: float | None = None) -> NewToken:
        """Make a token that ends after `ttl_s` seconds, or never; raises `bad_request`."""
        if ttl_s is not None and not 0 < ttl_s <= MAX_TTL_S:
            raise fail("bad_request", "A token's life is more than 0 s and at most 10 years.")
        if len(self.list()) >= MAX_TOKENS:
            raise fail("bad_request", f"There are {MAX_TOKENS} tokens already; revoke some.")
        now = self._clock()
        secret = spell(TOKEN_PREFIX, secrets.token_bytes(SECRET_BYTES))
        expires = None if ttl_s is None else math.ceil(now + ttl_s)
        record = TokenRecord(f"token-{secrets.token_hex(6)}", int(now), expires)
        self._database.write(
            "insert into tokens (id, hash, created_unix_s, expires_unix_s) values (?, ?, ?, ?)",
            *(record.id, hashed(secret), record.created_unix_s, expires),
        )
        return NewToken(secret, record)

    def list(self) -> tuple[TokenRecord, ...]:
        """List the tokens that are valid now, oldest first."""
        return tuple(record for _, record in self._valid())

    def check(self, presented: str) -> TokenRecord | None:
        """Return the record of a token that is valid now, None for anything else.

        The fingerprint that may follow it is for whoever shows it: who sends it too is let in.
        """
        return matching(presented.partition(PIN_MARK)[0], (*self._fixed, *self._valid()))

    def revoke(self, token: str) -> bool:
        """Make a token invalid by its id; False if there is no such valid token.

        Nodes that have joined with it stay until their link ends.
        """
        now = int(self._clock())
        changed = self._database.write(
            "update tokens set revoked_unix_s = ? where id = ? and revoked_unix_s is null"
            " and (expires_unix_s is null or expires_unix_s > ?)",
            *(now, token, now),
        )
        return changed > 0

    def _valid(self) -> tuple[tuple[bytes, TokenRecord], ...]:
        rows = self._database.read(
            "select hash, id, created_unix_s, expires_unix_s from tokens"
            " where revoked_unix_s is null and (expires_unix_s is null or expires_unix_s > ?)"
            " order by created_unix_s, id",
            self._clock(),
        )
        return tuple(
            (bytes(row[0]), msgspec.convert(dict(zip(_FIELDS, row[1:], strict=True)), TokenRecord))
            for row in rows
            if isinstance(row[0], bytes)
        )


_FIELDS = ("id", "created_unix_s", "expires_unix_s")
