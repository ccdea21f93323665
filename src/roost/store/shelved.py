"""SHELL: a node's folder of states that outlive it: who holds it, what is in it, what is amiss.

    runtime-state/v1/<node>/.lock         held while a node uses the folder
                            s7.state      bytes of a session
                            s7.json       what they are (`store.states`)
                            quarantine/   what did not verify, kept for a person to look at

A state that does not verify is never read again and never silently gone: it is moved aside, counted
and told. There is a limit to that as well: of more than `QUARANTINE_MAX` the oldest go.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

import msgspec

from roost.core.ids import NodeId
from roost.errors import RoostError, fail
from roost.store import states
from roost.store.files import lock_now, sync_folder, translated
from roost.store.home import Held, Home
from roost.store.states import Label

QUARANTINE_MAX = 16
"""Of all the files that are aside; a payload and its label are two."""
TRIES = 6
BETWEEN_S = 0.05
_NAME = re.compile(r"s[0-9]{1,18}")
_ASIDE = "quarantine"


class Found(msgspec.Struct, frozen=True):
    """What a folder holds: whole states, the longest unused first, and what was done beside.

    `expired` states were too old and are gone, `quarantined` ones did not verify, and `leftovers`
    are files that a killed process had not finished.
    """

    labels: tuple[Label, ...] = ()
    expired: int = 0
    quarantined: int = 0
    leftovers: int = 0


def hold(home: Home, node: NodeId) -> tuple[Path, Held]:
    """Take the folder of a node's states for this process alone; raises `storage_error`."""
    folder = home.root / "runtime-state" / "v1" / node
    with translated():
        for part in (home.root / "runtime-state", folder.parent, folder):
            part.mkdir(mode=0o700, exist_ok=True)
            part.chmod(0o700)
        descriptor = _locked(folder)
    if descriptor is None:
        message = "Another process keeps its conversations in this node's folder. Stop that first."
        raise fail("storage_error", message)
    return folder, Held(descriptor)


def sweep(home: Home, now_unix_s: int, ttl_s: float) -> None:
    """Let go of what is too old in the folders of nodes that do not run now.

    Such a node may never come back, or its states may not outlive it any more.
    """
    root = home.root / "runtime-state" / "v1"
    for lock in sorted(root.glob("*/.lock")):
        with contextlib.suppress(OSError, RoostError):
            descriptor = lock_now(lock)
            if descriptor is None:
                continue
            try:
                reconcile(lock.parent, now_unix_s, ttl_s)
            finally:
                os.close(descriptor)


def reconcile(folder: Path, now_unix_s: int, ttl_s: float) -> Found:
    """Look through a folder that is held: clear leftovers and old states, move aside the spoilt.

    Sizes and labels are checked here, the bytes of a state when it is used: that takes as long as
    reading them. Raises `storage_error`.
    """
    found: list[Label] = []
    expired = quarantined = 0
    with translated():
        names = sorted(path.stem for path in folder.glob("s*.json"))
    for name in names:
        label = _readable(folder, name)
        if label is None or name != f"s{label.session}":
            quarantine(folder, name)
            quarantined += 1
        elif now_unix_s - label.saved_unix_s >= ttl_s:
            states.remove(folder, name)
            expired += 1
        else:
            found.append(label)
    leftovers = _clear(folder, {f"s{label.session}" for label in found})
    _age(folder / _ASIDE, now_unix_s - ttl_s)
    found.sort(key=lambda label: (label.saved_unix_s, label.session))
    return Found(tuple(found), expired, quarantined, leftovers)


def quarantine(folder: Path, name: str) -> bool:
    """Move a state aside; what cannot be moved is removed: it must not be found again.

    Say whether there was anything: whoever read it at the same time may have been first.
    """
    aside = folder / _ASIDE
    paths = states.label_of(folder, name), states.payload_of(folder, name)
    was_there = any(os.path.lexists(path) for path in paths)
    for path in paths:
        try:
            aside.mkdir(mode=0o700, exist_ok=True)
            path.replace(aside / path.name)
        except OSError:
            with contextlib.suppress(OSError):
                path.unlink()
    with contextlib.suppress(OSError):
        sync_folder(folder)
        kept = sorted(aside.iterdir(), key=lambda path: path.lstat().st_mtime_ns)
        for path in kept[:-QUARANTINE_MAX]:
            path.unlink()
    return was_there


def _locked(folder: Path) -> int | None:
    """Take a folder's lock; whoever sweeps it has it for some milliseconds."""
    for _ in range(TRIES):
        descriptor = lock_now(folder / ".lock")
        if descriptor is not None:
            return descriptor
        time.sleep(BETWEEN_S)
    return None


def _age(aside: Path, before_unix_s: float) -> None:
    """What was put aside is somebody's words as well, and goes when they would have gone."""
    with contextlib.suppress(OSError):
        for path in list(aside.iterdir()):
            if path.lstat().st_mtime < before_unix_s:
                path.unlink()


def _readable(folder: Path, name: str) -> Label | None:
    if not _NAME.fullmatch(name):
        return None
    try:
        return states.read_label(folder, name)
    except RoostError:
        return None


def _clear(folder: Path, whole: set[str]) -> int:
    """Remove what no whole state has anything to do with; say how many files that were."""
    cleared = 0
    with translated():
        for path in list(folder.iterdir()):
            kept = path.suffix in (".state", ".json") and path.stem in whole
            if path.name in (".lock", _ASIDE) or kept:
                continue
            if path.is_symlink() or not path.is_dir():
                path.unlink()
                cleared += 1
    return cleared
