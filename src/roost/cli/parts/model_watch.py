"""SHELL: notices models that are pulled, removed or changed while a node runs, and tells the node.

It looks instead of being told: `roost pull` is another process, and may run as it likes. A look is
one scan of a small folder, and the times of the files that models lie in, which may be anybody's;
only when that has changed are the manifests read, in a thread, because a model file that changed is
hashed then.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from roost.errors import RoostError
from roost.observe import logs

if TYPE_CHECKING:
    from roost.core.model import Manifest
    from roost.store.models.registry import ModelStore

Look: TypeAlias = frozenset[tuple[str, int, int, int, int]]


class Watch(NamedTuple):
    """What is watched: the store, what it was known to hold, and how often to look."""

    models: ModelStore
    known: tuple[Manifest, ...]
    poll_s: float


def look(folder: Path, known: Iterable[Manifest]) -> Look:
    """Take in every manifest, and every file of the models that are `known`.

    A file that is rewritten is a new inode, or has a new time of change, which nobody can set back.
    """
    try:
        with os.scandir(folder) as entries:
            found = [(e.name, e.stat()) for e in entries if e.name.endswith(".json")]
    except OSError:
        # Between the scan and its look a file may be gone: the next look is told apart from this.
        return frozenset()
    for path in {file.path for manifest in known for file in manifest.files}:
        with suppress(OSError):
            found.append((path, Path(path).stat()))
    return frozenset((name, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) for name, s in found)


async def watch(what: Watch, tell: Callable[[tuple[Manifest, ...]], Awaitable[None]]) -> None:
    """Call `tell` with all models whenever they are others than before; until cancelled."""
    seen: Look | None = None
    known = what.known
    while True:
        now = await asyncio.to_thread(look, what.models.home.manifests, known)
        if now != seen:
            # Looked at before it is read: what changes in between is read once more. Models that
            # are new are looked at with their files from the next time on, and read once more.
            seen = now
            found = await _list(what.models, known)
            if found != known:
                known = found
                logs.get().info("models_changed", models=len(found))
                await tell(found)
        await asyncio.sleep(what.poll_s)


async def _list(models: ModelStore, known: tuple[Manifest, ...]) -> tuple[Manifest, ...]:
    try:
        return await asyncio.to_thread(models.list)
    except RoostError as error:
        logs.get().warning("models_unreadable", reason=error.failure.reason)
        return known
