"""SHELL: API keys in roost.db: only hashes are kept, and revoking works at once everywhere."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Literal, get_args

import msgspec

from roost.core.ids import TenantId
from roost.core.request import ServiceClass
from roost.errors import RoostError, fail
from roost.store.credentials import KEY_PREFIX, SECRET_BYTES, hashed, matching, spell
from roost.store.database import Database

MAX_KEYS = 10_000
MAX_WEIGHT = 1000.0
MAX_NAME_CHARACTERS = 100

Role = Literal["user", "admin"]


class KeyRecord(msgspec.Struct, frozen=True):
    """What is known of a key: `id` is for people and may be shown, the key itself is not kept.

    `weight` is its tenant's share of the fleet against others that wait; `class_` is the best class
    of service it may ask for, and the one it gets if it asks for none.
    """

    id: str
    name: str
    tenant: TenantId
    role: Role
    created_unix_s: int
    weight: float = 1.0
    class_: ServiceClass = "interactive"


class Share(msgspec.Struct, frozen=True):
    """How well a key is served: see `KeyRecord`."""

    weight: float = 1.0
    class_: str = "interactive"


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

    def add(
        self,
        name: str,
        role: str = "user",
        tenant: str | None = None,
        share: Share = Share(),  # noqa: B008 - frozen
    ) -> NewKey:
        """Make a key; its tenant is its own unless one is given. Raises `bad_request`."""
        for param, text in (("name", name), ("tenant", tenant or "x")):
            if not _is_label(text):
                raise _wrong(
                    param, f"a {param} has 1 to {MAX_NAME_CHARACTERS} printable characters"
                )
        chosen = _role(role)
        if len(self._fresh().keys) >= MAX_KEYS:
            raise _wrong("name", f"there are {MAX_KEYS} keys already; revoke some")
        secret = spell(KEY_PREFIX, secrets.token_bytes(SECRET_BYTES))
        key = f"key-{secrets.token_hex(6)}"
        payer = TenantId(tenant or f"key:{key}")
        weight, class_ = _share(share)
        record = KeyRecord(key, name, payer, chosen, int(self._clock()), weight, class_)
        self._database.write(
            "insert into keys (id, hash, name, tenant, role, created_unix_s, weight, class)"
            " values (?, ?, ?, ?, ?, ?, ?, ?)",
            *(record.id, hashed(secret), name, payer, chosen, record.created_unix_s),
            *(weight, class_),
        )
        return NewKey(secret, record)

    def list(self) -> tuple[KeyRecord, ...]:
        """List the keys that are valid, oldest first."""
        return tuple(record for _, record in self._fresh().keys)

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
        return matching(presented, self._fresh().keys)

    def any_keys(self) -> bool:
        """Whether a key is needed: as soon as one was made, and also when all are revoked since.

        Else revoking the last key, perhaps because it leaked, would open the door to everybody.
        `forget_revoked` says that this is meant.
        """
        return self._fresh().ever

    def _fresh(self) -> _Known:
        version = self._database.version()
        with self._lock:
            if self._known is None or self._known.version != version:
                self._known = self._load(version)
            return self._known

    def _load(self, version: tuple[int, int]) -> _Known:
        # The version was read before the rows: newer ones are at worst read once more.
        rows = self._database.read(
            "select hash, id, name, tenant, role, created_unix_s, weight, class,"
            " revoked_unix_s is null"
            " from keys order by created_unix_s, id"
        )
        keys = tuple(
            (bytes(row[0]), msgspec.convert(dict(zip(_FIELDS, row[1:8], strict=True)), KeyRecord))
            for row in rows
            if row[8] and isinstance(row[0], bytes)
        )
        return _Known(version, keys, ever=bool(rows))


_FIELDS = ("id", "name", "tenant", "role", "created_unix_s", "weight", "class_")


def _is_label(text: str) -> bool:
    return 0 < len(text) <= MAX_NAME_CHARACTERS and text.isprintable()


def _share(share: Share) -> tuple[float, ServiceClass]:
    if not 0 < share.weight <= MAX_WEIGHT:
        raise _wrong("weight", f"a weight is above 0 and at most {MAX_WEIGHT:g}")
    for known in get_args(ServiceClass):
        if share.class_ == known:
            return share.weight, known
    raise _wrong("class", f"a class is one of {', '.join(get_args(ServiceClass))}")


def _role(role: str) -> Role:
    if role == "user":
        return "user"
    if role == "admin":
        return "admin"
    raise _wrong("role", "a role is user or admin")


def _wrong(param: str, words: str) -> RoostError:
    return fail("bad_request", f"The key cannot be made: {words}.", param=param)
