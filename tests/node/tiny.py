"""A real, tiny runtime: it keeps the backend contract and does what a prompt's first word says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from roost.backends.base import Hold, Prepared, SlotUse, Take, Telemetry
from roost.core.events import Delta, Failed, Finished, Started, StreamEvent, Usage
from roost.core.ids import ModelId, RuntimeId, TenantId
from roost.core.model import RuntimeKey, RuntimeOptions
from roost.core.request import GenerateRequest, TextPrompt
from roost.errors import Failure, RoostError, fail

DIED = Failure("runtime_died", "it died")


class Poured:
    """A stream that is told in turns in its own task and, by the event loop, outside of every."""

    def __init__(self, events: AsyncIterator[StreamEvent]) -> None:
        self._events = events

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        """It may be iterated as well."""
        return self._events

    async def __anext__(self) -> StreamEvent:
        """The next one."""
        return await anext(self._events)

    async def pour(self, take: Take) -> None:
        """Tell all of them, the first in this task."""
        loop = asyncio.get_running_loop()
        is_here = True
        async for event in self._events:
            if is_here:
                hold = take(event)
            else:
                told: asyncio.Future[Hold | None] = loop.create_future()
                loop.call_soon(_tell, take, event, told)
                hold = await told
            is_here = not is_here
            if hold is not None:
                await hold()


def _tell(take: Take, event: StreamEvent, told: asyncio.Future[Hold | None]) -> None:
    if not told.done():
        told.set_result(take(event))


class TinyRuntime:
    """Repeats the prompt word by word; `forever`, `stuck`, `die`, `crash` and `garble` do that."""

    def __init__(self, model: ModelId) -> None:
        self.key = RuntimeKey("tiny", model, "sha256:0", RuntimeOptions(slots=2))
        self.died = asyncio.Event()
        self.busy: set[int] = set()
        self.stops = 0
        self.entering = asyncio.Event()
        self.states = None
        self.told: Telemetry | None = None
        self.is_poured = False
        self.owners: list[TenantId | None] = []

    def forget(self, owner: TenantId) -> None:
        """Forget that this one was here."""
        self.owners = [one for one in self.owners if one != owner]

    async def prepare(self, request: GenerateRequest, owner: TenantId | None = None) -> Prepared:
        """One token per word; `toolong` does not fit, `ponder` takes for ever."""
        if self.died.is_set():
            raise RoostError(DIED)
        self.owners.append(owner)
        assert isinstance(request.prompt, TextPrompt)
        words = request.prompt.text.split()
        if words[0] == "toolong":
            raise fail("context_length_exceeded", "the prompt does not fit")
        if words[0] == "ponder":
            await asyncio.Event().wait()
        return Prepared(request, tuple(range(len(words))), limit=100)

    @asynccontextmanager
    async def open(
        self, prepared: Prepared, use: SlotUse
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Run on a slot; `slow` takes for ever to enter, and a stuck slot is not given back."""
        if self.died.is_set():
            raise RoostError(DIED)
        assert use.slot not in self.busy
        self.busy.add(use.slot)
        assert isinstance(prepared.request.prompt, TextPrompt)
        words = prepared.request.prompt.text.split()
        try:
            if words[0] == "slow":
                self.entering.set()
                await asyncio.Event().wait()
            events = self._events(words, use)
            yield Poured(events) if self.is_poured else events
        finally:
            # Leaving takes a moment, as it does where another process has to say that it is done.
            await asyncio.sleep(0)
            if words[0] == "stuck":
                raise fail("runtime_error", "the slot was not given back")
            self.busy.discard(use.slot)

    async def _events(self, words: list[str], use: SlotUse) -> AsyncIterator[StreamEvent]:
        usage = Usage(len(words), 0, len(words))
        yield Started(len(words), 0, use.slot)
        for word in words:
            if word == "crash":
                raise ZeroDivisionError
            if word == "die":
                self.died.set()
                yield Failed(DIED)
                return
            # Half a character, as only a defective backend says it.
            yield Delta("\ud800" if word == "garble" else word)
        while words[0] in ("forever", "stuck"):
            await asyncio.sleep(0)
            yield Delta("again")
        yield Finished("stop", usage)

    async def telemetry(self) -> Telemetry:
        """Some memory, so that there is something to report."""
        return self.told or Telemetry(rss_bytes=1000)

    async def stop(self, grace_s: float) -> None:
        """End at once."""
        self.stops += 1
        self.died.set()


class TinyLaunch:
    """Starts tiny runtimes and keeps them for a test to look at."""

    def __init__(self) -> None:
        self.runtimes: dict[RuntimeId, TinyRuntime] = {}
        self.may_load = asyncio.Event()
        self.may_load.set()
        self.loading = asyncio.Event()
        self.failure: Failure | None = None
        self.called_off = 0
        self.is_poured = False

    async def __call__(
        self, model: ModelId, runtime: RuntimeId, on_progress: Callable[[float], None]
    ) -> TinyRuntime:
        """Load when it may, or fail as told."""
        on_progress(0.5)
        self.loading.set()
        try:
            await self.may_load.wait()
        except asyncio.CancelledError:
            self.called_off += 1
            raise
        if self.failure is not None:
            raise RoostError(self.failure)
        started = self.runtimes[runtime] = self.make(model)
        started.is_poured = self.is_poured
        return started

    def make(self, model: ModelId) -> TinyRuntime:
        """Make what was loaded."""
        return TinyRuntime(model)

    @property
    def busy(self) -> int:
        """Slots in use in all runtimes that live."""
        return sum(len(r.busy) for r in self.runtimes.values() if not r.died.is_set())
