"""SHELL: API keys in roost.db: only hashes are kept, and revoking works at once everywhere."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import TypeGuard

import msgspec

from roost.core.allowance import Allowance
from roost.core.ids import TenantId
from roost.store.credentials.records import (
    MAX_NAME_CHARACTERS,
    KeyRecord,
    Share,
    checked_share,
    is_label,
    read_role,
    wrong,
)
from roost.store.credentials.secrets import KEY_PREFIX, SECRET_BYTES, hashed, matching, spell
from roost.store.database import Cell, Database, Row

MAX_KEYS = 10_000


class NewKey(msgspec.Struct, frozen=True):
    """A key just made: `secret` is shown once and never again."""

    secret: str
    record: KeyRecord


class _Known(msgspec.Struct, frozen=True):
    version: tuple[int, int]
    keys: tuple[tuple[bytes, KeyRecord], ...]
    ever: bool


class KeyStore:
    """The API keys of one ROOST_HOME.

    `check` and `any_keys` answer from memory and look into the file only if it has changed, so they
    may be asked for every request; threads may share one store. `clock` is seconds since 1970.
    """

    def __init__(self, database: Database, clock: Callable[[], float] = time.time) -> None:
        self._database = database
        self._clock = clock
        self._lock = threading.Lock()
        self._known: _Known | None = None
        self._fixed: tuple[tuple[bytes, KeyRecord], ...] = ()
        self._ever_fixed = False

    def use(self, fixed: tuple[tuple[bytes, KeyRecord], ...]) -> None:
        """Let these keys count too, and no others that are kept elsewhere: see `fixed_keys`."""
        self._fixed = fixed
        # A door that was closed stays closed for the life of this process.
        self._ever_fixed = self._ever_fixed or bool(fixed)

    def add(
        self,
        name: str,
        role: str = "user",
        tenant: str | None = None,
        share: Share = Share(),  # noqa: B008 - frozen
    ) -> NewKey:
        """Make a key; its tenant is its own unless one is given. Raises `bad_request`."""
        for param, text in (("name", name), ("tenant", tenant or "x")):
            if not is_label(text):
                raise wrong(param, f"a {param} has 1 to {MAX_NAME_CHARACTERS} printable characters")
        chosen = read_role(role)
        if len(self._fresh().keys) >= MAX_KEYS:
            raise wrong("name", f"there are {MAX_KEYS} keys already; revoke some")
        secret = spell(KEY_PREFIX, secrets.token_bytes(SECRET_BYTES))
        key = f"key-{secrets.token_hex(6)}"
        payer = TenantId(tenant or f"key:{key}")
        weight, class_ = checked_share(share)
        record = KeyRecord(
            *(key, name, payer, chosen, int(self._clock()), weight, class_),
            share.allowance,
            share.cache_salt,
        )
        self._database.write(
            "insert into keys (id, hash, name, tenant, role, created_unix_s, weight, class,"
            " allowance, cache_salt) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            *(record.id, hashed(secret), name, payer, chosen, record.created_unix_s),
            *(weight, class_, _encode(share.allowance).decode(), share.cache_salt),
        )
        return NewKey(secret, record)

    def change(self, key: str, share: Share) -> bool:
        """Serve a valid key like this from now on; False if there is none of this id."""
        weight, class_ = checked_share(share)
        changed = self._database.write(
            "update keys set weight = ?, class = ?, allowance = ?, cache_salt = ?"
            " where id = ? and revoked_unix_s is null",
            *(weight, class_, _encode(share.allowance).decode(), share.cache_salt, key),
        )
        return changed > 0

    def list(self) -> tuple[KeyRecord, ...]:
        """List the keys that are valid, those of the settings first, then oldest first."""
        return tuple(record for _, record in (*self._fixed, *self._fresh().keys))

    def revoke(self, key: str) -> bool:
        """Make a key invalid by its id; False if there is no such valid key."""
        changed = self._database.write(
            "update keys set revoked_unix_s = ? where id = ? and revoked_unix_s is null",
            *(int(self._clock()), key),
        )
        return changed > 0

    def forget_revoked(self) -> int:
        """Remove the records of revoked keys and return how many; see `any_keys`."""
        return self._database.write("delete from keys where revoked_unix_s is not null")

    def check(self, presented: str) -> KeyRecord | None:
        """Return the record of a valid key, None for anything else."""
        return matching(presented, (*self._fixed, *self._fresh().keys))

    def any_keys(self) -> bool:
        """Whether a key is needed: as soon as there was one, and also when there is none any more.

        Else revoking the last key, perhaps because it leaked, would open the door to everybody.
        `forget_revoked` says that this is meant.
        """
        return self._ever_fixed or self._fresh().ever

    def _fresh(self) -> _Known:
        version = self._database.version()
        with self._lock:
            if self._known is None or self._known.version != version:
                self._known = self._load(version)
            return self._known

    def _load(self, version: tuple[int, int]) -> _Known:
        # The version was read before the rows: newer ones are at worst read once more.
        rows = self._database.read(
            "select hash, id, name, tenant, role, created_unix_s, weight, class, cache_salt,"
            " allowance, revoked_unix_s is null"
            " from keys order by created_unix_s, id"
        )
        keys = tuple((bytes(row[0]), _record(row)) for row in rows if row[10] and _is_kept(row))
        return _Known(version, keys, ever=bool(rows))


_FIELDS = ("id", "name", "tenant", "role", "created_unix_s", "weight", "class_", "cache_salt")
_encode = msgspec.json.encode


def _is_kept(row: Row) -> TypeGuard[tuple[bytes, *tuple[Cell, ...]]]:
    return isinstance(row[0], bytes)


def _record(row: Row) -> KeyRecord:
    record = msgspec.convert(dict(zip(_FIELDS, row[1:9], strict=True)), KeyRecord)
    allowance = msgspec.json.decode(str(row[9]), type=Allowance)
    return msgspec.structs.replace(record, allowance=allowance)
