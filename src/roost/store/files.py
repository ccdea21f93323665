"""SHELL: files that are whole or not there whenever we crash, and locks that die with us."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from roost.errors import RoostError, fail


def write_atomic(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace `path` by a file holding `content`; whoever reads sees the old or the new one whole.

    Both the bytes and the name are on disk when this returns. Raises `storage_error`.
    """
    temporary = path.with_name(f".{path.name[:32]}.{secrets.token_hex(8)}.new")
    try:
        with translated():
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                sync(file.fileno())
            publish(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def publish(temporary: Path, path: Path) -> None:
    """Rename a finished file to its name and put the name on disk."""
    temporary.replace(path)
    sync_folder(path.parent)


def sync(descriptor: int) -> None:
    """Put a file's bytes on disk."""
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Put a folder's names on disk; file systems that cannot are believed."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with contextlib.suppress(OSError):
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


SPARE_BYTES = 64 * 2**20
"""Left free on the disk by anything large: logs and the database have to live there too."""


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn the operating system's errors about files into `storage_error`, without the path."""
    try:
        yield
    except OSError as error:
        raise storage_error(error) from error


def storage_error(error: OSError) -> RoostError:
    """Say what the operating system said about a file, without its path."""
    cause = error.strerror or type(error).__name__
    return fail(
        "storage_error",
        f"A file under ROOST_HOME cannot be used: {cause}. Check free space and permissions.",
    )


def require_space(folder: Path, need_bytes: int) -> None:
    """Raise `storage_error` unless `need_bytes` fit on `folder`'s disk with some room to spare."""
    with translated():
        free = shutil.disk_usage(folder).free
    if need_bytes > free - SPARE_BYTES:
        raise fail(
            "storage_error",
            f"Not enough disk space: {need_bytes / 1e9:.1f} GB are needed"
            f" and {free / 1e9:.1f} GB are free. Free some or move ROOST_HOME.",
        )


def lock_now(path: Path, *, shared: bool = False) -> int | None:
    """Take the lock `path` stands for; None if somebody has it, else a descriptor to close.

    `shared` locks exclude only exclusive ones: a way to ask whether anybody holds one of those.
    The lock ends with the descriptor, so also when the process dies, however it dies.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


@contextlib.contextmanager
def locked(path: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock `path` stands for, waiting for it.

    Only for work that takes milliseconds, unless it is `shared`.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
