"""SHELL: what slots held, moved between slots, memory and disk, as the agent asks for it.

A runtime writes into a folder of its own, and reads from there; files in memory lie in the node's,
and those on disk in one that may outlive the node. So what a runtime has written can be read by the
next one of its kin. Copies on disk are made and checked in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import platform
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from roost.backends.base import Runtime, SavedState, States
from roost.core.ids import SessionId
from roost.errors import RoostError, fail
from roost.node.effects import Demote, Forget, Mark, Park, Promote, Restore
from roost.store import shelved
from roost.store import states as disk
from roost.store.files import translated
from roost.store.shelved import Found
from roost.store.states import Facts, Label


class KeepSettings(msgspec.Struct, frozen=True):
    """Where files are in memory and copies on disk, "" for nowhere; seconds that one move may take.

    `lasts` says that copies on disk outlive the node: one that does not verify is put aside then.
    With `required`, a runtime whose slots cannot be put aside is of no use.
    """

    memory: str = ""
    folder: str = ""
    timeout_s: float = 10.0
    lasts: bool = False
    required: bool = False


class Unfit(msgspec.Struct, frozen=True):
    """Some states of a model that a runtime of it cannot use, and what about them is not equal."""

    states: int
    differs: tuple[str, ...]


class Keeper:
    """Moves states of one node's runtimes; each method raises `RoostError`, or is quick.

    `kins` has the facts of all that is or was put aside here, by their short names.
    """

    def __init__(self, settings: KeepSettings) -> None:
        self.settings = settings
        self._memory = Path(settings.memory)
        self._disk = Path(settings.folder)
        self.kins: dict[str, Facts] = {}
        self.quarantined = 0
        # How many an earlier life has left of each kin, until a runtime of the model was told.
        self._left: Counter[str] = Counter()

    def find(self, found: Found) -> None:
        """These were there when the node began."""
        self.quarantined = found.quarantined
        for label in found.labels:
            self.kins[label.facts.kin] = label.facts
            self._left[label.facts.kin] += 1

    def meet(self, runtime: Runtime) -> tuple[str, list[Unfit]]:
        """Say what a new runtime's files can be read by, and what of earlier ones it cannot read.

        The second is told once.
        """
        facts = _facts(runtime)
        self.kins[facts.kin] = facts
        mine = [kin for kin in self._left if self.kins[kin].model == facts.model]
        left = {kin: self._left.pop(kin) for kin in mine}
        unfit = [
            Unfit(count, tuple(facts.differs(self.kins[kin])))
            for kin, count in left.items()
            if kin != facts.kin
        ]
        return facts.kin, unfit

    async def park(self, runtime: Runtime, effect: Park) -> SavedState:
        """Write a slot to memory."""
        states, name = _states(runtime), _name(effect.session)
        if not self.settings.memory:
            raise fail("storage_error", "There is no folder for conversations in memory.")
        async with self._in_time():
            saved = await states.save(effect.slot, name)
        self._take(Path(states.folder, name))
        return saved

    async def restore(self, runtime: Runtime, effect: Restore) -> None:
        """Fill a slot, from disk only after a look at every byte.

        A file that is not as it was written is not read again, nor is one that ended its reader.
        """
        states = _states(runtime)
        async with self._in_time():
            try:
                shown = _show(await self._found(effect), states, effect)
            except RoostError:
                await states.erase(effect.slot)
                raise
            try:
                await states.restore(effect.slot, shown.name, effect.saved)
            except RoostError:
                if runtime.died.is_set() and effect.tier == "disk":
                    await asyncio.to_thread(self._put_aside, effect)
                raise
            finally:
                _gone(shown)

    async def demote(self, effect: Demote) -> None:
        """Copy a file to disk; it stays in memory until it is forgotten there."""
        facts = self.kins.get(effect.kin)
        if not self.settings.folder or facts is None:
            raise fail("storage_error", "There is no folder for conversations on disk.")
        name = _name(effect.session)
        label = Label(
            effect.session,
            facts,
            effect.tenant,
            effect.known,
            effect.saved.tokens,
            saved_unix_s=int(time.time()),
            pinned=effect.pinned,
        )
        await asyncio.to_thread(disk.write, self._memory / name, self._disk, name, label)

    async def promote(self, effect: Promote) -> None:
        """Copy a file from disk to memory, after a look at every byte."""
        await asyncio.to_thread(self._raise, await self._found(effect), _name(effect.session))

    async def mark(self, effect: Mark) -> None:
        """Say on disk whether a session is pinned."""
        name = _name(effect.session)
        await asyncio.to_thread(disk.relabel, self._disk, name, pinned=effect.pinned)

    async def forget(self, effect: Forget) -> None:
        """Remove files, as far as there are any."""
        await asyncio.to_thread(self._remove, effect)

    def _take(self, path: Path) -> None:
        """Have a file that a runtime has written; a rename within memory."""
        try:
            self._memory.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.replace(self._memory / path.name)
        except OSError as error:
            _gone(path)
            raise fail("storage_error", f"A state cannot be kept: {error.strerror}.") from None

    def _raise(self, path: Path, name: str) -> None:
        partial = self._memory / f"{name}.part"
        try:
            with translated():
                self._memory.mkdir(mode=0o700, parents=True, exist_ok=True)
                disk.copy(path, partial)
                partial.replace(self._memory / name)
        except RoostError:
            _gone(partial)
            raise

    async def _found(self, effect: Restore | Promote) -> Path:
        name = _name(effect.session)
        if isinstance(effect, Restore) and effect.tier == "ram":
            return self._memory / name
        asked = effect.kin, effect.known, effect.saved.tokens
        try:
            return await asyncio.to_thread(disk.checked, self._disk, name, *asked)
        except RoostError:
            await asyncio.to_thread(self._put_aside, effect)
            raise

    def _put_aside(self, effect: Restore | Promote) -> None:
        if self.settings.lasts:
            self.quarantined += shelved.quarantine(self._disk, _name(effect.session))

    def _remove(self, effect: Forget) -> None:
        name = _name(effect.session)
        if effect.tier != "disk":
            _gone(self._memory / name)
        if effect.tier != "ram" and self.settings.folder:
            disk.remove(self._disk, name)

    @contextlib.asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(self.settings.timeout_s):
                yield
        except TimeoutError:
            message = f"A slot's content was not moved within {self.settings.timeout_s:g} s."
            raise fail("runtime_error", message) from None


def _show(path: Path, states: States, effect: Restore) -> Path:
    """Let a runtime see a file in its own folder, under a name that no other slot's move has."""
    link = Path(states.folder, f"{_name(effect.session)}-{effect.slot}")
    try:
        link.unlink(missing_ok=True)
        link.symlink_to(path)
    except OSError as error:
        raise fail("storage_error", f"A state cannot be linked: {error.strerror}.") from None
    return link


def _gone(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


def _states(runtime: Runtime) -> States:
    if runtime.states is None:
        raise fail("unsupported", "This runtime cannot put aside what its slots hold.")
    return runtime.states


def _facts(runtime: Runtime) -> Facts:
    key = runtime.key
    build = _states(runtime).build
    return Facts(key.backend, key.model, key.digest, build, platform.machine(), key.options)


def _name(session: SessionId) -> str:
    return f"s{session}"
