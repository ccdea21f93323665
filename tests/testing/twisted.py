"""Runtimes that are wrong in one way each, for proving that the conformance suite can fail."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from roost.backends.base import (
    Prepared,
    Ranked,
    Runtime,
    SavedState,
    SlotUse,
    StartSettings,
    States,
    Telemetry,
)
from roost.backends.scripted.backend import ScriptedBackend, ScriptedRuntime
from roost.core.events import Delta, Failed, Finished, PrefillProgress, Started, StreamEvent
from roost.core.ids import TenantId
from roost.core.model import Capabilities, Manifest, RuntimeKey
from roost.core.request import GenerateRequest, Sampling
from roost.errors import Failure, RoostError, fail

Events = AsyncIterator[StreamEvent]
Twist = Callable[[Events, Prepared], AsyncGenerator[StreamEvent, None]]
replace = msgspec.structs.replace
Vectors = tuple[tuple[float, ...], ...]


async def straight(events: Events, prepared: Prepared) -> AsyncGenerator[StreamEvent, None]:
    """Change nothing."""
    async for event in events:
        yield event


async def two_ends(events: Events, prepared: Prepared) -> AsyncGenerator[StreamEvent, None]:
    """Say the end twice."""
    async for event in events:
        yield event
        if isinstance(event, Finished):
            yield event


async def no_end(events: Events, prepared: Prepared) -> AsyncGenerator[StreamEvent, None]:
    """Stop without an end, as a cut connection looks that nobody noticed."""
    async for event in events:
        if not isinstance(event, Finished):
            yield event


async def no_start(events: Events, prepared: Prepared) -> AsyncGenerator[StreamEvent, None]:
    """Begin without saying so."""
    async for event in events:
        if not isinstance(event, Started):
            yield event


async def late_progress(events: Events, prepared: Prepared) -> AsyncGenerator[StreamEvent, None]:
    """Report prefill after text."""
    async for event in events:
        yield event
        if isinstance(event, Delta):
            yield PrefillProgress(1, 1)


async def one_piece(events: Events, prepared: Prepared) -> AsyncGenerator[StreamEvent, None]:
    """Hold everything until the end."""
    text, tokens = "", 0
    async for event in events:
        if isinstance(event, Delta):
            text, tokens = text + event.text, tokens + event.tokens
            continue
        if isinstance(event, Finished):
            yield Delta(text, tokens)
        yield event


async def split_characters(events: Events, prepared: Prepared) -> AsyncGenerator[StreamEvent, None]:
    """Decode each token's bytes by themselves."""
    async for event in events:
        if isinstance(event, Delta) and not event.text.isascii():
            raw = event.text.encode()
            yield Delta(raw[:1].decode("utf-8", "replace"), event.tokens)
            yield Delta(raw[1:].decode("utf-8", "replace"), 0)
        else:
            yield event


async def lost_tail(events: Events, prepared: Prepared) -> AsyncGenerator[StreamEvent, None]:
    """Lose text that is held back when the answer ends, as llama.cpp does."""
    held: Delta | None = None
    async for event in events:
        if held and not isinstance(event, Delta):
            yield replace(held, text="" if prepared.request.stop else held.text)
        elif held:
            yield held
        held = event if isinstance(event, Delta) else None
        if not held:
            yield event


async def unnamed_stop(events: Events, prepared: Prepared) -> AsyncGenerator[StreamEvent, None]:
    """Keep to itself which stop string it was."""
    async for event in events:
        yield replace(event, stop_text=None) if isinstance(event, Finished) else event


async def miscounted(events: Events, prepared: Prepared) -> AsyncGenerator[StreamEvent, None]:
    """Report one token too many."""
    async for event in events:
        if isinstance(event, Finished):
            spent = event.usage.completion_tokens + 1
            event = replace(event, usage=replace(event.usage, completion_tokens=spent))  # noqa: PLW2901 - the twist
        yield event


async def cached_lie(events: Events, prepared: Prepared) -> AsyncGenerator[StreamEvent, None]:
    """Claim at the end that nothing was cached."""
    async for event in events:
        if isinstance(event, Finished):
            event = replace(event, usage=replace(event.usage, cached_tokens=0))  # noqa: PLW2901 - the twist
        yield event


