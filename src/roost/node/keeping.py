"""SHELL: what slots hold, moved between slots, memory and disk, as the agent asks for it.

Files in memory are the runtime's own, in its `States.folder`; nothing there outlives it. Copies on
disk are this node's, in one folder for each runtime, and are made and checked in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from roost.backends.base import Runtime, SavedState, States
from roost.core.ids import RuntimeId, SessionId
from roost.errors import RoostError, fail
from roost.node.effects import Demote, Forget, Park, Restore
from roost.store import states as disk
from roost.store.states import Origin


class KeepSettings(msgspec.Struct, frozen=True):
    """Where copies on disk lie, "" for nowhere, and how long one move may take, in seconds."""

    folder: str = ""
    timeout_s: float = 10.0


class Keeper:
    """Moves states of one node's runtimes; each method raises `RoostError`, or is quick."""

    def __init__(self, settings: KeepSettings) -> None:
        self._settings = settings
        # A copy that is being made must not outlive the removal of all copies of its runtime.
        self._copying = asyncio.Lock()

    async def park(self, runtime: Runtime, effect: Park) -> SavedState:
        """Write a slot to memory."""
        async with self._in_time():
            return await _states(runtime).save(effect.slot, _name(effect.session))

    async def restore(self, runtime: Runtime, effect: Restore) -> None:
        """Fill a slot, from disk only after a look at every byte."""
        states, name = _states(runtime), _name(effect.session)
        async with self._in_time():
            try:
                if effect.tier == "disk":
                    origin = _origin(runtime, effect)
                    await asyncio.to_thread(self._bring, states, effect, origin)
            except RoostError:
                await states.erase(effect.slot)
                raise
            await states.restore(effect.slot, name, effect.saved)

    async def demote(self, runtime: Runtime, effect: Demote) -> None:
        """Copy a file to disk; it stays in memory until it is forgotten there."""
        if not self._settings.folder:
            raise fail("storage_error", "There is no folder for conversations on disk.")
        source = Path(_states(runtime).folder, _name(effect.session))
        where = self._folder(effect.runtime), _name(effect.session)
        async with self._copying:
            if runtime.died.is_set():
                raise fail("runtime_died", "The runtime has ended.")
            await asyncio.to_thread(disk.write, source, *where, _origin(runtime, effect))

    async def forget(self, runtime: Runtime, effect: Forget) -> None:
        """Remove files, as far as there are any."""
        await asyncio.to_thread(self._remove, _states(runtime), effect)

    async def close(self, runtime: RuntimeId) -> None:
        """A runtime is gone: remove all that was copied of it."""
        if not self._settings.folder:
            return
        async with self._copying:
            await asyncio.to_thread(shutil.rmtree, self._folder(runtime), ignore_errors=True)

    def _bring(self, states: States, effect: Restore, origin: Origin) -> None:
        """Let the runtime see the file on disk under the name that it had in memory."""
        name = _name(effect.session)
        path = disk.checked(self._folder(effect.runtime), name, origin)
        link = Path(states.folder, name)
        try:
            link.unlink(missing_ok=True)
            link.symlink_to(path)
        except OSError as error:
            raise fail("storage_error", f"A state cannot be linked: {error.strerror}.") from None

    def _remove(self, states: States, effect: Forget) -> None:
        name = _name(effect.session)
        if effect.tier != "disk":
            with contextlib.suppress(OSError):
                Path(states.folder, name).unlink()
        if effect.tier != "ram" and self._settings.folder:
            disk.remove(self._folder(effect.runtime), name)

    def _folder(self, runtime: RuntimeId) -> Path:
        return Path(self._settings.folder, runtime.encode().hex())

    @contextlib.asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self._settings.timeout_s):
                yield
        except TimeoutError:
            message = f"A slot's content was not moved within {self._settings.timeout_s:g} s."
            raise fail("runtime_error", message) from None


def _states(runtime: Runtime) -> States:
    if runtime.states is None:
        raise fail("unsupported", "This runtime cannot put aside what its slots hold.")
    return runtime.states


def _origin(runtime: Runtime, effect: Restore | Demote) -> Origin:
    return Origin(runtime.key, _states(runtime).build, effect.known, effect.saved.tokens)


def _name(session: SessionId) -> str:
    return f"s{session}"
