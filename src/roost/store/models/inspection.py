"""SHELL: looks at a model file: is it one, what does it say of itself, what is its digest."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec

from roost.core.card import CARD_MAX_BYTES, Card, is_card, read_card
from roost.errors import RoostError, fail
from roost.store.files import translated, write_atomic
from roost.store.models.card_facts import facts_of
from roost.store.models.folders import CONFIG, GENAI, read_folder
from roost.store.models.parts import check_shards
from roost.store.models.vocabulary import Facts, read_facts
from roost.store.models.vocabulary_file import vocabulary_file
from roost.text import ggml
from roost.text.gguf import TRUNCATED, Header, read_header

if TYPE_CHECKING:
    from roost.core.model import Manifest, ModelFile

Progress: TypeAlias = Callable[[int, int | None], None]
"""Called often, by the thread that works, with bytes done and in total (None: not known)."""

CHUNK_BYTES = 2**20
FIRST_READ_BYTES = 8 * 2**20
GROWTH = 4


class Stamp(msgspec.Struct, frozen=True):
    """What tells, without reading a file, that it has not changed."""

    size_bytes: int
    mtime_ns: int


class Looked(NamedTuple):
    """The beginning of a file with all of its header, and the length of the file."""

    head: bytes
    header: Header
    size_bytes: int


def ignore(_done: int, _total: int | None) -> None:
    """Show no progress."""


def take_stamp(path: Path) -> Stamp:
    """Return the stamp of a regular file; raises `bad_request` for anything else."""
    with _readable():
        status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise fail("bad_request", "The model is not a regular file. Name a .gguf file.")
    return Stamp(status.st_size, status.st_mtime_ns)


def inspect(*paths: Path) -> Facts:
    """Check the headers of a model's files, in their order, and return what the first one says.

    Raises `bad_request` with a verdict. Headers are read, never mapped: a file cut short by
    somebody else while it is mapped would end this process with a bus error.
    """
    if (card := _read_card(paths[0])) is not None:
        return facts_of(card)
    if paths[0].name in {CONFIG, GENAI}:
        return read_folder(paths)
    return facts_in(map(_read_header, paths))[0]


def grown_header(read: Callable[[int], tuple[bytes, int]]) -> Looked:
    """Read as much of a file as its header needs; raises `bad_request` with a verdict.

    `read` gives so many bytes from the beginning, fewer where there are none, and the length of the
    file.
    """
    wanted = FIRST_READ_BYTES
    while True:
        head, size = read(wanted)
        try:
            return Looked(head, read_header(head, size), size)
        except RoostError as error:
            rest = wanted < min(size, ggml.MAX_HEADER_BYTES)
            if error.failure.message != TRUNCATED or not rest:
                raise
        wanted = min(wanted * GROWTH, ggml.MAX_HEADER_BYTES)


def facts_in(files: Iterable[Looked]) -> tuple[Facts, int]:
    """Say what the first file says of the model that lies in all; raises `bad_request`.

    Also how long they are together. Their beginnings are some megabytes each, so only the first
    one's is kept meanwhile.
    """
    head, headers, size_bytes = b"", list[Header](), 0
    for one in files:
        head = head or one.head
        headers.append(one.header)
        size_bytes += one.size_bytes
    check_shards(headers)
    weights = sum(header.data_bytes for header in headers)
    return msgspec.structs.replace(read_facts(head, headers[0]), weight_bytes=weights), size_bytes


def write_vocabulary(model: Path, path: Path) -> None:
    """Write a model's vocabulary alone as a file; see `vocabulary_file`.

    Raises `bad_request` for a model that has none, and `storage_error`.
    """
    looked = _read_header(model)
    content = vocabulary_file(looked.head, looked.header)
    with translated():
        write_atomic(path, content)


def is_unchanged(file: ModelFile) -> bool:
    """Whether a file has the size and time that it had; raises `bad_request` if it is no file."""
    return take_stamp(Path(file.path)) == Stamp(file.size_bytes, file.mtime_ns)


def check_unchanged(manifest: Manifest) -> None:
    """Look once more at a model's files before native code does.

    Raises `load_failed` where a file is gone, is not the one that was installed, or is damaged.
    """
    try:
        for file in manifest.files:
            if not is_unchanged(file):
                raise fail("bad_request", "The model's file is another one than was installed.")
        inspect(*(Path(file.path) for file in manifest.files))
    except RoostError as error:
        advice = "On the node run: roost models verify"
        raise fail("load_failed", f"{error.failure.message} {advice}") from error


def _read_card(path: Path) -> Card | None:
    """Read a file that can be a card and no weights; None for any other."""
    if take_stamp(path).size_bytes > CARD_MAX_BYTES:
        return None
    with _readable():
        data = path.read_bytes()
    return read_card(data) if is_card(data) else None


def _read_header(path: Path) -> Looked:
    """Read as much of a file as its header needs; raises `bad_request`."""
    size = take_stamp(path).size_bytes
    with _readable(), path.open("rb") as file:
        return grown_header(lambda wanted: (os.pread(file.fileno(), wanted, 0), size))


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


class Digests:
    """Hashes each file once, by whatever path it is named, for as long as nothing changes it."""

    def __init__(self, read: Callable[[Path], str] = digest) -> None:
        self._read = read
        self._known: dict[tuple[int, int, Stamp], str] = {}

    def of(self, path: Path) -> str:
        """Return what `digest` does, and raise what it does."""
        with _readable():
            status = path.stat()
        key = status.st_dev, status.st_ino, take_stamp(path)
        if key not in self._known:
            self._known[key] = self._read(path)
        return self._known[key]


def check_readable(path: Path) -> None:
    """Raise `bad_request` where `digest` would not begin; nothing is read."""
    take_stamp(path)
    with _readable(), path.open("rb"):
        pass


@contextlib.contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        cause = getattr(error, "strerror", None) or "its name is no file name"
        raise fail("bad_request", f"The model file cannot be read: {cause}.") from error