async def quiet_death(events: Events, prepared: Prepared) -> AsyncGenerator[StreamEvent, None]:
    """Make a clean end of a death."""
    async for event in events:
        yield Finished("stop", event.usage) if isinstance(event, Failed) else event


async def vague_death(events: Events, prepared: Prepared) -> AsyncGenerator[StreamEvent, None]:
    """Tell a death as some error."""
    async for event in events:
        if isinstance(event, Failed):
            yield replace(event, failure=Failure("runtime_error", "Something went wrong."))
        else:
            yield event


def no_change(prepared: Prepared) -> Prepared:
    """Run what was prepared."""
    return prepared


def without_stops(prepared: Prepared) -> Prepared:
    """Forget the stop strings."""
    return replace(prepared, request=replace(prepared.request, stop=()))


def one_more(prepared: Prepared) -> Prepared:
    """Allow one token more than the limit."""
    return replace(prepared, limit=prepared.limit + 1)


def own_seed(prepared: Prepared) -> Prepared:
    """Ignore the seed."""
    sampling = replace(prepared.request.sampling, seed=random.getrandbits(31))
    return replace(prepared, request=replace(prepared.request, sampling=sampling))


def harmless(request: GenerateRequest) -> GenerateRequest:
    """Repair bad numbers in silence."""
    return replace(request, sampling=Sampling(), stop=(), max_tokens=None, top_logprobs=None)


def turned(vectors: Vectors) -> Vectors:
    """Give them in the order in which they happened to be ready."""
    return vectors[::-1]


def ranked(scores: tuple[float, ...]) -> tuple[float, ...]:
    """Give the best score first, whatever document it is of."""
    return tuple(sorted(scores, reverse=True))


def longer(vectors: Vectors) -> Vectors:
    """Forget to make them 1 long."""
    return tuple(tuple(value * 2 for value in vector) for vector in vectors)


def unheld(request: GenerateRequest) -> GenerateRequest:
    """Forget what the answer is held to."""
    return replace(request, constraint=None)


@dataclass(frozen=True)
class Flaws:
    """Where a twisted runtime leaves the straight path."""

    twist: Twist = straight
    prepared: Callable[[Prepared], Prepared] = no_change
    request: Callable[[GenerateRequest], GenerateRequest] = lambda request: request
    reuse: bool | None = None
    keeps_slot: bool = False
    one_at_a_time: bool = False
    mixes: bool = False
    lives_on: bool = False
    odd_refusal: Exception | None = None
    odd_tokens: Exception | None = None
    progress: tuple[float, ...] = (0.0, 1.0)
    states: str = ""
    vectors: Callable[[Vectors], Vectors] = lambda vectors: vectors
    scores: Callable[[tuple[float, ...]], tuple[float, ...]] = lambda scores: scores


