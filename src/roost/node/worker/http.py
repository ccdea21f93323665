"""SHELL: a node's `/worker/*` routes, the protocol of system 1, over whatever HTTP front there is.

The front is the gateway's, which this room may not know: `roost.cli` puts one under the other. So
limits, deadlines, Host, Origin and key checks are the same on both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Protocol, TypeAlias

import msgspec

from roost.core.events import Finished
from roost.core.ids import TenantId
from roost.dialects.system1.infer_reply import InferStream
from roost.dialects.system1.worker import (
    denial_body,
    failure_body,
    health_body,
    prefilled_body,
    read_decode,
    read_prefill,
    sessions_body,
)
from roost.errors import Failure, RoostError
from roost.node.worker.desk import DeniedError, WorkerDesk

SESSIONS = "/worker/sessions"
NOT_NOW = Failure("conversation_busy", "The session is at work.", retry_after_s=1)
JSON_HEADERS = ((b"content-type", b"application/json"),)
STREAM_HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)

ROUTES = {
    "/worker/prefill": "POST",
    "/worker/decode": "POST",
    "/worker/sessions": "GET",
    "/worker/health": "GET",
}
Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]


class Exchange(Protocol):
    """One request and its reply, as a front hands it over."""

    async def body(self, max_bytes: int) -> bytes | None:
        """Read the request's body to its end; None if the client left, or it is over the limit."""
        ...

    async def left(self) -> None:
        """Return when the client has left, or has everything."""
        ...

    async def reply(self, status: int, headers: Headers, body: bytes = b"") -> None:
        """Send a whole reply."""
        ...

    async def start(self, status: int, headers: Headers) -> None:
        """Begin a reply."""
        ...

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """Send more of a reply, waiting while the client does not keep up."""
        ...


class WorkerRoutesSettings(msgspec.Struct, frozen=True):
    """Limits of the routes: bytes of a body, and the silence before a stream says that it lives."""

    body_max_bytes: int = 1024 * 1024
    keepalive_s: float = 10.0


class WorkerRoutes:
    """Answers requests; `serve` is called for each, in a task of its own."""

    def __init__(self, desk: WorkerDesk, settings: WorkerRoutesSettings) -> None:
        self._desk = desk
        self._settings = settings

    async def serve(self, method: str, path: str, owner: TenantId, exchange: Exchange) -> None:
        """Answer one request of this owner."""
        path = path.rstrip("/")
        name = path.removeprefix(SESSIONS + "/")
        match method, path:
            case "POST", "/worker/prefill":
                await self._prefill(owner, exchange)
            case "POST", "/worker/decode":
                await self._decode(owner, exchange)
            case (("GET" | "HEAD"), "/worker/sessions"):
                body = sessions_body(self._desk.lines(owner), self._desk.totals())
                await exchange.reply(200, JSON_HEADERS, body)
            case (("GET" | "HEAD"), "/worker/health"):
                body = health_body(self._desk.totals(), draining=self._desk.draining)
                await exchange.reply(200, JSON_HEADERS, body)
            case "DELETE", _ if name != path and name:
                if await self._desk.remove(owner, name):
                    await exchange.reply(204, ())
                else:
                    await _deny(exchange, DeniedError("session_gone"))
            case _:
                await _fail(exchange, _unknown(path, is_session=name != path))

    async def _prefill(self, owner: TenantId, exchange: Exchange) -> None:
        body = await self._body(exchange)
        if body is None:
            return

        async def work() -> None:
            try:
                asked = read_prefill(body)
                if isinstance(asked, str):
                    raise DeniedError(asked)
                done = await self._desk.prefill(owner, asked)
            except DeniedError as error:
                await _deny(exchange, error)
            except RoostError as error:
                await _fail(exchange, error.failure)
            else:
                await exchange.reply(200, JSON_HEADERS, prefilled_body(done))

        await _while_there(exchange, work)

    async def _decode(self, owner: TenantId, exchange: Exchange) -> None:
        body = await self._body(exchange)
        if body is None:
            return
        answer = _Answer(exchange)

        async def work() -> None:
            async with asyncio.TaskGroup() as group:
                living = group.create_task(answer.keep_alive(self._settings.keepalive_s))
                await self._speak(owner, body, answer)
                living.cancel()

        await _while_there(exchange, work)

    async def _speak(self, owner: TenantId, body: bytes, answer: _Answer) -> None:
        try:
            async with self._desk.decode(owner, read_decode(body)) as events:
                async for event in events:
                    if isinstance(event, Finished):
                        # An event may hold several tokens: with facts of our own come the counts.
                        cached = event.usage.cached_tokens
                        answer.stream.roost_extra({"cached_tokens": cached})
                    await answer.say(answer.stream.event(event))
        except DeniedError as error:
            await answer.deny(error)
        except RoostError as error:
            await answer.fail(error.failure)
        else:
            await answer.end()

    async def _body(self, exchange: Exchange) -> bytes | None:
        most = self._settings.body_max_bytes
        body = await exchange.body(most)
        if body is None:
            text = f"A turn has at most {most} bytes."
            await _fail(exchange, Failure("body_too_large", text, param="prompt"))
        return body


