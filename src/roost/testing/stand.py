"""SHELL: a runtime under examination: makes requests, runs streams and judges every single event.

Whatever a case is about, each stream it runs is held to the order of events and to the sums of
tokens here, so that these promises are checked some hundred times and not once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import msgspec

from roost.backends.base import Backend, Poured, Prepared, Runtime, SlotUse, StartSettings
from roost.core.engine import Mode
from roost.core.events import (
    TERMINAL,
    Delta,
    Failed,
    Finished,
    PrefillProgress,
    Started,
    StreamEvent,
    TokenChoice,
    Usage,
)
from roost.core.model import Manifest, RuntimeKey
from roost.core.request import (
    ChatPrompt,
    GenerateRequest,
    Message,
    Prompt,
    Sampling,
    TextPrompt,
    TokensPrompt,
)
from roost.errors import Failure, RoostError

STOP_GRACE_S = 5.0
GREEDY = Sampling(temperature=0.0)


class Broken(AssertionError):  # noqa: N818 - the finding, in the word of its report
    """A promise of the contract is not kept; the message says which and how it was seen."""


class NotApplicable(Exception):  # noqa: N818 - it is an outcome, not an error
    """A case has nothing to check on this subject; the message says why."""


def require(condition: object, message: str) -> None:
    """Raise `Broken` with this message unless the condition holds."""
    if not condition:
        raise Broken(message)


async def refusal_of(asked: Awaitable[object]) -> str:
    """Give the reason with which something is refused."""
    try:
        await asked
    except RoostError as error:
        return error.failure.reason
    return "not at all"


@dataclass(frozen=True)
class Subject:
    """What is examined: a backend and everything needed to start a runtime of it.

    `kill` ends a runtime as `kill -9` of its process would; None leaves that promise unchecked.
    `patience_s` is how long a free slot may take to its first event; a case ends after
    `case_timeout_s`.
    The key needs at least 2 slots of at least 512 tokens.
    """

    backend: Backend
    key: RuntimeKey
    manifest: Manifest
    settings: StartSettings
    kill: Callable[[Runtime], Awaitable[None]] | None = None
    patience_s: float = 2.0
    case_timeout_s: float = 60.0


@dataclass
class Record:
    """Everything one stream said, checked for order as it came."""

    events: list[StreamEvent] = field(default_factory=list)

    def add(self, event: StreamEvent) -> None:
        """Take the next event; raises `Broken` where it may not come now."""
        last = self.events[-1] if self.events else None
        require(not isinstance(last, TERMINAL), f"{_name(event)} came after {_name(last)}")
        first = isinstance(event, (Started, Failed))
        require(last or first, f"the first event is {_name(event)} and not Started")
        require(not (last and isinstance(event, Started)), "Started came twice")
        if isinstance(event, PrefillProgress):
            require(not isinstance(last, Delta), "PrefillProgress came after Delta")
            require(0 <= event.done <= event.total, f"{event.done} of {event.total} is no progress")
        self.events.append(event)

    @property
    def deltas(self) -> list[Delta]:
        """The deltas so far."""
        return [event for event in self.events if isinstance(event, Delta)]

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(delta.text for delta in self.deltas)

    @property
    def choices(self) -> list[TokenChoice]:
        """All log probabilities so far."""
        return [choice for delta in self.deltas for choice in delta.logprobs]

    @property
    def started(self) -> Started:
        """The first event."""
        first = self.events[0] if self.events else None
        require(isinstance(first, Started), f"the stream began with {_name(first)}")
        assert isinstance(first, Started)
        return first

    @property
    def finished(self) -> Finished:
        """The last event, which has to be a good end."""
        last = self.events[-1] if self.events else None
        if isinstance(last, Failed):
            raise Broken(f"the stream failed: {last.failure.reason}: {last.failure.message}")
        require(isinstance(last, Finished), f"the stream ended with {_name(last)}")
        assert isinstance(last, Finished)
        return last

    def check_sums(self, usage: Usage, prepared: Prepared) -> None:
        """Compare the usage that a terminal event tells with what was seen."""
        told, seen = usage.completion_tokens, sum(delta.tokens for delta in self.deltas)
        require(told == seen, f"{told} completion tokens are reported, the deltas hold {seen}")
        require(told <= prepared.limit, f"{told} tokens came, the limit is {prepared.limit}")

    def check_prompt(self, usage: Usage, prepared: Prepared) -> None:
        """Compare what it tells of the prompt with what was sent, and with the first event."""
        prompt = len(prepared.tokens)
        require(
            usage.prompt_tokens == prompt,
            f"{usage.prompt_tokens} prompt tokens are reported, {prompt} were sent",
        )
        cached = self.started.cached_tokens
        require(
            usage.cached_tokens == cached,
            f"{usage.cached_tokens} cached tokens at the end, {cached} at the start",
        )


class Stand:
    """A runtime with a subject's ways to talk to it."""

    def __init__(self, subject: Subject, runtime: Runtime, progress: list[float]) -> None:
        self.subject = subject
        self.runtime = runtime
        self.progress = progress
        self.measured: dict[str, float] = {}

    @property
    def ctx(self) -> int:
        """Tokens per slot."""
        return self.subject.key.options.ctx

    @property
    def has_no_chat(self) -> bool:
        """Whether the model itself has no way to chat, whatever the backend claims."""
        manifest = self.subject.manifest
        return manifest.format == "gguf" and manifest.chat_template is None

    def request(
        self,
        prompt: Prompt | str,
        max_tokens: int | None = 24,
        *,
        stop: Iterable[str] = (),
        sampling: Sampling = GREEDY,
        ignore_eos: bool = False,
        top_logprobs: int | None = None,
    ) -> GenerateRequest:
        """Make a request; a plain string is a text to be completed."""
        return GenerateRequest(
            self.subject.key.model,
            TextPrompt(prompt) if isinstance(prompt, str) else prompt,
            max_tokens,
            tuple(stop),
            sampling,
            top_logprobs,
            ignore_eos,
        )

    def chat(self, text: str) -> GenerateRequest:
        """Make a request of one user message."""
        return self.request(ChatPrompt((Message("user", text),)))

    async def long(self) -> Prepared:
        """Prepare a request that goes on for much longer than `patience_s`."""
        prompt = "one two three four five six seven "
        return await self.runtime.prepare(self.request(prompt, 10**6, ignore_eos=True))

    async def heavy(self) -> Prepared:
        """Prepare a request whose prompt fills more than half of the context."""
        size = int(self.ctx * 0.6)
        if not self.subject.backend.capabilities.exact_token_count:
            # Without tokens, by a word for each, which is none too long.
            text = "river " * size
            return await self.runtime.prepare(self.request(text, None, ignore_eos=True))
        few = await self.runtime.prepare(self.request("river stone cloud ", 1))
        tokens = few.tokens[:1] + few.tokens[1:] * (size // max(1, len(few.tokens) - 1))
        return await self.runtime.prepare(self.request(TokensPrompt(tokens), None, ignore_eos=True))

    async def run(
        self, request: GenerateRequest | Prepared, slot: int = 0, *, reuse: bool = False
    ) -> Record:
        """Run a request to its good end, poured where that can be, and check its sums."""
        prepared = request if isinstance(request, Prepared) else await self.runtime.prepare(request)
        record = Record()
        async with self.runtime.open(prepared, SlotUse(slot, reuse)) as events:
            if isinstance(events, Poured):
                await events.pour(record.add)
            else:
                async for event in events:
                    record.add(event)
        self.check_sums(record, record.finished.usage, prepared)
        return record

    def check_sums(self, record: Record, usage: Usage, prepared: Prepared) -> None:
        """Compare the usage that a terminal event tells with what was seen, and what was sent."""
        record.check_sums(usage, prepared)
        if self.subject.backend.capabilities.exact_token_count:
            record.check_prompt(usage, prepared)

    @asynccontextmanager
    async def leaving(
        self, prepared: Prepared, slot: int, measure: str
    ) -> AsyncIterator[AsyncIterator[StreamEvent]]:
        """Open a stream to be left early; the time that leaving takes is measured."""
        left_s = 0.0
        async with self.runtime.open(prepared, SlotUse(slot, reuse=False)) as events:
            yield events
            left_s = time.monotonic()
        self.measured[measure] = time.monotonic() - left_s

    async def check_free(self, slot: int) -> None:
        """Prove by a small request on the slot that it is free now, and that it works."""
        prepared = await self.runtime.prepare(self.request("free ", 4, ignore_eos=True))
        record = Record()
        async with self.runtime.open(prepared, SlotUse(slot, reuse=False)) as events:
            try:
                async with asyncio.timeout(self.subject.patience_s):
                    record.add(await anext(events))
            except TimeoutError:
                message = f"the slot is not free {self.subject.patience_s} s after it was left"
                raise Broken(message) from None
            async for event in events:
                record.add(event)
        self.check_sums(record, record.finished.usage, prepared)

    @asynccontextmanager
    async def in_mode(self, mode: Mode) -> AsyncIterator[Runtime]:
        """Start another runtime of the subject, which is for this, and stop it in the end."""
        subject = self.subject
        options = msgspec.structs.replace(subject.key.options, mode=mode)
        key = msgspec.structs.replace(subject.key, options=options)
        settings = msgspec.structs.replace(subject.settings, state_folder="")
        runtime = await subject.backend.start(key, subject.manifest, settings, lambda _part: None)
        try:
            yield runtime
        finally:
            await runtime.stop(STOP_GRACE_S)

    async def refusal(self, request: GenerateRequest) -> Failure:
        """Give the failure with which `prepare` refuses; raises `Broken` where it does not."""
        try:
            await self.runtime.prepare(request)
        except RoostError as error:
            return error.failure
        raise Broken("prepare accepted what it has to refuse")

    async def open_refusal(self, prepared: Prepared, slot: int = 0) -> Failure:
        """Give the failure with which `open` refuses; raises `Broken` where it does not."""
        try:
            async with self.runtime.open(prepared, SlotUse(slot, reuse=False)):
                pass
        except RoostError as error:
            return error.failure
        raise Broken("open accepted what it has to refuse")


def _name(event: object) -> str:
    return type(event).__name__ if event is not None else "nothing"
