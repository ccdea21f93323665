"""SHELL: figures of this machine for people and reports; what a platform does not tell is None."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from roost.backends.base import Runtime
from roost.errors import RoostError

_STATM = Path("/proc/self/statm")


async def measure(runtimes: Sequence[Runtime]) -> tuple[int | None, float | None]:
    """Resident memory in bytes of this process and its runtimes, and the 1-minute load."""
    rss_bytes = _own_rss_bytes()
    for runtime in runtimes:
        theirs = await _rss_bytes_of(runtime)
        if rss_bytes is not None and theirs is not None:
            rss_bytes += theirs
    return rss_bytes, _load_1m()


def _own_rss_bytes() -> int | None:
    try:
        resident_pages = int(_STATM.read_text().split()[1])
    except (OSError, ValueError, IndexError):
        return None
    return resident_pages * os.sysconf("SC_PAGE_SIZE")


async def _rss_bytes_of(runtime: Runtime) -> int | None:
    try:
        return (await runtime.telemetry()).rss_bytes
    except RoostError:
        return None


def _load_1m() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None
