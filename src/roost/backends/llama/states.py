"""SHELL: what slots of a llama.cpp server hold, as files; and the trial of that at every start.

Not every model comes back from a file as it was: those with sliding windows or recurrent states may
restore to nothing, or to something else. So it is tried before it is offered, with this very model:
the restored slot has to spare the same prefill, and to say the same next; then once more while
another slot runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TypeVar

import msgspec

from roost.backends import checks
from roost.backends.base import SavedState
from roost.backends.http1.exchange import Exchange, Lost
from roost.backends.llama.answer import Timings
from roost.backends.llama.link import Link
from roost.backends.processes.places import ensure_folder
from roost.errors import RoostError, fail

PROBE_TOKENS = 32
PROBE_BEYOND_TOKENS = 64
"""How far the trial goes beyond a sliding window: what fits into the window proves nothing."""
PROBE_MORE_TOKENS = 3
PROBE_BESIDE_TOKENS = 128
"""Of an answer that runs on another slot meanwhile; it is left before it is through."""
PROBE_TIMEOUT_S = 30.0
REUSED_MIN = 0.9
"""Share of the restored tokens that have to be of use; a window may recompute its last few."""


class ProbePlan(msgspec.Struct, frozen=True):
    """For whom states are tried: ids below `vocab_size`, `ctx` tokens a slot, the widest window.

    `build` is what the server says that it is.
    """

    vocab_size: int
    ctx: int
    window: int
    build: str = ""

    @property
    def length(self) -> int:
        """Tokens to try with; 0 where the window leaves no room to look beyond it."""
        wanted = self.window + PROBE_BEYOND_TOKENS if self.window else PROBE_TOKENS
        return wanted if wanted + 2 * PROBE_MORE_TOKENS <= self.ctx else 0


class _Saved(msgspec.Struct):
    n_saved: int
    n_written: int


class _Restored(msgspec.Struct):
    n_restored: int


class _Erased(msgspec.Struct):
    n_erased: int


_T = TypeVar("_T", _Saved, _Restored, _Erased)


class _Answer(msgspec.Struct):
    content: str
    timings: Timings


class LlamaStates:
    """See `base.States`; `folder` is where the server writes."""

    def __init__(
        self, link: Link, folder: str, slots: int, build: str, token_bytes: int = 0
    ) -> None:
        self.folder = folder
        self.build = build
        self.token_bytes = token_bytes
        self._link = link
        self._slots = slots

    async def save(self, slot: int, name: str) -> SavedState:
        """Write a slot's content; the name appears when the file is whole."""
        checks.check_state(slot, name, self._slots)
        partial = f"{name}.part"
        try:
            ensure_folder(self.folder)
            saved = await self._act(slot, "save", _Saved, partial)
            _finish(Path(self.folder), partial, name)
        except BaseException:
            _discard(Path(self.folder, partial))
            raise
        return SavedState(saved.n_saved, saved.n_written)

    async def restore(self, slot: int, name: str, saved: SavedState) -> None:
        """Fill a slot from a file; after a failure it is erased, whatever the server has done.

        The server aborts, with all who run on it, when a file ends where it does not expect that.
        """
        checks.check_state(slot, name, self._slots)
        try:
            if _size_bytes(Path(self.folder, name)) != saved.size_bytes:
                raise fail("runtime_error", "A state is not as it was saved.")
            restored = await self._act(slot, "restore", _Restored, name)
            if restored.n_restored != saved.tokens:
                raise fail("runtime_error", "A state holds something else than it was saved with.")
        except RoostError as error:
            if error.failure.reason != "runtime_died":
                await self.erase(slot)
            raise

    async def erase(self, slot: int) -> None:
        """Empty a slot."""
        checks.check_state(slot, "x", self._slots)
        await self._act(slot, "erase", _Erased)

    async def _act(self, slot: int, action: str, kind: type[_T], name: str = "") -> _T:
        checks.check_alive(ended=self._link.ended)
        body = msgspec.json.encode({"filename": name} if name else {})
        try:
            return await self._link.ask(f"/slots/{slot}?action={action}", kind, body)
        except Lost:
            raise RoostError(await self._link.blame(f"a slot's {action} did not work")) from None


