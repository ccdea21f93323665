"""SHELL: the small questions that are asked of a llama.cpp server beside completions."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from roost.backends.http1.connection import Kept
from roost.backends.http1.exchange import Lost, Place, call
from roost.backends.processes.child import DEATH_NOTICE_S, Child
from roost.errors import Failure, RoostError

T = TypeVar("T")

CALL_TIMEOUT_S = 60.0
"""Longer than a node waits before it calls a silent runtime hung: that rule decides, not this."""

RELEASE_POLL_FIRST_S = 0.02
RELEASE_POLL_MAX_S = 0.1
RELEASE_POLL_GROWTH = 1.6


class _Text(msgspec.Struct):
    content: str


class _Tokens(msgspec.Struct):
    tokens: tuple[int, ...]


class _Slot(msgspec.Struct):
    id: int
    is_processing: bool


class Link:
    """A child and the place where it listens. `stopping` is set once somebody wants it to end."""

    def __init__(self, child: Child, place: Place) -> None:
        self.child = child
        self.place = place
        self.kept = Kept()
        self.stopping = False

    @property
    def died(self) -> asyncio.Event:
        """Set once the process has ended."""
        return self.child.died

    @property
    def ended(self) -> bool:
        """Whether nothing more may be asked of it."""
        return self.stopping or self.died.is_set()

    async def healthy(self) -> bool:
        """Whether the server answers and its model is loaded."""
        try:
            status, _ = await call(self.place, "GET", "/health", timeout_s=CALL_TIMEOUT_S)
        except Lost:
            return False
        return status == 200

    async def ask(self, path: str, kind: type[T], body: bytes | None = None) -> T:
        """Make a request, POST where there is a body, and decode the answer; raises `Lost`."""
        method = "GET" if body is None else "POST"
        status, data = await call(
            self.place, method, path, body or b"", timeout_s=CALL_TIMEOUT_S, kept=self.kept
        )
        if status != 200:
            raise Lost(f"status {status}")
        try:
            return msgspec.json.decode(data, type=kind)
        except msgspec.DecodeError as error:
            raise Lost("another answer than expected") from error

    async def tokenize(self, pieces: Sequence[str], *, special: bool) -> tuple[int, ...]:
        """Tokenise pieces one by one and join the results; raises `Lost`.

        `special` says whether texts of special tokens become those tokens. No token is added.
        """
        wanted = {"content": pieces, "add_special": False, "parse_special": special}
        return (await self.ask("/tokenize", _Tokens, msgspec.json.encode(wanted))).tokens

    async def detokenize(self, tokens: Sequence[int]) -> str:
        """Give the text of tokens; raises `Lost`."""
        wanted = msgspec.json.encode({"tokens": tokens})
        return (await self.ask("/detokenize", _Text, wanted)).content

    async def until_free(self, slot: int) -> None:
        """Return when the server says that the slot is free, or has died.

        Asked only while somebody waits for it: too many questions keep a server from noticing that
        a client has left.
        """
        wait_s = RELEASE_POLL_FIRST_S
        while not self.died.is_set() and await self._busy(slot):
            await self.pause(wait_s)
            wait_s = min(wait_s * RELEASE_POLL_GROWTH, RELEASE_POLL_MAX_S)

    async def _busy(self, slot: int) -> bool:
        try:
            slots = await self.ask("/slots", tuple[_Slot, ...])
            return next(one.is_processing for one in slots if one.id == slot)
        except (Lost, StopIteration):
            failure = await self.blame("it does not tell whether a slot is free")
        if failure.reason == "runtime_died":
            return False
        raise RoostError(failure)

    async def pause(self, seconds: float) -> None:
        """Let time pass, less if the process ends meanwhile."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.died.wait()

    async def blame(self, what: str) -> Failure:
        """Say why something broke: the process has ended, or it lives and misbehaves."""
        await self.pause(DEATH_NOTICE_S)
        if self.ended:
            return Failure("runtime_died", "The runtime ended unexpectedly.")
        return Failure("runtime_error", f"The runtime could not complete the request: {what}.")
