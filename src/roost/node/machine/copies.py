"""DECIDER: how large weights may be that are copied into memory of their own instead of mapped.

Pages of a file are small, and small pages cost a model a fifth of its time for each token. A copy
lies in huge pages, where the system has them, but cannot be dropped by a system that runs short.
"""

from __future__ import annotations

from roost.core.machine import HugePages, Memory

SHARE = 0.5
"""Of the memory that programs can still have: what a model's file has in the page cache beside its
copy is in the way of nobody then, and a model that nearly fills a machine stays mapped."""

WITH_PAGES = ("always", "madvise")


def copy_max_bytes(memory: Memory, pages: HugePages) -> int:
    """Say how large they may be; 0 where nothing is won, or nobody knows what is left."""
    if pages.mode not in WITH_PAGES or memory.room_bytes is None:
        return 0
    return int(memory.room_bytes * SHARE)
