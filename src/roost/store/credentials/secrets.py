"""DECIDER: secrets that clients and nodes present: their form, their hash, their comparison."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from string import hexdigits
from typing import TypeVar

KEY_PREFIX = "sk-roost-"
TOKEN_PREFIX = "rt-"
SECRET_BYTES = 32
PIN_MARK = "."
PIN_DIGITS = 64
MAX_PRESENTED_CHARACTERS = 512

Found = TypeVar("Found")


def spell(prefix: str, randomness: bytes) -> str:
    """Write a secret as text: its prefix and 64 hexadecimal digits."""
    if len(randomness) != SECRET_BYTES:
        raise ValueError(f"a secret has {SECRET_BYTES} random bytes")
    return prefix + randomness.hex()


def pinned(secret: str, fingerprint: str) -> str:
    """Write a join token that also says by which certificate the gateway is known."""
    return f"{secret}{PIN_MARK}{fingerprint}"


def unpinned(token: str) -> tuple[str, str]:
    """Take a join token apart: the secret, and the fingerprint that it names, "" for none.

    Raises `ValueError` where something follows the secret that is no fingerprint: a token that was
    cut short must not count as one that allows every certificate.
    """
    secret, mark, fingerprint = token.partition(PIN_MARK)
    if mark and not (len(fingerprint) == PIN_DIGITS and set(fingerprint) <= set(hexdigits)):
        raise ValueError("what follows the secret is no fingerprint")
    return secret, fingerprint.lower()


def hashed(secret: str) -> bytes:
    """Return what is kept of a secret.

    One round is enough: it has 256 random bits, so there is nothing that could be guessed.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()


def matching(presented: str, known: Iterable[tuple[bytes, Found]]) -> Found | None:
    """Return what belongs to the hash of `presented`, if any does.

    Every known hash is compared, each in constant time, so that how long it takes says nothing
    about how close a guess was, nor which one matched.
    """
    if len(presented) > MAX_PRESENTED_CHARACTERS:
        return None
    wanted = hashed(presented)
    found: Found | None = None
    for candidate, value in known:
        if hmac.compare_digest(candidate, wanted):
            found = value
    return found
