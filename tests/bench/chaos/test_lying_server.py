"""A server that breaks promises on purpose is asked by the load itself, and gets its verdict."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from roost.bench.chaos.load import PIECES, Load
from roost.bench.chaos.promises import verdicts
from roost.bench.chaos.seen import Manner, Seen
from roost.bench.drills.fleets import Fleet
from roost.bench.drills.stage import Running, Stage

HEAD = b"HTTP/1.1 200 OK\r\nX-Roost-Node: a\r\nTransfer-Encoding: chunked\r\n\r\n"
ENDS, ORDER = "Every request that was accepted ends exactly once", "Text arrives in order"
CUTS, HINTS = "An answer that is cut ends in one error event", "The queue is bounded"


def chunk(data: bytes) -> bytes:
    """Frame data as a chunk; nothing is the last one."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def said(*words: str) -> bytes:
    """Say words as events of a stream."""
    events = (json.dumps({"choices": [{"delta": {"content": word}}]}) for word in words)
    return b"".join(chunk(f"data: {event}\n\n".encode()) for event in events)


DONE, LAST = chunk(b"data: [DONE]\n\n"), chunk(b"")
ERROR = chunk(b'data: {"error":{"code":"node_lost"}}\n\n')
ALL = [f"{number} " for number in range(PIECES)]
REFUSED = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n%s\r\n{}"


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


class Front(Running):
    """A server that runs already, in the place of a gateway."""

    def __init__(self, port: int) -> None:
        self.port = port


async def kept(reply: bytes, manner: Manner = "plain") -> dict[str, str]:
    """Ask a server that always replies so, and return all verdicts by promise."""
    async with server(reply) as port:
        with Stage() as stage:
            load = Load(Fleet(stage, "nodes", Front(port)), random.Random(1), 1.0, 0)
            await load.speak(manner)
    seen = Seen((), tuple(load.spoken), (), {})
    return {one.promise: one.kept for one in verdicts(seen)}


@pytest.mark.parametrize(
    ("reply", "promise", "verdict"),
    [
        (HEAD + said(*ALL) + DONE + LAST, ENDS, "kept"),
        (HEAD + said(*ALL) + DONE + LAST, ORDER, "kept"),
        (HEAD + said(*ALL) + DONE + DONE + LAST, ENDS, "broken"),
        (HEAD + said(*ALL) + LAST, ENDS, "broken"),
        (HEAD + said(*ALL[:3]), ENDS, "broken"),
        (HEAD + said(*ALL[:-1]) + DONE + LAST, ORDER, "broken"),
        (HEAD + said("0 ", "0 ", *ALL[1:]) + DONE + LAST, ORDER, "broken"),
        (HEAD + said(*ALL[:3]) + ERROR + DONE + LAST, CUTS, "broken"),
        (HEAD + said(*ALL[:3]) + ERROR, CUTS, "kept"),
        (REFUSED % b"", HINTS, "broken"),
        (REFUSED % b"Retry-After: 3\r\n", HINTS, "kept"),
        (b"", ENDS, "broken"),
    ],
)
async def test_what_it_does_is_what_is_found(reply: bytes, promise: str, verdict: str) -> None:
    """An honest server keeps what a lying one breaks, to the same client."""
    (found,) = [kept for told, kept in (await kept(reply)).items() if told.startswith(promise)]
    assert found == verdict


async def test_slow_and_leaving_clients_hear_the_same_server() -> None:
    """Who reads slowly gets all of it; who leaves gets a beginning."""
    for manner in ("slow", "leaves", "replay"):
        found = await kept(HEAD + said(*ALL) + DONE + LAST, manner)
        assert "broken" not in found.values(), manner
