"""SHELL: what slots of the scripted backend hold, as files: ids in 64 bits each, after a mark."""

from __future__ import annotations

import asyncio
from array import array
from pathlib import Path
from typing import Protocol

from roost.backends import checks
from roost.backends.base import SavedState
from roost.backends.generating import Generating
from roost.backends.processes.places import ensure_folder
from roost.errors import fail

MARK = b"scripted state\n"
TOKEN_BYTES = 8


class Cells(Protocol):
    """A runtime's slots, as far as states are concerned."""

    def cells(self, slot: int) -> tuple[int, ...]:
        """Give the tokens that a slot holds."""
        ...

    def fill(self, slot: int, tokens: tuple[int, ...]) -> None:
        """Let a slot hold these."""
        ...


class ScriptedStates:
    """See `base.States`; `move_s` is how long each move takes.

    In place of breaking, a slot that is in use raises `internal`: the node must not ask.
    """

    token_bytes = TOKEN_BYTES
    build = "scripted 1"

    def __init__(self, runtime: Cells, generating: Generating, folder: str, slots: int) -> None:
        self.folder = folder
        self.move_s = 0.0
        self._runtime = runtime
        self._slots = slots
        self._generating = generating
        Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)

    async def save(self, slot: int, name: str) -> SavedState:
        """Write a slot's tokens."""
        await self._check(slot, name)
        tokens = self._runtime.cells(slot)
        ensure_folder(self.folder)
        return SavedState(len(tokens), _written(Path(self.folder, name), tokens))

    async def restore(self, slot: int, name: str, saved: SavedState) -> None:
        """Read a slot's tokens."""
        await self._check(slot, name)
        self._runtime.fill(slot, ())
        self._runtime.fill(slot, _read(Path(self.folder, name), saved))

    async def erase(self, slot: int) -> None:
        """Empty a slot."""
        await self._check(slot, "x")
        self._runtime.fill(slot, ())

    async def _check(self, slot: int, name: str) -> None:
        self._generating.check_alive()
        checks.check_state(slot, name, self._slots)
        if slot in self._generating.taken:
            raise fail("internal", "The state of a slot in use was asked for.")
        await asyncio.sleep(self.move_s)
        self._generating.check_alive()


def _written(path: Path, tokens: tuple[int, ...]) -> int:
    """Write a file that is whole or not there; return its size."""
    data = MARK + array("q", tokens).tobytes()
    partial = path.with_name(f"{path.name}.part")
    try:
        partial.write_bytes(data)
        partial.replace(path)
    except OSError as error:
        raise fail("runtime_error", f"A state was not written: {error.strerror}.") from None
    return len(data)


def _read(path: Path, saved: SavedState) -> tuple[int, ...]:
    try:
        data = path.read_bytes()
    except OSError:
        data = b""
    body = data.removeprefix(MARK)
    if body == data or len(data) != saved.size_bytes or len(body) != TOKEN_BYTES * saved.tokens:
        raise fail("runtime_error", "A state cannot be read.")
    return tuple(array("q", body))
