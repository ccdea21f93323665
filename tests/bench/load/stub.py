"""A server whose answers and their times are known: it plays a part for each request, in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from time import monotonic

import msgspec

from roost.gateway.upstream.targets import Target


class Part(msgspec.Struct, frozen=True):
    """What a request gets: `words`, each `gap_s` after the one before, the first after `first_s`.

    `ending` says how: whole, or in one of the ways in which answers are lost. `hold` answers when
    so many requests have come.
    """

    words: int = 3
    first_s: float = 0.0
    gap_s: float = 0.0
    ending: str = "whole"
    status: int = 200
    hold: int = 0
    framed: bool = True


class Stub:
    """Plays its parts over and over; `written` are the times of each answer's words.

    Who comes when `room` others are there already is refused.
    """

    def __init__(self, parts: Sequence[Part], room: int) -> None:
        self._room = room
        self._parts = parts
        self._waiting: list[Callable[[], None]] = []
        self.asked: list[dict[str, object]] = []
        self.heads: list[str] = []
        self.written: list[list[float]] = []
        self.at_once = self.at_once_max = 0
        self.connections = 0
        self._open: dict[asyncio.Task[object], asyncio.StreamWriter] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        self.connections += 1
        task = asyncio.current_task()
        assert task is not None
        self._open[task] = writer
        try:
            while await self._answered(reader, writer):
                pass
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            del self._open[task]
            writer.close()

    async def end(self) -> None:
        """Let go of every connection."""
        for release in self._waiting:
            release()
        for writer in self._open.values():
            writer.transport.abort()
        await asyncio.gather(*self._open)

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        if head.startswith("GET "):
            # Nobody has such a page here; it counts as no request of the load.
            writer.write(b"HTTP/1.1 404 No\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            return True
        size = int(head.lower().partition("content-length:")[2].split("\r\n")[0])
        body = json.loads(await reader.readexactly(size))
        part = self._parts[len(self.asked) % len(self._parts)]
        self.asked.append(body)
        self.heads.append(head)
        self.at_once += 1
        self.at_once_max = max(self.at_once, self.at_once_max)
        if self.at_once > self._room:
            part = Part(status=429)
        await self._held(part)
        try:
            return await self._played(part, writer)
        finally:
            self.at_once -= 1

    async def _held(self, part: Part) -> None:
        if not part.hold:
            return
        released = asyncio.get_running_loop().create_future()
        self._waiting.append(lambda: released.set_result(None))
        if len(self._waiting) >= part.hold:
            for release in self._waiting:
                release()
            self._waiting.clear()
        await released

    async def _played(self, part: Part, writer: asyncio.StreamWriter) -> bool:
        if part.status != 200:
            body = b'{"error":{"code":"no_such_model","message":"no"}}'
            writer.write(
                b"HTTP/1.1 %d No\r\ncontent-length: %d\r\nretry-after: 3\r\n\r\n"
                % (part.status, len(body))
                + body
            )
            await writer.drain()
            return True
        writer.write(
            b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"
            b"transfer-encoding: chunked\r\n\r\n"
        )
        await self._words(part, writer)
        return await self._ended(part, writer)

    async def _words(self, part: Part, writer: asyncio.StreamWriter) -> None:
        times: list[float] = []
        self.written.append(times)
        write(writer, {"choices": [{"delta": {"role": "assistant"}}]})
        for number in range(part.words):
            await after(part.gap_s if number else part.first_s)
            write(writer, {"choices": [{"delta": {"content": f"w{number} "}}]})
            times.append(monotonic())
            await writer.drain()

    async def _ended(self, part: Part, writer: asyncio.StreamWriter) -> bool:
        if part.ending == "error":
            write(writer, {"error": {"code": "runtime_died", "message": "gone"}})
        if part.ending in {"whole", "unframed", "no_done"}:
            write(writer, {"choices": [{"delta": {}, "finish_reason": "stop"}]})
            usage = {"prompt_tokens": 10, "completion_tokens": part.words}
            details = {"prompt_tokens_details": {"cached_tokens": 4}}
            facts = {"placement": "warm", "node": "n1", "queue_ms": 7}
            write(writer, {"choices": [], "usage": {**usage, **details}, "roost": facts})
        if part.ending in {"whole", "unframed", "clean_done"}:
            writer.write(b"e\r\ndata: [DONE]\n\n\r\n")
        if part.ending in {"cut", "unframed"}:
            await writer.drain()
            return False
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True


def write(writer: asyncio.StreamWriter, event: dict[str, object]) -> None:
    """Write one event as one chunk."""
    data = b"data: " + json.dumps(event).encode() + b"\n\n"
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


async def after(seconds: float) -> None:
    """Let time pass as the stub's script says."""
    if seconds:
        loop = asyncio.get_running_loop()
        over = loop.create_future()
        loop.call_later(seconds, over.set_result, None)
        await over


@asynccontextmanager
async def serving(*parts: Part, room: int = 1000) -> AsyncIterator[tuple[Stub, Target]]:
    """Serve a stub on a free port of this machine."""
    stub = Stub(parts, room)
    server = await asyncio.start_server(stub.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield stub, Target("server", "127.0.0.1", port)
        await stub.end()
