"""WIRING: the private folders of a node process, all of which go with it or are swept later."""

from __future__ import annotations

import os
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from roost.cli.parts.states import lasting_states
from roost.store.files import translated
from roost.store.scratch import scratch_folder
from roost.store.shelved import Found

if TYPE_CHECKING:
    from collections.abc import Iterator

    from roost.config import Settings
    from roost.core.about import Persistence
    from roost.core.ids import NodeId
    from roost.store.home import Home

MEMORY = Path("/dev/shm")  # noqa: S108 - where Linux keeps files in memory; ours are private there


class Places(NamedTuple):
    """`work` for sockets, `memory` and `disk` for conversations that are put aside.

    `memory` is in memory where the platform has a folder for that, and temporary space elsewhere.
    `disk` is one that stays where conversations outlive the node; `found` is what was in it.
    """

    work: str
    memory: str
    disk: str
    persistence: Persistence = "ephemeral"
    found: Found = Found()


@contextmanager
def node_places(home: Home, node: NodeId, settings: Settings) -> Iterator[Places]:
    """Make the folders, and remove what killed processes have left; raises `storage_error`."""
    with ExitStack() as stack:
        work = stack.enter_context(scratch_folder())
        memory = f"{work}/states"
        if MEMORY.is_dir() and os.access(MEMORY, os.W_OK):
            memory = stack.enter_context(scratch_folder(MEMORY))
        with translated():
            Path(memory).mkdir(mode=0o700, exist_ok=True)
        lasting = stack.enter_context(lasting_states(home, node, settings))
        if lasting.persistence == "disk":
            yield Places(work, memory, str(lasting.folder), "disk", lasting.found)
            return
        kept = home.root / "sessions"
        with translated():
            kept.mkdir(mode=0o700, exist_ok=True)
        disk = stack.enter_context(scratch_folder(kept))
        yield Places(work, memory, disk, lasting.persistence)
