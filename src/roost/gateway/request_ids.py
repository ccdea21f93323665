"""SHELL: request ids from the operating system's entropy, fetched in bulk."""

from __future__ import annotations

import os

from roost.core.ids import RequestId

_BYTES = 16
_BULK = 256


class RequestIds:
    """A source of 128-bit ids as 32 hex digits; a system call is made once per 256 of them."""

    def __init__(self) -> None:
        self._pool: list[str] = []

    def __call__(self) -> RequestId:
        """Return an id that was never returned before."""
        if not self._pool:
            entropy = os.urandom(_BYTES * _BULK).hex()
            step = 2 * _BYTES
            self._pool = [entropy[i : i + step] for i in range(0, len(entropy), step)]
        return RequestId(self._pool.pop())
