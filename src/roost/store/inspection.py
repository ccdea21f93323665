"""SHELL: looks at a model file: is it one, what does it say of itself, what is its digest."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from roost.errors import RoostError, fail
from roost.store import ggml
from roost.store.gguf import TRUNCATED, read_header
from roost.store.vocabulary import Facts, read_facts

Progress: TypeAlias = Callable[[int, int | None], None]
"""Called often, by the thread that works, with bytes done and in total (None: not known)."""

CHUNK_BYTES = 2**20
FIRST_READ_BYTES = 8 * 2**20


class Stamp(msgspec.Struct, frozen=True):
    """What tells, without reading a file, that it has not changed."""

    size_bytes: int
    mtime_ns: int


def ignore(_done: int, _total: int | None) -> None:
    """Show no progress."""


def take_stamp(path: Path) -> Stamp:
    """Return the stamp of a regular file; raises `bad_request` for anything else."""
    with _readable():
        status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise fail("bad_request", "The model is not a regular file. Name a .gguf file.")
    return Stamp(status.st_size, status.st_mtime_ns)


def inspect(path: Path) -> Facts:
    """Check a model file's header and return what it says; raises `bad_request`.

    The header is read, never mapped: a file cut short by somebody else while it is mapped would
    end this process with a bus error.
    """
    size = take_stamp(path).size_bytes
    wanted = FIRST_READ_BYTES
    with _readable(), path.open("rb") as file:
        while True:
            wanted = min(wanted, size, ggml.MAX_HEADER_BYTES)
            head = os.pread(file.fileno(), wanted, 0)
            try:
                return read_facts(head, read_header(head, size))
            except RoostError as error:
                rest = wanted < min(size, ggml.MAX_HEADER_BYTES)
                if error.failure.message != TRUNCATED or not rest:
                    raise
            wanted *= 4


def digest(path: Path, progress: Progress = ignore) -> str:
    """Return `sha256:…` of a file; raises `bad_request` if unreadable or changing."""
    before = take_stamp(path)
    total = hashlib.sha256()
    done = 0
    with _readable(), path.open("rb", buffering=0) as file:
        while chunk := file.read(CHUNK_BYTES):
            total.update(chunk)
            done += len(chunk)
            progress(done, before.size_bytes)
    if take_stamp(path) != before:
        raise fail("bad_request", "The model file changes while it is read. Try again later.")
    return f"sha256:{total.hexdigest()}"


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or "its name is no file name"
        raise fail("bad_request", f"The model file cannot be read: {cause}.") from error
