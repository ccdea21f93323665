"""SHELL: what slots held, on disk: written whole or not at all, and checked before it is used.

A state is two files: `<name>.state` has the bytes, `<name>.json` says what they are, after a
checksum of that. The second is written last and removed first, so that a state without it is none:
whatever is killed at whatever byte leaves states that are whole, and leftovers that `store.shelved`
clears away.

A native reader aborts the whole runtime over a file that is not as it expects, so nothing is given
to one before its size and checksum were compared with what was written.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
from pathlib import Path

import msgspec

from roost.core.ids import SessionId
from roost.core.model import RuntimeOptions
from roost.errors import RoostError, fail
from roost.store.files import publish, require_space, sync, translated, write_atomic

VERSION = 2
CHUNK_BYTES = 2**20
LABEL_MAX_BYTES = 64 * 2**20
_SUM_CHARACTERS = 64


class Facts(msgspec.Struct, frozen=True):
    """What has to be equal for a state to mean anything to a runtime: all of it, no exceptions.

    `build` is who wrote the bytes, `machine` the kind of processor, `layout` how this roost keeps
    them; `digest` is of the model's weights, tokeniser and template.
    """

    backend: str
    model: str
    digest: str
    build: str
    machine: str
    options: RuntimeOptions
    layout: int = VERSION

    @property
    def kin(self) -> str:
        """A short name for all of this: equal facts, equal name."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:32]

    def differs(self, other: Facts) -> list[str]:
        """Name what is not equal."""
        names = (*self.__struct_fields__,)
        return [name for name in names if getattr(self, name) != getattr(other, name)]


class Label(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a state is: of which session, from what, whose, and how much of it there is.

    `tenant` is a salted name. `known` is the ids of the first tokens, as 64-bit numbers in a row;
    `tokens` counts all. `pinned` ones are not removed for want of room. `size_bytes` and `sha256`
    are the payload's, filled in when it is written.
    """

    session: SessionId
    facts: Facts
    tenant: str
    known: bytes
    tokens: int
    saved_unix_s: int = 0
    pinned: bool = False
    size_bytes: int = 0
    sha256: str = ""
    version: int = VERSION


def write(source: Path, folder: Path, name: str, label: Label) -> None:
    """Copy a file into `folder` under this name; raises `storage_error` and leaves nothing then."""
    state = payload_of(folder, name)
    partial = state.with_suffix(".part")
    try:
        with translated():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            size_bytes = source.stat().st_size
            require_space(folder, size_bytes)
            digest = copy(source, partial)
            publish(partial, state)
        whole = msgspec.structs.replace(label, size_bytes=size_bytes, sha256=digest)
        write_atomic(label_of(folder, name), sealed(whole))
    except BaseException:
        partial.unlink(missing_ok=True)
        remove(folder, name)
        raise


def read_label(folder: Path, name: str) -> Label:
    """Read what a state is, without its bytes; raises `storage_error` where that is spoilt."""
    raw = _plain_bytes(label_of(folder, name), LABEL_MAX_BYTES)
    told, body = raw[:_SUM_CHARACTERS], raw[_SUM_CHARACTERS + 1 :]
    if told != hashlib.sha256(body).hexdigest().encode():
        raise _spoilt()
    try:
        label = msgspec.json.decode(body, type=Label)
    except msgspec.DecodeError as error:
        raise _spoilt() from error
    if label.version != VERSION or size_bytes_of(payload_of(folder, name)) != label.size_bytes:
        raise _spoilt()
    return label


def checked(folder: Path, name: str, kin: str, known: bytes, tokens: int) -> Path:
    """Return the file of this state, every byte of which was compared with what was written.

    Raises `storage_error` unless it is, and is of this kin and these tokens.
    """
    label = read_label(folder, name)
    if (label.facts.kin, label.known, label.tokens) != (kin, known, tokens):
        raise _spoilt()
    with translated():
        digest = _digest(payload_of(folder, name))
    if digest != label.sha256:
        raise _spoilt()
    return payload_of(folder, name)


def relabel(folder: Path, name: str, *, pinned: bool) -> None:
    """Pin a state, or let it go again; raises `storage_error`."""
    label = msgspec.structs.replace(read_label(folder, name), pinned=pinned)
    write_atomic(label_of(folder, name), sealed(label))


def remove(folder: Path, name: str) -> None:
    """Remove a state, or what there is of one."""
    for path in (label_of(folder, name), payload_of(folder, name)):
        with contextlib.suppress(OSError):
            path.unlink()


def sealed(label: Label) -> bytes:
    """Encode a label behind its own checksum."""
    body = msgspec.json.encode(label)
    return hashlib.sha256(body).hexdigest().encode() + b"\n" + body


def payload_of(folder: Path, name: str) -> Path:
    """Where the bytes of a state are."""
    return folder / f"{name}.state"


def label_of(folder: Path, name: str) -> Path:
    """Where it says what they are."""
    return folder / f"{name}.json"


def size_bytes_of(path: Path) -> int:
    """Size of a plain file of this user's; -1 for anything else, a link to one included."""
    try:
        status = path.lstat()
    except OSError:
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def _plain_bytes(path: Path, most: int) -> bytes:
    with translated():
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return file.read(most)


def copy(source: Path, target: Path) -> str:
    """Copy for this user alone, and put on disk; return the checksum of what was copied."""
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
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _spoilt() -> RoostError:
    return fail("storage_error", "What was put aside of a conversation is not as it was written.")


def free_bytes(folder: Path) -> int:
    """Say how much more this folder's file system holds; 0 where there is no such folder."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0
