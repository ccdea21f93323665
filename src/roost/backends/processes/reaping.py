"""SHELL: the end of a process that was asked through pipes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

PIECE_BYTES = 65_536


def kill(process: asyncio.subprocess.Process) -> None:
    """End it without waiting."""
    with contextlib.suppress(ProcessLookupError):
        process.kill()
    assert process.stdin is not None, "it was asked through a pipe"
    process.stdin.close()


async def reap(process: asyncio.subprocess.Process) -> None:
    """End it, and wait until it is gone and nothing of it is open.

    It may be gone before the end of its output has been read, and whoever closes the loop then
    leaves its pipe to the garbage collector.
    """
    kill(process)
    await process.wait()
    assert process.stdout is not None, "it answered through a pipe"
    # RuntimeError: somebody else reads, and is told of the end in our place.
    with contextlib.suppress(OSError, RuntimeError):
        while await process.stdout.read(PIECE_BYTES):
            pass
