"""SHELL: what on disk can be done without: found, told from what is in use, and removed.

Installed models are no cache and never listed. Whether something is in use is asked of the lock
that its user holds, and asked again, by taking that lock, when it is removed.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from roost.errors import RoostError, fail
from roost.store.conversations.transcripts import Shelf, open_disk
from roost.store.files import lock_now, translated
from roost.store.home import Home
from roost.store.models.naming import is_model_id
from roost.store.models.registry import IMPORT, IMPORTING
from roost.store.schema import explained
from roost.store.scratch import LOCK, PREFIX, is_settled

Kind: TypeAlias = Literal["chat-kv", "chat-history", "downloads", "logs", "orphans", "temp"]
HISTORY: Kind = "chat-history"
OPENED_BYTES = 2**50
"""No limit: what is removed makes a database no larger."""
LOG_FRESH_S = 86_400.0
BUSY = "in use"
YOUNG = "just made"


class Entry(msgspec.Struct, frozen=True):
    """Something on disk: `in_use` says why it has to stay, "" if it can go."""

    id: str
    kind: Kind
    size_bytes: int
    in_use: str


class Disk(NamedTuple):
    """Where to look: ROOST_HOME, and the system's temporary space."""

    home: Home
    temp: Path


class _Found(msgspec.Struct, frozen=True):
    """Paths that go together, and the lock that their user holds; None where there is none."""

    name: str
    paths: tuple[Path, ...]
    guard: Path | None
    why: str = ""


def disk_of(home: Home) -> Disk:
    """Name what this process has."""
    return Disk(home, Path(tempfile.gettempdir()))


def entries(disk: Disk) -> tuple[Entry, ...]:
    """List what there is; changes nothing. Raises `storage_error`."""
    with translated():
        return tuple(
            Entry(f"{kind}/{found.name}", kind, _size(found.paths), found.why or _held(found.guard))
            for kind, find in _KINDS.items()
            for found in find(disk)
        )


def purge(disk: Disk, entry: str) -> None:
    """Remove one entry by its id; raises `bad_request` if it is in use, and `not_found`."""
    kind, _, name = entry.partition("/")
    find = next((find for known, find in _KINDS.items() if known == kind), None)
    found = next((one for one in find(disk) if one.name == name), None) if find else None
    if found is None:
        raise fail("not_found", "Nothing in the cache has this id. See: roost cache list")
    with translated():
        held = lock_now(found.guard) if found.guard else None
        try:
            if found.why or (found.guard and held is None):
                raise _protected(found.why or BUSY)
            _remove(disk.home, kind, found)
        finally:
            if held is not None:
                os.close(held)


def _protected(why: str) -> RoostError:
    return fail("bad_request", f"This cannot be removed: it is {why}. Stop what uses it first.")


def _remove(home: Home, kind: str, found: _Found) -> None:
    if kind == HISTORY:
        _clear_history(home)
        return
    if kind == "orphans" and (home.manifests / f"{found.name}.json").exists():
        # Installed since it was found: the lock that installs hold is held by now.
        raise _protected("an installed model")
    for path in found.paths:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _clear_history(home: Home) -> None:
    """Let SQLite remove what was said, so that whoever has the file open meanwhile agrees."""
    connection = open_disk(home, OPENED_BYTES)
    shelf = Shelf(connection)
    try:
        with explained():
            shelf.begin()
            shelf.clear()
            shelf.commit()
            connection.execute("vacuum")
            shelf.scrub()
    finally:
        shelf.close()


def _chat_kv(disk: Disk) -> Iterator[_Found]:
    return _scratch(disk.home.root / "sessions")


def _temp(disk: Disk) -> Iterator[_Found]:
    return _scratch(disk.temp)


def _scratch(root: Path) -> Iterator[_Found]:
    """Find the private folders of processes; those of others are nobody's business."""
    for folder in sorted(root.glob(f"{PREFIX}*")):
        if folder.is_dir() and not folder.is_symlink() and folder.lstat().st_uid == os.getuid():
            guard = folder / LOCK
            if guard.is_file():
                yield _Found(folder.name, (folder,), guard, "" if is_settled(folder) else YOUNG)


def _history(disk: Disk) -> Iterator[_Found]:
    path = disk.home.root / "conversations.db"
    if path.exists():
        files = (path, path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm"))
        running = "in use by a running gateway" if disk.home.running_instances() else ""
        yield _Found("conversations", files, None, running)


def _downloads(disk: Disk) -> Iterator[_Found]:
    """Find unfinished pulls and imports: the parts of one source go together."""
    groups: dict[str, list[Path]] = {}
    for path in sorted(disk.home.downloads.iterdir()):
        if path.is_file() and not path.is_symlink():
            stem = path.name.partition(".")[0]
            name = stem if stem.startswith(IMPORT) else stem.partition("-")[0]
            groups.setdefault(name, []).append(path)
    for name, paths in groups.items():
        guard = IMPORTING if name.startswith(IMPORT) else f"pull-{name}"
        yield _Found(name, tuple(paths), disk.home.locks / guard)


def _logs(disk: Disk) -> Iterator[_Found]:
    """Find the logs of runtimes, by the node that they ran on.

    By age and not by the node's lock: who looks at that may make a node that starts just then
    believe that its identity is taken. A log that is removed while it is open is lost, no more.
    """
    for path in sorted(disk.home.logs.iterdir()):
        if not path.is_symlink():
            fresh = time.time() - _newest(path) < LOG_FRESH_S
            yield _Found(path.name, (path,), None, "written within a day" if fresh else "")


def _orphans(disk: Disk) -> Iterator[_Found]:
    """Find model files without a manifest: what a crash between the two has left."""
    for folder in sorted(disk.home.models.iterdir()):
        manifest = disk.home.manifests / f"{folder.name}.json"
        if is_model_id(folder.name) and not folder.is_symlink() and not manifest.exists():
            yield _Found(folder.name, (folder,), disk.home.locks / "models")


_KINDS: dict[Kind, Callable[[Disk], Iterator[_Found]]] = {
    "chat-kv": _chat_kv,
    "chat-history": _history,
    "downloads": _downloads,
    "logs": _logs,
    "orphans": _orphans,
    "temp": _temp,
}
KINDS = tuple(_KINDS)


def _held(guard: Path | None) -> str:
    """Say whether somebody holds a lock, without making one."""
    if guard is None or not guard.exists():
        return ""
    descriptor = lock_now(guard, shared=True)
    if descriptor is None:
        return BUSY
    os.close(descriptor)
    return ""


def _newest(path: Path) -> float:
    """Say when something in a tree was last written, in seconds; 0 where nobody can."""
    try:
        inside = max(map(_newest, path.iterdir()), default=0.0) if path.is_dir() else 0.0
        return max(inside, path.lstat().st_mtime)
    except OSError:
        return 0.0


def _size(paths: tuple[Path, ...]) -> int:
    return sum(_size_below(path) for path in paths)


def _size_below(path: Path) -> int:
    """Sum up the files of a tree; links count for nothing, and so does what goes meanwhile."""
    try:
        if path.is_symlink() or not path.is_dir():
            return path.lstat().st_size
        return sum(map(_size_below, path.iterdir()))
    except OSError:
        return 0
