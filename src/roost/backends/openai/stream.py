"""SHELL: one answer of a server of the OpenAI dialect: asked for, read, and left."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple

import msgspec

from roost.backends.base import Prepared
from roost.backends.http1.exchange import Exchange, Lost, Place
from roost.backends.openai.answer import Answer
from roost.core.events import StreamEvent
from roost.core.request import ChatPrompt, GenerateRequest, TextPrompt
from roost.errors import Failure, fail
from roost.text.sse import SseEvent, SseParser

EVENT_MAX_BYTES = 16 * 1024 * 1024
_PLAIN = ("temperature", "top_p", "top_k", "min_p", "seed", "presence_penalty", "frequency_penalty")


class _Refused(Exception):  # noqa: N818 - the server lives and says no
    def __init__(self, failure: Failure) -> None:
        self.failure = failure


class Served(NamedTuple):
    """A model of a server: where, its name there, and the most tokens that it takes.

    `notice_s` is how long it may take until the end of a server of our own is known here, 0 for one
    that is somebody else's.
    """

    place: Place
    model: str
    ctx: int
    notice_s: float = 0.0


class Stream:
    """One answer; see `backends.answering.Stream`. `died` is its runtime's."""

    def __init__(self, served: Served, died: asyncio.Event, prepared: Prepared, slot: int) -> None:
        self._notice_s = served.notice_s
        self._died = died
        self._path, body = body_of(served.model, prepared.request, served.ctx)
        self._body = msgspec.json.encode(body)
        self._answer = Answer(slot, prepared.limit, prepared.request)
        self._exchange = Exchange(served.place)

    async def events(self) -> AsyncGenerator[StreamEvent, None]:
        """Yield the events of the contract; whatever breaks becomes the last of them."""
        try:
            async with aclosing(self._messages()) as messages:
                async for data in messages:
                    for event in self._answer.on_data(data):
                        yield event
                    if self._answer.over:
                        return
            ended = self._answer.on_end()
        except Lost as lost:
            ended = self._answer.on_failure(await self._blame(lost))
        except _Refused as refused:
            ended = self._answer.on_failure(refused.failure)
        for event in ended:
            yield event

    def stop(self) -> None:
        """End the answer because the runtime ends."""
        self._exchange.drop()

    async def close(self) -> None:
        """Leave the server, whatever it is doing: when it notices is not for us to know."""
        self._exchange.drop()

    async def _messages(self) -> AsyncGenerator[bytes, None]:
        await self._exchange.send("POST", self._path, self._body)
        status = await self._exchange.status()
        if status != 200:
            raise _Refused(_refusal(status))
        parser = SseParser(EVENT_MAX_BYTES)
        async with aclosing(self._exchange.pieces()) as pieces:
            async for piece in pieces:
                for item in parser.push(piece):
                    if not isinstance(item, SseEvent):
                        raise _Refused(item)
                    yield item.data

    async def _blame(self, lost: Lost) -> Failure:
        """Say why something broke; a connection breaks before the end of its server is known."""
        if self._notice_s:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._notice_s):
                    await self._died.wait()
        if self._died.is_set():
            return Failure("runtime_died", "The runtime has ended.")
        return Failure("runtime_error", f"The server could not complete the answer: {lost}.")


def body_of(model: str, request: GenerateRequest, ctx: int) -> tuple[str, dict[str, object]]:
    """Write a request: where to, and what; raises `unsupported` for what the dialect cannot say.

    A limit that no answer can reach is left to the server: some refuse one that does not fit
    behind the prompt, whose length only they know.

    Stop strings are not in it: a server does not tell which one has ended an answer.
    """
    if request.said:
        raise fail("unsupported", "A server of this dialect cannot go on with an answer.")
    body: dict[str, object] = {
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    open_ended = request.max_tokens is None or request.max_tokens >= ctx
    if not open_ended:
        body["max_tokens"] = request.max_tokens
    if request.ignore_eos:
        body["ignore_eos"] = True
    sampling = request.sampling
    body |= {name: value for name in _PLAIN if (value := getattr(sampling, name)) is not None}
    if isinstance(request.prompt, TextPrompt):
        # Left out, it would be 16 here: that is the dialect's own default for texts alone.
        limit = {"max_tokens": None} if open_ended else {}
        return "/v1/completions", body | {"prompt": request.prompt.text} | limit
    if not isinstance(request.prompt, ChatPrompt):
        raise fail("unsupported", "Token ids mean nothing to a server whose tokens nobody knows.")
    return "/v1/chat/completions", body | {"messages": _messages(request.prompt)}


def _messages(prompt: ChatPrompt) -> list[dict[str, str]]:
    if prompt.offer is not None or any(one.calls or one.call_id for one in prompt.messages):
        raise fail("unsupported", "Tools are not passed on to other servers.", param="tools")
    if prompt.continues:
        message = "A server of this dialect cannot go on with an answer."
        raise fail("unsupported", message, param="messages")
    return [
        {"role": one.role, "content": one.content} | ({"name": one.name} if one.name else {})
        for one in prompt.messages
    ]


def _refusal(status: int) -> Failure:
    """Say what a status means; the server's own words may hold prompts, addresses and keys."""
    if status in {429, 503}:
        return Failure("node_busy", "The server of this model is busy.", retry_after_s=1)
    if status in {400, 413, 422}:
        return Failure("bad_request", f"The server of this model refuses it (status {status}).")
    if status in {401, 403}:
        return Failure("runtime_error", "The server of this model does not take the key.")
    return Failure("runtime_error", f"The server of this model failed with status {status}.")
