"""A front in a process of its own that is short of file descriptors; prints what happened as JSON.

fit SOFT HARD WANTED: the limit and the connections that a front of so many connections ends up
with. exhaust LOOP: every descriptor is taken while a client connects, and later given back.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import resource
import socket
import sys
import time

import msgspec
import uvloop

from roost.gateway.front.asgi import Receive, Scope, Send
from roost.gateway.front.limits import FrontLimits, Listener
from roost.gateway.front.server import open_front
from roost.observe import logs

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


async def app(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with nothing."""
    await send(
        {"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]}
    )
    await send({"type": "http.response.body", "body": b""})


async def fit(soft: int, hard: int, wanted: int) -> dict[str, float]:
    """Open a front under this limit."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    front = await open_front(app, Listener(port=0), FrontLimits(connections_max=wanted))
    limits = front._shared.limits  # noqa: SLF001 - what was decided
    await front.close(0)
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return {"limit": limit, "connections": limits.connections_max}


def take_all() -> list[int]:
    """Open files until no more can be opened."""
    taken: list[int] = []
    try:
        while True:
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return taken


async def pause(seconds: float) -> None:
    """Let the loop run for a while."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), seconds)


async def ask(port: int) -> int:
    """Ask until there is an answer, and return its status."""
    async with asyncio.timeout(10):
        while True:
            try:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(GET)
                reply = await reader.read(-1)
                writer.close()
            except OSError:
                reply = b""
            if reply:
                return int(reply.split()[1])
            await pause(0.05)


async def exhaust() -> dict[str, float]:
    """Take every descriptor while clients connect, then give them back."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
    front = await open_front(app, Listener(port=0), FrontLimits())
    clients = [socket.socket() for _ in range(3)]
    taken = take_all()
    for client in clients:
        client.setblocking(False)
        client.connect_ex(("127.0.0.1", front.port))
    before = time.process_time()
    await pause(1.2)
    busy_s = time.process_time() - before
    for descriptor in taken:
        os.close(descriptor)
    for client in clients:
        client.close()
    status = await ask(front.port)
    await front.close(0)
    return {"busy_s": busy_s, "status": status}


def main() -> None:
    """Do what the arguments say."""
    logs.configure("info", "json")
    what, *rest = sys.argv[1:]
    if what == "fit":
        soft, hard, wanted = map(int, rest)
        seen = asyncio.run(fit(soft, hard, wanted))
    else:
        factory = uvloop.new_event_loop if rest == ["uvloop"] else asyncio.new_event_loop
        with asyncio.Runner(loop_factory=factory) as runner:
            seen = runner.run(exhaust())
    sys.stdout.write(msgspec.json.encode(seen).decode())


if __name__ == "__main__":
    main()
