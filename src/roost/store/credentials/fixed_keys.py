"""DECIDER: keys and join tokens that settings name: what is written there, and what it stands for.

A key is `NAME:SECRET`, or in the settings file a table with `name`, `key` or `sha256`, and what
`roost keys add` takes: `role`, `tenant`, `weight`, `class`, `cache_salt` and limits. A secret may
be told by its SHA-256, as `sha256:HEX`: then who reads the file knows no key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from roost.core.allowance import Allowance
from roost.core.ids import TenantId
from roost.errors import RoostError, fail
from roost.store.credentials.records import (
    KeyRecord,
    Share,
    TokenRecord,
    checked_share,
    is_label,
    read_role,
)
from roost.store.credentials.secrets import hashed

SECRET_LEAST = 16
DIGEST = "sha256:"
ID_PREFIX = "file-"
"""Begins the ids of what no store has made; those it makes begin with `key-` and `token-`."""
MAX_FIXED = 10_000
_SECRET = re.compile(r"[!-~]{16,512}")
_HEX = re.compile(r"[0-9a-fA-F]{64}")


class _Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One `[[keys]]` table."""

    name: str
    key: str = ""
    sha256: str = ""
    role: str = "user"
    tenant: str = ""
    weight: float = 1.0
    class_: str = msgspec.field(default="interactive", name="class")
    cache_salt: str = ""
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    at_once: int = 0
    tokens_per_day: int = 0
    tokens_per_month: int = 0
    models: tuple[str, ...] = ()

    @property
    def share(self) -> Share:
        """How well it is served."""
        limits = {name: getattr(self, name) for name in Allowance.__struct_fields__}
        return Share(self.weight, self.class_, Allowance(**limits), self.cache_salt)


def read_keys(texts: Iterable[str]) -> tuple[tuple[bytes, KeyRecord], ...]:
    """Return what is kept of each key with its record.

    Raises `bad_request`, which never repeats a secret, for what is none and for a name or a key
    that is there twice.
    """
    read = tuple(_key(place, text) for place, text in enumerate(texts, start=1))
    if len({record.id for _, record in read}) < len(read):
        raise _wrong("two of them have one name")
    if len({digest for digest, _ in read}) < len(read):
        raise _wrong("two of them are the same key")
    if len(read) > MAX_FIXED:
        raise _wrong(f"there are more than {MAX_FIXED}")
    return read


def read_tokens(texts: Iterable[str]) -> tuple[tuple[bytes, TokenRecord], ...]:
    """Return what is kept of each join token; raises `bad_request` for what is none."""
    read = []
    for place, text in enumerate(texts, start=1):
        digest = _digest(text.partition(".")[0])
        if digest is None:
            message = (
                f"node_tokens: number {place} is no token of `roost token`, and no sha256: with 64 "
                "hexadecimal digits."
            )
            raise fail("bad_request", message, param="node_tokens")
        read.append((digest, TokenRecord(f"{ID_PREFIX}{place}", 0, None)))
    return tuple(read)


def _key(place: int, text: str) -> tuple[bytes, KeyRecord]:
    written = _written(place, text)
    secret = f"{DIGEST}{written.sha256}" if written.sha256 else written.key
    digest = None if written.sha256 and written.key else _digest(secret)
    if digest is None:
        least = f"of at least {SECRET_LEAST} visible characters, or a sha256 of 64 digits"
        raise _wrong(f"number {place} needs a key {least}")
    named = is_label(written.name) and is_label(written.tenant or "x")
    if not named or set(written.name) & set(" ,"):
        raise _wrong(f"number {place} needs a plain name, without spaces and commas")
    try:
        share = written.share
        weight, class_ = checked_share(share)
        role = read_role(written.role)
    except RoostError as error:
        raise _wrong(f"number {place}: {error.failure.message}") from None
    key = f"{ID_PREFIX}{written.name}"
    payer = TenantId(written.tenant or f"key:{key}")
    record = KeyRecord(
        *(key, written.name, payer, role, 0, weight, class_), share.allowance, share.cache_salt
    )
    return digest, record


def _written(place: int, text: str) -> _Written:
    if not text.startswith("{"):
        name, _, secret = text.partition(":")
        return _Written(name, secret)
    try:
        return msgspec.json.decode(text, type=_Written)
    except msgspec.MsgspecError as error:
        # What is wrong is told by its place alone: the text may be a secret in the wrong field.
        at = str(error).rpartition(" - at ")[2] if " - at " in str(error) else "its fields"
        known = ", ".join(field.encode_name for field in msgspec.structs.fields(_Written))
        raise _wrong(f"number {place} is wrong at {at}; there are {known}") from None


def _digest(secret: str) -> bytes | None:
    if secret.startswith(DIGEST):
        digits = secret.removeprefix(DIGEST)
        return bytes.fromhex(digits) if _HEX.fullmatch(digits) else None
    return hashed(secret) if _SECRET.fullmatch(secret) else None


def _wrong(words: str) -> RoostError:
    return fail("bad_request", f"keys: {words.rstrip('.')}.", param="keys")
