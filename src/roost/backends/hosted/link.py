"""SHELL: the node's end of the conversation with a hosted library.

One socket, no task: what arrives is sorted at once into the streams and questions it belongs to. A
child that breaks the protocol, or owes an answer for too long, is killed here: nothing that it says
afterwards could be believed, and everybody else's runtime is another process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import TypeAlias, cast

import msgspec

from roost.backends.base import Prepared, SlotUse
from roost.backends.hosted.answer import Answer
from roost.backends.hosted.frames import (
    FRAMES,
    VERSION,
    Began,
    Broken,
    Cancel,
    Embed,
    Embedded,
    Filled,
    Flow,
    Hello,
    Loaded,
    Loading,
    Order,
    Over,
    Refused,
    Run,
    Said,
    Spelling,
    Step,
    Tokenize,
    Tokenized,
    Word,
)
from roost.backends.processes.child import Child
from roost.core.events import StreamEvent
from roost.errors import Failure, RoostError, fail

UNREAD_MAX = 256
"""Events of one stream that wait for its reader before the library is told to pause it."""

UNSENT_MAX_BYTES = 128 * 1024 * 1024
"""Orders that wait for a child that does not read; more than any number of honest prompts."""

LAST_READS, LAST_READ_BYTES = 16, 64 * 1024
"""The last words of a child that has ended: no socket holds more of them."""

Answered: TypeAlias = Tokenized | Embedded | Refused
"""What may be answered to a question."""


class Stream:
    """One run as its reader sees it."""

    def __init__(self, link: HostLink, number: int, prepared: Prepared, use: SlotUse) -> None:
        self._link = link
        self._number = number
        self.answer = Answer(use.slot, prepared)
        self._unread: deque[StreamEvent] = deque()
        self._changed = asyncio.Event()
        self._released = asyncio.Event()
        self._paused = self._cancelled = False

    def on_word(self, word: Step | Over) -> None:
        """Take what the child says of this run."""
        self._give(self.answer.on_word(word))
        if self.answer.released:
            self._released.set()
        elif self.answer.over:
            # A stop string, which the library does not know.
            self._cancel()

    def on_failure(self, failure: Failure) -> None:
        """The child is gone."""
        self._give(self.answer.on_failure(failure))
        self._released.set()

    def on_full(self) -> None:
        """The answer is complete before it begins."""
        self._give(self.answer.on_full())
        self._released.set()

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events of the contract until the terminal one."""
        while True:
            while self._unread:
                yield self._unread.popleft()
            if self.answer.over:
                return
            self._flow(paused=False)
            self._changed.clear()
            await self._changed.wait()

    async def leave(self, timeout_s: float) -> None:
        """Return when the slot is free; a child that does not say so in time is killed.

        Raises `runtime_error` then.
        """
        try:
            if not self._released.is_set():
                self._cancel()
                async with asyncio.timeout(timeout_s):
                    await self._released.wait()
        except TimeoutError:
            self._link.condemn("it did not stop a run in time")
            message = "A slot did not become free in time after its request was left."
            raise fail("runtime_error", message) from None
        finally:
            self._link.forget(self._number)

    def _give(self, events: list[StreamEvent]) -> None:
        self._unread.extend(events)
        if len(self._unread) > UNREAD_MAX:
            self._flow(paused=True)
        self._changed.set()

    def _flow(self, *, paused: bool) -> None:
        if paused != self._paused and not self.answer.over:
            self._paused = paused
            self._link.send(Flow(self._number, paused))

    def _cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._link.send(Cancel(self._number))


