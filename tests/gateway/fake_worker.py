"""SHELL: a worker that speaks system 1 as it was, on a loopback port; a test decides its moods."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import cast

import msgspec

Fields = dict[str, object]
Mood = Callable[["FakeWorker", "Asked"], bytes | None]
"""Says what is answered to a call; None closes the connection without a word."""


class Asked(msgspec.Struct):
    """One call that a worker was asked."""

    method: str
    path: str
    headers: dict[str, str]
    body: Fields

    @property
    def session(self) -> str:
        """The session it is about."""
        return str(self.body.get("session_id", self.path.rpartition("/")[2]))


def whole(status: int, body: object = None, *headers: str) -> bytes:
    """Write an answer with a length."""
    raw = b"" if body is None else json.dumps(body).encode()
    lines = [f"HTTP/1.1 {status} X", f"content-length: {len(raw)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + raw


def chunked(*pieces: bytes, ends: bool = True) -> bytes:
    """Write a stream of events in these pieces; without its end it is cut off."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n"
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return head + b"\r\n" + body + (b"0\r\n\r\n" if ends else b"")


def token(text: str, seq: int) -> bytes:
    """One event of an answer."""
    return b"data: " + json.dumps({"token": text, "seq": seq}).encode() + b"\n\n"


def polite(worker: FakeWorker, asked: Asked) -> bytes | None:
    """Do as system 1's workers did: known sessions go on, and every answer is `Hel` and `lo`."""
    match asked.method, asked.path:
        case "GET", "/worker/health":
            return whole(200, {"alive": True})
        case "POST", "/worker/prefill":
            again = asked.body.get("mode") == "continue"
            if again and asked.session not in worker.sessions:
                return whole(404, {"error": "gone", "reason": "session_gone"})
            worker.sessions[asked.session] = worker.sessions.get(asked.session, 0) + 10
            total = worker.sessions[asked.session]
            return whole(200, {"status": "ok", "tokens_added": 10, "total_tokens_est": total})
        case "POST", "/worker/decode":
            return chunked(token("Hel", 0), token("lo", 1))
        case "DELETE", _:
            return whole(204 if worker.sessions.pop(asked.session, None) else 404)
    return whole(404, {"error": "nothing here"})


class FakeWorker:
    """A listener, what it was asked, and its mood."""

    def __init__(self, name: str, port: int) -> None:
        self.name = name
        self.port = port
        self.mood: Mood = polite
        self.asked: list[Asked] = []
        self.sessions: dict[str, int] = {}
        self.open: set[asyncio.StreamWriter] = set()
        self.ended = 0

    def calls(self, path: str) -> list[Asked]:
        """The calls of one path, in order."""
        return [one for one in self.asked if one.path == path]

    def beat(self, **changes: object) -> Fields:
        """A heartbeat of it."""
        fields: Fields = {
            "worker_id": self.name,
            "worker_url": f"http://127.0.0.1:{self.port}",
            "timestamp": time.time() * 1000,
            "health": {"alive": True, "active_sessions": 0, "kv_cache_bytes": 0},
            "models": ["m"],
        }
        return fields | changes

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer one call on one connection."""
        self.open.add(writer)
        try:
            asked = await _read(reader)
            self.asked.append(asked)
            answer = self.mood(self, asked)
            if answer is not None:
                writer.write(answer)
                if not answer.endswith(b"\r\n\r\n") and b"chunked" in answer:
                    # An answer that is not over: until whoever asked closes, or this worker dies.
                    await reader.read()
                    self.ended += 1
        finally:
            self.open.discard(writer)
            writer.close()

    def die(self) -> None:
        """Cut every connection, as a process that is killed does."""
        for writer in list(self.open):
            writer.transport.abort()


async def _read(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    pairs = (line.partition(": ") for line in head[1:] if line)
    headers = {name.lower(): value for name, _, value in pairs}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    body = cast("Fields", json.loads(raw)) if raw else {}
    return Asked(method, path, headers, body)


@asynccontextmanager
async def working(name: str = "w-a") -> AsyncIterator[FakeWorker]:
    """Run a worker for the length of a block."""
    worker = FakeWorker(name, 0)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.IncompleteReadError):
            await worker.serve(reader, writer)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    worker.port = server.sockets[0].getsockname()[1]
    try:
        yield worker
    finally:
        server.close()
        worker.die()
