"""SHELL: one completion on a llama.cpp server: sent, read, and left so that its slot is free."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from roost.backends.base import Hold, Prepared, SlotUse, Take
from roost.backends.http1.exchange import Exchange, Lost
from roost.backends.llama.answer import FINAL_FIELDS, Answer, Timings
from roost.backends.llama.link import Link
from roost.core.events import StreamEvent
from roost.core.reading import marks_of
from roost.errors import Failure, fail
from roost.text.sse import SseEvent, SseParser

EVENT_MAX_BYTES = 16 * 1024 * 1024
# llama.cpp takes the largest seed for "roll dice".
SEED_MAX = 2**32 - 2
STEP_TOKENS = 32
"""A continued answer's tokens are computed so many at a time. In batches of 64 and more llama.cpp
does attention by another path, whose results differ from those of decoding by enough to tip a close
decision; below, they are equal to the last bit."""


class _Refused(Exception):  # noqa: N818 - not an error of the connection, so nothing has died
    """The server lives and says no."""

    def __init__(self, message: str, reason: str = "runtime_error") -> None:
        super().__init__(message)
        self.reason = reason


class Stream:
    """One completion, held to a grammar if there is one; `leave` in the end, whatever happens.

    It is gone through, or poured (see `base.Poured`): then a token takes the way from the socket to
    whoever takes it without waking a task.
    """

    def __init__(self, link: Link, prepared: Prepared, use: SlotUse, grammar: str = "") -> None:
        request = prepared.request
        self._link = link
        self._slot = use.slot
        self._bodies = [msgspec.json.encode(body) for body in bodies(prepared, use, grammar)]
        steps = len(self._bodies) - 1
        self._answer = Answer(use.slot, len(prepared.tokens), request, steps)
        self._full = not prepared.limit
        self._exchange = Exchange(link.place)
        self._begun = False
        self._grammar = grammar
        self._reading = self._events()
        self._parser = SseParser(EVENT_MAX_BYTES)
        self._unread: deque[bytes] = deque()
        self._untold: deque[StreamEvent] = deque()
        self._take: Take | None = None
        self._hold: Hold | None = None

    @property
    def timings(self) -> Timings | None:
        """How long the server took, once it has ended the completion itself."""
        return self._answer.timings

    def __aiter__(self) -> Stream:
        """The events of the contract; whatever breaks becomes the last of them."""
        return self

    async def __anext__(self) -> StreamEvent:
        """Wait for the next event."""
        return await anext(self._reading)

    async def aclose(self) -> None:
        """Read no further."""
        await self._reading.aclose()

    async def pour(self, take: Take) -> None:
        """Give `take` every event as it comes; see `base.Poured.pour`."""
        self._take = take
        async for event in self._reading:
            hold = take(event)
            if hold is not None:
                await hold()

    async def _events(self) -> AsyncGenerator[StreamEvent, None]:
        if self._full:
            for event in self._answer.on_full():
                yield event
            return
        self._begun = True
        try:
            for body in self._bodies:
                self._exchange.drop()
                self._exchange = Exchange(self._link.place)
                async with aclosing(self._said(body)) as said:
                    async for event in said:
                        yield event
                if self._answer.over:
                    return
            failure = await self._link.blame("its answer was cut off")
        except Lost as lost:
            failure = await self._link.blame(str(lost))
        except _Refused as refused:
            failure = Failure(refused.reason, str(refused))
        for event in self._answer.on_failure(failure):
            yield event

    async def _said(self, body: bytes) -> AsyncGenerator[StreamEvent, None]:
        await self._exchange.send("POST", "/completion", body)
        status = await self._exchange.status()
        if status == 400 and self._grammar:
            raise _Refused("This build of llama.cpp cannot follow the format.", "unsupported")
        if status != 200:
            raise _Refused(f"The runtime refused the request with status {status}.")
        self._parser = SseParser(EVENT_MAX_BYTES)
        tap = None if self._take is None else self._tap
        async with aclosing(self._exchange.pieces(tap)) as pieces:
            async for piece in pieces:
                if self._hold is not None:
                    hold, self._hold = self._hold, None
                    await hold()
                self._parse(piece)
                async for event in self._known():
                    yield event
                if self._answer.over:
                    return

    def _parse(self, piece: bytes) -> None:
        for item in self._parser.push(piece):
            if not isinstance(item, SseEvent):
                raise _Refused("The runtime sent too much at once.")
            self._unread.append(item.data)

    async def _known(self) -> AsyncGenerator[StreamEvent, None]:
        """Give the events of everything that has been heard."""
        while True:
            while self._untold:
                yield self._untold.popleft()
            if self._answer.over:
                return
            if self._answer.unsure:
                ids = await self._link.tokenize([self._answer.unsure], special=False)
                self._untold += self._answer.on_ids(ids)
            elif self._unread:
                self._untold += self._answer.on_data(self._unread.popleft())
            else:
                return

    def _tap(self, piece: bytes) -> bool:
        """Tell at once what a piece says; False where something has to be waited for, or it ends.

        What is not told then is in `_untold` and `_unread`, and `_known` goes on with it.
        """
        assert self._take is not None, "a tap is for streams that are poured"
        self._parse(piece)
        while True:
            while self._untold:
                self._hold = self._take(self._untold.popleft())
                if self._hold is not None:
                    return False
            if self._answer.over or self._answer.unsure:
                return False
            if not self._unread:
                return True
            self._untold += self._answer.on_data(self._unread.popleft())

    async def leave(self, timeout_s: float) -> None:
        """Return when the slot is free; raises `runtime_error` after `timeout_s`."""
        try:
            if self._begun and not self._answer.slot_free and not self._link.died.is_set():
                async with asyncio.timeout(timeout_s):
                    await self._exchange.close()
                    await self._link.until_free(self._slot)
        except TimeoutError:
            message = "A slot did not become free in time after its request was left."
            raise fail("runtime_error", message) from None
        finally:
            self._exchange.drop()


def bodies(prepared: Prepared, use: SlotUse, grammar: str = "") -> list[dict[str, object]]:
    """Write the requests, one after another, that make an answer.

    One is enough, but for an answer that is continued: there the prompt is computed first, as it
    was where the answer began, then what was said of it in small steps.
    """
    whole = completion(prepared, use)
    if grammar:
        whole["grammar"] = grammar
    prompt = len(prepared.tokens) - len(prepared.request.said)
    ends = range(prompt, len(prepared.tokens), STEP_TOKENS)
    out = [{**whole, "prompt": prepared.tokens[:end], "n_predict": 0} for end in ends]
    for body in [*out, whole][1:]:
        # What the step before has put there is this answer's own.
        body["cache_prompt"] = True
    return [*out, whole]


def completion(prepared: Prepared, use: SlotUse) -> dict[str, object]:
    """Write the request for `/completion`; what the client left open stays llama.cpp's default."""
    request, sampling = prepared.request, prepared.request.sampling
    body: dict[str, object] = {
        "prompt": prepared.tokens,
        "n_predict": prepared.limit,
        "id_slot": use.slot,
        "cache_prompt": use.reuse,
        "stream": True,
        # Progress gives a write to every prefill step, and a failed write is how the server notices
        # at once that the client has left.
        "return_progress": True,
        "ignore_eos": request.ignore_eos,
        "response_fields": FINAL_FIELDS,
    }
    if request.return_tokens:
        body["return_tokens"] = True
    if prepared.reading is not None:
        # Where these are tokens that steer the model, a server would not write them as text.
        body["preserved_tokens"] = marks_of(prepared.reading)
    if request.top_logprobs is not None:
        body["n_probs"] = max(1, request.top_logprobs)
    if sampling.seed is not None:
        body["seed"] = min(sampling.seed, SEED_MAX)
    if sampling.logit_bias:
        # In llama.cpp `false` keeps a token out, whatever else is added to it.
        body["logit_bias"] = [(one, bias > -100 and bias) for one, bias in sampling.logit_bias]
    for name in sampling.__struct_fields__:
        if name not in ("seed", "logit_bias") and (value := getattr(sampling, name)) is not None:
            body[name] = value
    return body
