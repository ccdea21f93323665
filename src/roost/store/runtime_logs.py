"""SHELL: what runtimes have said: their logs under ROOST_HOME, read from the end and followed.

`logs/<node>/<model>.log` is written by the runtime's shim, `<model>+vocabulary.log` by what counts
the model's prompts. No two models have the same name for a file, whatever they are called, and
none has one with a plus. A full one becomes `.1`, the one before
it `.2`, and so on; so a reader that holds a file open reads it to its end, and then the next one.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from roost.store.files import translated
from roost.store.home import Home

SUFFIX = ".log"
TAIL_MAX_BYTES = 16 * 2**20
"""Read at most from the end of one log, however many lines are asked for."""
PIECE_BYTES = 65_536
LOG_NAME_MAX = 120
"""Characters of a log's name that are the model's; longer ones end in a digest."""
COUNTS = "+vocabulary"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class RuntimeLog(msgspec.Struct, frozen=True):
    """The logs of one model on one node; `size_bytes` counts the full ones too.

    `counts` is of what counts prompts while the model is not loaded.
    """

    model: str
    node: str
    size_bytes: int
    changed_unix_s: int
    path: Path
    counts: bool = False


def log_name(model: str, *, counts: bool = False) -> str:
    """Name a model's log: another name for each model, and for what `counts` its prompts."""
    name = quote(model, safe="", errors="surrogatepass")
    if name.startswith("."):
        name = f"%2E{name[1:]}"
    if len(name) > LOG_NAME_MAX:
        # No name that was quoted has a sign of percent before anything else than two capitals.
        digest = hashlib.sha256(model.encode("utf-8", "surrogatepass")).hexdigest()[:16]
        name = f"{name[: LOG_NAME_MAX - 20]}%-{digest}"
    return f"{name}{COUNTS if counts else ''}{SUFFIX}"


def file_name(name: str) -> str:
    """Name the folders of a runtime; names of models may hold slashes and more.

    Runtimes of a node have a number at the end of their ids, so these differ.
    """
    return _UNSAFE.sub("_", name).lstrip(".")


def runtime_logs(home: Home) -> list[RuntimeLog]:
    """List them, the one that was written last first; raises `storage_error`."""
    found = []
    with translated():
        for path in home.logs.glob(f"*/*{SUFFIX}"):
            with contextlib.suppress(FileNotFoundError):
                found.append(_look(path))
    return sorted(found, key=lambda one: one.changed_unix_s, reverse=True)


def _look(path: Path) -> RuntimeLog:
    stats = path.stat()
    size = stats.st_size + sum(older.stat().st_size for older in _older(path))
    name = path.name.removesuffix(SUFFIX)
    model, counts = unquote(name.removesuffix(COUNTS)), name.endswith(COUNTS)
    return RuntimeLog(model, path.parent.name, size, int(stats.st_mtime), path, counts)


def _older(path: Path) -> list[Path]:
    """List the full ones before a log, the newest of them first."""
    found = [one for one in path.parent.glob(f"{path.name}.*") if one.suffix[1:].isdecimal()]
    return sorted(found, key=lambda one: int(one.suffix[1:]))


def last_lines(path: Path, count: int) -> Iterator[bytes]:
    """Give the last `count` lines of a log, and of the full ones before it if that is too short."""
    held: list[list[bytes]] = []
    with translated():
        for part in (path, *_older(path)):
            with contextlib.suppress(FileNotFoundError):
                lines = _tail(part)[-count:] if count else []
                held.append(lines)
                count -= len(lines)
            if count <= 0:
                break
    for lines in reversed(held):
        yield from lines


def _tail(path: Path) -> list[bytes]:
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - TAIL_MAX_BYTES))
        lines = file.read(TAIL_MAX_BYTES).splitlines()
    # What was cut is no line.
    return lines[1:] if size > TAIL_MAX_BYTES else lines


class Follower:
    """Reads what is added to a log, also when it becomes a full one and another is begun."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BufferedReader | None = None
        self._open(at_end=True)

    def more(self) -> bytes:
        """Return what has been added since, b"" for nothing; at most `PIECE_BYTES`."""
        with translated():
            if self._file is None:
                self._open(at_end=False)
            added = self._file.read(PIECE_BYTES) if self._file else b""
            if not added and self._was_replaced():
                # Whoever writes has moved it away and closed it: nothing more comes there.
                self.close()
                self._open(at_end=False)
                added = self._file.read(PIECE_BYTES) if self._file else b""
        return added

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, *, at_end: bool) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._file = self._path.open("rb")
            if at_end:
                self._file.seek(0, os.SEEK_END)

    def _was_replaced(self) -> bool:
        if self._file is None:
            return False
        try:
            return self._path.stat().st_ino != os.fstat(self._file.fileno()).st_ino
        except FileNotFoundError:
            return False