class HostLink(asyncio.Protocol):
    """A child and its socket. `stopping` is set once somebody wants it to end.

    `at_end` is called when the process has ended, however it did.
    """

    def __init__(
        self,
        child: Child,
        on_progress: Callable[[float], None],
        at_end: Callable[[], None] | None = None,
        spelling: Spelling = FRAMES,
    ) -> None:
        self.child = child
        self.stopping = False
        self.loaded: asyncio.Future[Loaded] = asyncio.get_running_loop().create_future()
        self._on_progress = on_progress
        self._at_end = at_end
        self._part = 0.0
        self._cause = ""
        self._over = False
        self._spelling = spelling
        self._splitter = spelling.splitter()
        self._socket: asyncio.Transport | None = None
        self._streams: dict[int, Stream] = {}
        self._asked: dict[int, asyncio.Future[Answered]] = {}
        self._numbers = 0

    @property
    def ended(self) -> bool:
        """Whether nothing more may be asked of it."""
        return self.stopping or self.child.died.is_set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        # Asserting the class would refuse the transports of other event loops.
        self._socket = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Sort what has arrived; whatever is no word of the protocol is the end of the child."""
        try:
            for frame in self._splitter.push(data):
                self._on_word(self._spelling.read(frame))
        except (ValueError, msgspec.DecodeError):
            self.condemn("it broke the protocol")

    def condemn(self, cause: str) -> None:
        """Kill the child and say why; its streams are told when the kernel says it is gone."""
        if not self._over:
            self._cause = self._cause or cause
        self.child.kill()

    def progress(self, part: float) -> None:
        """Tell how much of the model is loaded, if that is more than was told before."""
        if part > self._part:
            self._part = part
            self._on_progress(part)

    def on_death(self) -> None:
        """The process has ended: tell everybody who waits for a word of it."""
        if not (self._cause or self.stopping):
            self._hear_out()
        self._over = True
        failure = self.failure()
        if not self.loaded.done():
            reason = "out_of_memory" if self.child.was_killed else "load_failed"
            self.loaded.set_exception(fail(reason, self._why_not_loaded()))
            # Looked at, so that a start that was given up is not reported as forgotten.
            self.loaded.exception()
        for asked in self._asked.values():
            if not asked.done():
                asked.set_exception(fail(failure.reason, failure.message))
                asked.exception()
        for stream in list(self._streams.values()):
            stream.on_failure(failure)
        if self._socket:
            self._socket.abort()
        if self._at_end:
            self._at_end()

    def _hear_out(self) -> None:
        """Take what it wrote before its end, which may be noticed first where both are there."""
        ours = self._socket.get_extra_info("socket") if self._socket else None
        if ours is None:
            return
        with contextlib.suppress(OSError):
            for _ in range(LAST_READS):
                if not (data := os.read(ours.fileno(), LAST_READ_BYTES)):
                    return
                self.data_received(data)

    def failure(self) -> Failure:
        """Say why nothing more comes of it."""
        what = (
            "The runtime has ended." if self.stopping else f"The runtime has ended: {self._why()}."
        )
        return Failure("runtime_died", what)

    def _why(self) -> str:
        return self._cause or "it ended unexpectedly"

    def send(self, order: Order) -> None:
        """Write an order, unless nobody is there to read it."""
        if self.ended or self._socket is None:
            return
        self._socket.write(self._spelling.write(order))
        if self._socket.get_write_buffer_size() > UNSENT_MAX_BYTES:
            self.condemn("it does not read what it is told")

    async def tokenize(self, ask: Tokenize, timeout_s: float) -> tuple[int, tuple[int, ...]]:
        """Ask for tokens: their count, and which unless they are more than was asked for.

        Raises `runtime_died`, also for a child that does not answer in time, and `bad_request`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                told = await self._told(ask)
        except TimeoutError:
            self.condemn("it did not answer in time")
            raise RoostError(self.failure()) from None
        if isinstance(told, Refused):
            message = f"The text cannot be tokenised: {told.message}."
            raise fail("bad_request", message, param="prompt")
        if not isinstance(told, Tokenized):
            raise self._astray()
        return told.count, told.tokens

    async def embed(self, batch: tuple[tuple[int, ...], ...]) -> Embedded:
        """Ask for vectors; raises `runtime_died` and `runtime_error`.

        It waits for as long as the child lives: how long that may take is the node's to know. One
        that is cancelled before its turn costs the child nothing.
        """
        told = await self._told(Embed(0, batch))
        if isinstance(told, Refused):
            raise fail("runtime_error", f"The runtime made no vectors: {told.message}.")
        if not isinstance(told, Embedded):
            raise self._astray()
        return told

    async def _told(self, ask: Tokenize | Embed) -> Answered:
        number = self._number()
        future: asyncio.Future[Answered]
        future = self._asked[number] = asyncio.get_running_loop().create_future()
        self.send(msgspec.structs.replace(ask, ask=number))
        try:
            return await future
        finally:
            del self._asked[number]
            if isinstance(ask, Embed) and future.cancelled():
                self.send(Cancel(number))

    def _astray(self) -> RoostError:
        """One question was answered by the answer to another kind: nothing it says is believed."""
        self.condemn("it broke the protocol")
        return RoostError(self.failure())

    def open(self, prepared: Prepared, use: SlotUse) -> Stream:
        """Begin a run; `Stream.leave` has to follow, whatever happens."""
        number = self._number()
        stream = self._streams[number] = Stream(self, number, prepared, use)
        if not prepared.limit:
            stream.on_full()
            return stream
        self.send(_run(number, prepared, use))
        return stream

    def forget(self, number: int) -> None:
        """Nobody reads this stream any more."""
        self._streams.pop(number, None)

    def _number(self) -> int:
        self._numbers += 1
        return self._numbers

    def _on_word(self, word: Word) -> None:
        if isinstance(word, (Said, Filled, Began, Over)):
            if stream := self._streams.get(word.run):
                stream.on_word(word)
        elif isinstance(word, (Tokenized, Embedded, Refused)):
            self._on_answer(word)
        else:
            self._on_load(word)

    def _on_answer(self, word: Answered) -> None:
        asked = self._asked.get(word.ask)
        if asked is None or asked.done():
            return
        asked.set_result(word)

    def _on_load(self, word: Hello | Loading | Loaded | Broken) -> None:
        if isinstance(word, Hello):
            if word.version != VERSION:
                self._cause = f"it speaks version {word.version} of the protocol, and not {VERSION}"
                self.child.kill()
        elif self.loaded.done():
            raise ValueError("it has loaded its model already")
        elif isinstance(word, Loading):
            self.progress(min(1.0, max(0.0, word.part)))
        elif isinstance(word, Broken):
            reason = "out_of_memory" if word.memory else "load_failed"
            self.loaded.set_exception(fail(reason, word.message))
        else:
            self.loaded.set_result(word)

    def _why_not_loaded(self) -> str:
        status = self.child.status
        return f"The runtime ended while it loaded the model: {self._why()} (status {status})."


def _run(number: int, prepared: Prepared, use: SlotUse) -> Run:
    request = prepared.request
    return Run(
        *(number, use.slot, use.reuse, prepared.tokens, prepared.limit),
        sampling=request.sampling,
        top_logprobs=request.top_logprobs,
        ignore_eos=request.ignore_eos,
        said=len(request.said),
    )
