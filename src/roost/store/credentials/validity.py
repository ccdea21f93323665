"""DECIDER: until when a certificate counts, read from its own bytes (X.509 in DER)."""

from __future__ import annotations

from datetime import UTC, datetime

SEQUENCE, UTC_TIME, GENERALIZED_TIME = 0x30, 0x17, 0x18
VERSION = 0xA0
BEFORE_VALIDITY = 4
"""Serial number, algorithm, issuer: what stands before it, and the version where there is one."""


def ends_at(der: bytes) -> datetime:
    """Return the last moment at which a certificate counts; `ValueError` for what is none."""
    try:
        _, certificate, _ = _element(der)
        _, signed, _ = _element(certificate)
        tag, _, rest = _element(signed)
        if tag != VERSION:
            rest = signed
        for _ in range(BEFORE_VALIDITY - 1):
            _, _, rest = _element(rest)
        tag, validity, _ = _element(rest)
        if tag != SEQUENCE:
            raise ValueError("no validity where one has to be")
        _, _, rest = _element(validity)
        tag, content, _ = _element(rest)
        return _moment(tag, content.decode("ascii"))
    except IndexError:
        raise ValueError("it ends too early") from None


def _element(data: bytes) -> tuple[int, bytes, bytes]:
    """Split off the first element: its tag, its content, and what follows it."""
    tag, size, start = data[0], data[1], 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(data[2:start], "big")
    if start + size > len(data):
        raise ValueError("an element is longer than what holds it")
    return tag, data[start : start + size], data[start + size :]


def _moment(tag: int, text: str) -> datetime:
    if tag == UTC_TIME:
        # Two digits of a year: X.509 has them mean 1950 to 2049, strptime 1969 to 2068.
        text = ("20" if text < "50" else "19") + text
    elif tag != GENERALIZED_TIME:
        raise ValueError("no time where one has to be")
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)