class _Answer:
    """One stream of tokens: its head goes out with the first of them, or with a sign of life."""

    def __init__(self, exchange: Exchange) -> None:
        self.stream = InferStream()
        self._exchange = exchange
        self._is_begun = False
        self._is_silent = True
        self._is_over = False

    async def say(self, data: bytes) -> None:
        """Send a part; nothing of the reply is committed before the first."""
        if not data:
            return
        self._is_silent = False
        await self._begin()
        await self._exchange.write(data)

    async def deny(self, error: DeniedError) -> None:
        """End with a denial, as `fail` does with a failure."""
        if self._is_begun:
            await self.fail(NOT_NOW)
            return
        self._is_over = True
        await _deny(self._exchange, error)

    async def fail(self, failure: Failure) -> None:
        """End with a failure: a status of its own, or the last event where it is too late."""
        self._is_over = True
        if self._is_begun:
            await self._exchange.write(self.stream.error(failure), last=True)
        else:
            await _fail(self._exchange, failure)

    async def end(self) -> None:
        """Everything has been said."""
        self._is_over = True
        await self._begin()
        await self._exchange.write(b"", last=True)

    async def keep_alive(self, every_s: float) -> None:
        """Say something whenever nothing was said for so long, until cancelled."""
        while True:
            await asyncio.sleep(every_s)
            silent, self._is_silent = self._is_silent, True
            if silent and not self._is_over:
                await self._begin()
                await self._exchange.write(self.stream.comment("alive"))

    async def _begin(self) -> None:
        if not self._is_begun:
            self._is_begun = True
            await self._exchange.start(200, STREAM_HEADERS)


async def _while_there(
    exchange: Exchange, work: Callable[[], Coroutine[object, object, None]]
) -> None:
    """Do something for a client until it has left; what was begun for it ends before this does."""
    async with asyncio.TaskGroup() as group:
        working = group.create_task(work())
        leaving = group.create_task(exchange.left())
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        working.cancel()


def _unknown(path: str, *, is_session: bool) -> Failure:
    if is_session or path in ROUTES:
        allowed = "DELETE" if is_session else ROUTES[path]
        return Failure("method_not_allowed", f"Use {allowed} at this address.")
    return Failure("not_found", "There is nothing at this address.")


async def _deny(exchange: Exchange, error: DeniedError) -> None:
    status, body = denial_body(error.denial)
    await exchange.reply(status, JSON_HEADERS, body)


async def _fail(exchange: Exchange, failure: Failure) -> None:
    status, body = failure_body(failure)
    wait_s = failure.retry_after_s
    after = () if wait_s is None else ((b"retry-after", str(wait_s).encode()),)
    await exchange.reply(status, (*JSON_HEADERS, *after), body)