@dataclass
class TwistedRuntime:
    """A scripted runtime with flaws."""

    inner: ScriptedRuntime
    flaws: Flaws
    _stuck: set[int] = field(default_factory=set)
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _last: str = ""

    @property
    def key(self) -> RuntimeKey:
        """The key it was started for."""
        return self.inner.key

    @property
    def died(self) -> asyncio.Event:
        """Set once the runtime has ended."""
        return self.inner.died

    async def prepare(self, request: GenerateRequest, owner: TenantId | None = None) -> Prepared:
        """Prepare, or fail in an odd way."""
        if self.flaws.odd_refusal:
            raise self.flaws.odd_refusal
        if self.flaws.lives_on and self.died.is_set():
            return Prepared(request, (1,), 1)
        return await self.inner.prepare(self.flaws.request(request), owner)

    @asynccontextmanager
    async def open(self, prepared: Prepared, use: SlotUse) -> AsyncIterator[Events]:
        """Run with flaws."""
        reuse = use.reuse if self.flaws.reuse is None else self.flaws.reuse
        run = self.flaws.prepared(prepared)
        async with (
            self._turn(),
            self.inner.open(run, SlotUse(use.slot, reuse)) as events,
            aclosing(self.flaws.twist(self._watched(events, use.slot), prepared)) as twisted,
        ):
            yield twisted

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        if self.flaws.one_at_a_time:
            await self._lock.acquire()
        try:
            yield
        finally:
            if self.flaws.one_at_a_time:
                self._lock.release()

    async def _watched(self, events: Events, slot: int) -> AsyncGenerator[StreamEvent, None]:
        if slot in self._stuck:
            await self.died.wait()
        self._stuck |= {slot} if self.flaws.keeps_slot else set()
        async for event in events:
            if isinstance(event, Delta) and self.flaws.mixes:
                event, self._last = replace(event, text=self._last), event.text  # noqa: PLW2901 - the twist
            yield event
        self._stuck.discard(slot)

    @property
    def states(self) -> States | None:
        """Give the inner runtime's states, or such as lose or mix up what they are given."""
        states = self.inner.states
        return TwistedStates(states, self.flaws.states) if states and self.flaws.states else states

    async def tokenize(
        self, inputs: Sequence[str | tuple[int, ...]]
    ) -> tuple[tuple[int, ...], ...]:
        """Give the inner runtime's tokens, or refuse in an odd way what it refuses."""
        try:
            return await self.inner.tokenize(inputs)
        except RoostError as error:
            raise self.flaws.odd_tokens or error from None

    async def embed(self, batch: Sequence[tuple[int, ...]]) -> tuple[tuple[float, ...], ...]:
        """Give the inner runtime's vectors, or such as are wrong."""
        return self.flaws.vectors(await self.inner.embed(batch))

    async def pairs(self, query: str, documents: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Give the inner runtime's tokens."""
        return await self.inner.pairs(query, documents)

    async def rank(self, query: str, documents: Sequence[str]) -> Ranked:
        """Give the inner runtime's scores, or such as are wrong."""
        found = await self.inner.rank(query, documents)
        return replace(found, scores=self.flaws.scores(found.scores))

    async def telemetry(self) -> Telemetry:
        """Tell what the inner runtime tells."""
        return await self.inner.telemetry()

    async def stop(self, grace_s: float) -> None:
        """End it."""
        await self.inner.stop(grace_s)


def _want(folder: str) -> None:
    """Fail where there is no such folder."""
    if not Path(folder).exists():
        raise fail("runtime_error", "The folder is gone.")


class TwistedStates:
    """States that go wrong as `how` says."""

    def __init__(self, inner: States, how: str) -> None:
        self.folder = inner.folder
        self.token_bytes = inner.token_bytes
        self.build = inner.build
        self._inner = inner
        self._how = how
        self._saved = SavedState(0, 0)

    async def save(self, slot: int, name: str) -> SavedState:
        """Save another slot, lie about the size, or want the folder to be there."""
        if self._how == "mourns its folder":
            _want(self.folder)
        slot = 0 if self._how == "saves another slot" else slot
        saved = self._saved = await self._inner.save(slot, name)
        return replace(saved, tokens=1) if self._how == "counts wrongly" else saved

    async def restore(self, slot: int, name: str, saved: SavedState) -> None:
        """Restore nothing, or keep what was there when that fails."""
        if self._how == "restores nothing":
            await self._inner.erase(slot)
            return
        try:
            await self._inner.restore(slot, name, self._saved)
        except RoostError:
            if self._how != "hides failures":
                raise

    async def erase(self, slot: int) -> None:
        """Erase, unless that is what goes wrong."""
        if self._how != "erases nothing":
            await self._inner.erase(slot)


class TwistedBackend:
    """The scripted backend, giving runtimes with flaws."""

    def __init__(self, inner: ScriptedBackend, flaws: Flaws) -> None:
        self._inner = inner
        self._flaws = flaws

    @property
    def name(self) -> str:
        """Its name in reports."""
        return "twisted"

    @property
    def capabilities(self) -> Capabilities:
        """Claims what the scripted backend claims."""
        return self._inner.capabilities

    async def start(
        self,
        key: RuntimeKey,
        manifest: Manifest,
        settings: StartSettings,
        on_progress: Callable[[float], None],
    ) -> TwistedRuntime:
        """Start a runtime with flaws."""
        inner = await self._inner.start(key, manifest, settings, lambda _part: None)
        for part in self._flaws.progress:
            on_progress(part)
        return TwistedRuntime(inner, self._flaws)


async def kill_twisted(runtime: Runtime) -> None:
    """End a twisted runtime as kill -9 would."""
    assert isinstance(runtime, TwistedRuntime)
    runtime.inner.kill()


def odd(error: str) -> Exception:
    """Give an exception that no caller of a backend may ever see, or a refusal for no reason."""
    refusal: RoostError = fail("internal", "Something is wrong.")
    return KeyError("cache") if error == "foreign" else refusal
