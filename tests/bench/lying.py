"""A server that says the same bytes to everybody, and the bytes that lies are made of."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

HEAD = b"HTTP/1.1 200 OK\r\nX-Roost-Node: a\r\nTransfer-Encoding: chunked\r\n\r\n"


def chunk(data: bytes) -> bytes:
    """Frame data as a chunk; nothing is the last one."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def said(*words: str) -> bytes:
    """Say words as events of a stream."""
    events = (json.dumps({"choices": [{"delta": {"content": word}}]}) for word in words)
    return b"".join(chunk(f"data: {event}\n\n".encode()) for event in events)


DONE, LAST = chunk(b"data: [DONE]\n\n"), chunk(b"")
ERROR = chunk(b'data: {"error":{"code":"node_lost"}}\n\n')


@asynccontextmanager
async def server(reply: bytes) -> AsyncIterator[int]:
    """Answer every request with these bytes; give the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read a request, say the same as always, and close."""
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(line for line in head.lower().split(b"\r\n") if b"content-length" in line)
        await reader.readexactly(int(length.partition(b":")[2]))
        writer.write(reply)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        yield listening.sockets[0].getsockname()[1]
