"""DECIDER: how large weights may be that are copied into memory of their own instead of mapped.

Pages of a file are small, and small pages cost a model a fifth of its time for each token. A copy
lies in huge pages, where the system has them, but cannot be dropped by a system that runs short.
"""

from __future__ import annotations

from roost.core.machine import HugePages, Memory

SHARE = 0.5
"""Of the memory that programs can still have: what a model's file has in the page cache beside its
copy is in the way of nobody then, and a model that nearly fills a machine stays mapped."""

ASKING_GLIBC = (2, 35)
"""From this version on the C library asks for huge pages where it is told to."""


def copy_max_bytes(
    memory: Memory, pages: HugePages, glibc: tuple[int, ...] | None, mapped_bytes: int = 0
) -> int:
    """Say how large they may be; 0 where nothing is won, or nobody knows what is left.

    `glibc` is the version of that C library, None where there is another one. Runtimes have mapped
    so much: a system would give it away, and read the weights again for every token.
    """
    asks = pages.mode == "madvise" and glibc is not None and glibc >= ASKING_GLIBC
    if memory.room_bytes is None or not (asks or pages.mode == "always"):
        return 0
    return int(max(0, memory.room_bytes - mapped_bytes) * SHARE)
