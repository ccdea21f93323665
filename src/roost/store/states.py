"""SHELL: what slots held, on disk: written whole or not at all, and checked before it is used.

A state is two files: `<name>.state` has the bytes, `<name>.json` says what they are. The second is
written last, so that a state without it is none. What a killed process leaves behind lies in its
scratch folder and goes with that.

A native reader aborts the whole runtime over a file that is not as it expects, so nothing is given
to one before its size and checksum were compared with what was written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from pathlib import Path

import msgspec

from roost.core.model import RuntimeKey
from roost.errors import RoostError, fail
from roost.store.files import publish, require_space, sync, translated, write_atomic

VERSION = 1
CHUNK_BYTES = 2**20


class Origin(msgspec.Struct, frozen=True):
    """Whose bytes they are: the runtime's key, the build that wrote them, the tokens they hold.

    `known` is the ids of the first tokens, as 64-bit numbers in a row; `tokens` counts all.
    """

    key: RuntimeKey
    build: str
    known: bytes
    tokens: int


class _Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: int
    origin: Origin
    size_bytes: int
    sha256: str


def write(source: Path, folder: Path, name: str, origin: Origin) -> None:
    """Copy a file into `folder` under this name; raises `storage_error` and leaves nothing then."""
    state = _state(folder, name)
    partial = state.with_suffix(".part")
    try:
        with translated():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            size_bytes = source.stat().st_size
            require_space(folder, size_bytes)
            digest = _copy(source, partial)
            publish(partial, state)
        label = _Label(VERSION, origin, size_bytes, digest)
        write_atomic(_label(folder, name), msgspec.json.encode(label))
    except BaseException:
        partial.unlink(missing_ok=True)
        remove(folder, name)
        raise


def checked(folder: Path, name: str, origin: Origin) -> Path:
    """Return the file of this state; raises `storage_error` unless it is what was written."""
    with translated():
        raw = _label(folder, name).read_bytes()
        digest = _digest(_state(folder, name))
        size_bytes = _state(folder, name).stat().st_size
    try:
        label = msgspec.json.decode(raw, type=_Label)
    except msgspec.DecodeError as error:
        raise _spoilt() from error
    if label != _Label(VERSION, origin, size_bytes, digest):
        raise _spoilt()
    return _state(folder, name)


def remove(folder: Path, name: str) -> None:
    """Remove a state, or what there is of one."""
    for path in (_label(folder, name), _state(folder, name)):
        with contextlib.suppress(OSError):
            path.unlink()


def _state(folder: Path, name: str) -> Path:
    return folder / f"{name}.state"


def _label(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def _copy(source: Path, target: Path) -> str:
    """Copy and put on disk; return the checksum of what was copied."""
    total = hashlib.sha256()
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with source.open("rb", buffering=0) as reader, os.fdopen(descriptor, "wb") as writer:
        while chunk := reader.read(CHUNK_BYTES):
            total.update(chunk)
            writer.write(chunk)
        writer.flush()
        sync(writer.fileno())
    return total.hexdigest()


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _spoilt() -> RoostError:
    return fail("storage_error", "What was put aside of a conversation is not as it was written.")


def free_bytes(folder: Path) -> int:
    """Say how much more this folder's file system holds; 0 where there is no such folder."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0
