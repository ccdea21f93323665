"""DECIDER: how long a client gives its request, from `x-roost-timeout-ms` or a dialect's field."""

from __future__ import annotations

from roost.errors import fail

TIMEOUT_HEADER = b"x-roost-timeout-ms"
TIMEOUT_MAX_MS = 24 * 3600 * 1000
_MAX_DIGITS = len(str(TIMEOUT_MAX_MS))


def asked_timeout_s(header: bytes | None, in_body: object = None) -> float | None:
    """Read the time limit in seconds; the header, if there is one, overrules the body.

    None where neither says anything; `bad_request` for what is no whole number of ms in range.
    """
    value = in_body if header is None else header.decode("latin-1")
    if value is None:
        return None
    text = str(value)
    number = len(text) <= _MAX_DIGITS and text.isascii() and text.isdigit()
    if not number or not 1 <= int(text) <= TIMEOUT_MAX_MS:
        message = f"The timeout must be a whole number of ms from 1 to {TIMEOUT_MAX_MS}."
        raise fail("bad_request", message, param=TIMEOUT_HEADER.decode())
    return int(text) / 1000


def left_ms(deadline_s: float, now_s: float) -> int:
    """Say how many whole ms are left, at least 1: that is the least a timeout can be."""
    return max(1, int((deadline_s - now_s) * 1000))
