"""How large weights may be that are copied: half of what is left, where it is of use."""

from __future__ import annotations

import pytest

from roost.core.machine import HugePages, Memory
from roost.node.machine.copies import copy_max_bytes

GIB = 1024**3


@pytest.mark.parametrize(
    ("memory", "mode", "glibc", "most"),
    [
        (Memory(available_bytes=8 * GIB), "madvise", (2, 35), 4 * GIB),
        (Memory(available_bytes=8 * GIB), "madvise", (2, 34), 0),
        (Memory(available_bytes=8 * GIB), "madvise", None, 0),
        (Memory(available_bytes=8 * GIB), "always", None, 4 * GIB),
        (Memory(available_bytes=8 * GIB, limit_bytes=3 * GIB, used_bytes=GIB), "always", None, GIB),
        (Memory(available_bytes=8 * GIB), "never", (2, 41), 0),
        (Memory(available_bytes=8 * GIB), None, (2, 41), 0),
        (Memory(total_bytes=8 * GIB), "madvise", (2, 41), 0),
    ],
)
def test_half_of_what_is_left(
    memory: Memory, mode: str | None, glibc: tuple[int, ...] | None, most: int
) -> None:
    """A container's limit counts; none without huge pages, or where nobody tells what is left."""
    assert copy_max_bytes(memory, HugePages(mode), glibc) == most


def test_what_runtimes_have_mapped_is_taken() -> None:
    """Though the system calls it available: their weights would be read again for every token."""
    memory, pages = Memory(available_bytes=14 * GIB), HugePages("always")
    assert copy_max_bytes(memory, pages, None, 10 * GIB) == 2 * GIB
    assert copy_max_bytes(memory, pages, None, 15 * GIB) == 0
