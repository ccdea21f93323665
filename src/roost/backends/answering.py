"""SHELL: the life of a runtime that is given text and counts no tokens: asked, answering, ended.

A server of somebody else's and a program for each request have it in common; what they answer with,
a connection or a process, is theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Generic, Protocol, TypeVar

from roost.backends import checks
from roost.backends.base import Prepared, SlotUse
from roost.core.events import StreamEvent
from roost.core.model import Capabilities
from roost.core.reading import Reading
from roost.core.request import GenerateRequest


class Stream(Protocol):
    """One answer; `close` in the end, whatever happens."""

    def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events of the contract; whatever breaks becomes the last of them."""
        ...

    def stop(self) -> None:
        """End the answer because the runtime ends."""
        ...

    async def close(self) -> None:
        """Return when nothing of it is left here."""
        ...


AStream = TypeVar("AStream", bound=Stream)


class Answering(Generic[AStream]):
    """What runs in a runtime, one answer a slot; `died` once it has been told to end."""

    def __init__(self, slots: int, ctx: int, claims: Capabilities) -> None:
        self.died = asyncio.Event()
        self._slots = slots
        self._ctx = ctx
        self._claims = claims
        self._streams: dict[int, AStream] = {}

    @property
    def streams(self) -> tuple[AStream, ...]:
        """The answers that are under way."""
        return tuple(self._streams.values())

    def check(self, request: GenerateRequest) -> None:
        """Refuse what no such runtime takes; see `base.Runtime.prepare`."""
        checks.check_alive(ended=self.died.is_set())
        checks.check_request(request)
        checks.check_claimed(request, self._claims)

    def prepared(self, request: GenerateRequest, reading: Reading | None = None) -> Prepared:
        """Make what is opened of a checked request: somebody else counts, so it has no tokens."""
        return Prepared(request, (), checks.limit_of(request, 0, self._ctx), reading)

    def check_place(self, prepared: Prepared, use: SlotUse) -> None:
        """Refuse what was not prepared here, and a slot that is none; see `base.Runtime.open`."""
        self.check(prepared.request)
        checks.check_place(prepared, use, slots=self._slots, ctx=self._ctx)

    @asynccontextmanager
    async def run(self, slot: int, stream: AStream) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Give the events of an answer in its slot, and close it; a slot in use is `internal`."""
        checks.check_free(slot, self._streams)
        self._streams[slot] = stream
        try:
            async with aclosing(stream.events()) as events:
                yield events
        finally:
            try:
                await stream.close()
            finally:
                del self._streams[slot]

    def end(self) -> None:
        """Take nothing more, and end what runs; idempotent."""
        self.died.set()
        for stream in self.streams:
            stream.stop()
