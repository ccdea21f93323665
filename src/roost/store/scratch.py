"""SHELL: private folders in the system's temporary space, and removing those of killed processes.

Sockets live there: their paths have to be short, and ROOST_HOME may be anywhere.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from roost.store.files import lock_now, translated

PREFIX = "roost-"
LOCK = "lock"
SETTLED_S = 60.0
"""A younger folder may belong to a process that has not locked it yet."""


@contextmanager
def scratch_folder(parent: Path | None = None) -> Iterator[str]:
    """Make a folder of mode 0700 that goes with the block; raises `storage_error`.

    First removes what killed processes of this user have left.
    """
    root = parent or Path(tempfile.gettempdir())
    with translated():
        sweep(root)
        folder = tempfile.mkdtemp(prefix=PREFIX, dir=root)
        descriptor = lock_now(Path(folder) / LOCK)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if descriptor is not None:
            os.close(descriptor)


def sweep(root: Path) -> None:
    """Remove this user's scratch folders whose process has ended."""
    for folder in root.glob(f"{PREFIX}*"):
        # Whoever starts at the same moment sweeps as well, and may have been here first.
        with suppress(FileNotFoundError):
            if is_settled(folder) and (descriptor := lock_now(folder / LOCK)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(descriptor)


def is_settled(folder: Path) -> bool:
    """Whether a folder is this user's, and old enough for its process to have locked it."""
    try:
        status = (folder / LOCK).lstat()
        mine = folder.lstat().st_uid == status.st_uid == os.getuid()
    except OSError:
        return False
    return mine and time.time() - status.st_mtime >= SETTLED_S