def _finish(folder: Path, partial: str, name: str) -> None:
    try:
        (folder / partial).replace(folder / name)
    except OSError as error:
        raise fail("runtime_error", f"A state was not written: {error.strerror}.") from None


def _size_bytes(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _discard(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink()


async def probed(link: Link, folder: str, slots: int, plan: ProbePlan) -> LlamaStates | None:
    """Try states on a server that nobody uses yet; None where anything is not as it has to be."""
    states = LlamaStates(link, folder, slots, plan.build)
    try:
        async with asyncio.timeout(PROBE_TIMEOUT_S):
            token_bytes = await _tried(link, states, slots, plan)
    except (Lost, RoostError, TimeoutError):
        return None
    return LlamaStates(link, folder, slots, plan.build, token_bytes) if token_bytes else None


async def _tried(link: Link, states: LlamaStates, slots: int, plan: ProbePlan) -> int:
    """Return the bytes per token, 0 where the restored slot is not as good as the saved one."""
    if not plan.length:
        return 0
    begin = tuple((plan.vocab_size // 2 + i) % plan.vocab_size for i in range(plan.length))
    more = tuple((plan.vocab_size // 3 + i) % plan.vocab_size for i in range(PROBE_MORE_TOKENS))
    there = slots - 1
    await _said(link, 0, begin)
    saved = await states.save(0, "probe")
    kept = await _said(link, 0, begin + more)
    await states.erase(0)
    await states.restore(there, "probe", saved)
    again = await _said(link, there, begin + more)
    holds = await _holds_beside(link, states, slots, begin + more) if slots > 1 else True
    await states.erase(there)
    _discard(Path(states.folder, "probe"))
    reused = holds and again.timings.cache_n >= REUSED_MIN * plan.length
    if saved.tokens < plan.length or not reused:
        return 0
    return -(-saved.size_bytes // saved.tokens) if again.content == kept.content else 0


async def _holds_beside(
    link: Link, states: LlamaStates, slots: int, tokens: tuple[int, ...]
) -> bool:
    """Whether the last slot comes back, into another one if there is any, while the first runs."""
    there = slots - 1
    back = there - 1 if slots > 2 else there
    async with _neighbour(link, 0, tokens[:1]):
        saved = await states.save(there, "probe")
        await states.erase(there)
        await states.restore(back, "probe", saved)
        again = await _said(link, back, tokens)
        await states.erase(back)
    await states.erase(0)
    return again.timings.cache_n >= REUSED_MIN * len(tokens)


@contextlib.asynccontextmanager
async def _neighbour(link: Link, slot: int, tokens: tuple[int, ...]) -> AsyncIterator[None]:
    """Keep an answer running on a slot."""
    body = {
        "prompt": tokens,
        "n_predict": PROBE_BESIDE_TOKENS,
        "id_slot": slot,
        "cache_prompt": False,
        "ignore_eos": True,
        "stream": True,
    }
    exchange = Exchange(link.place)
    try:
        await exchange.send("POST", "/completion", msgspec.json.encode(body))
        if await exchange.status() != 200:
            raise Lost("it does not run two at a time")
        yield
        await exchange.close()
        await link.until_free(slot)
    finally:
        exchange.drop()


async def _said(link: Link, slot: int, tokens: tuple[int, ...]) -> _Answer:
    """Compute a prompt and the most likely token after it."""
    body = {
        "prompt": tokens,
        "n_predict": 1,
        "id_slot": slot,
        "cache_prompt": True,
        "temperature": 0.0,
        "ignore_eos": True,
        "stream": False,
        "response_fields": ("content", "timings"),
    }
    return await link.ask("/completion", _Answer, msgspec.json.encode(body))
