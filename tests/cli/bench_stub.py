"""A server of known answers on a thread of its own, for verbs that have a loop of their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from roost.gateway.loop import run
from tests.bench.load.stub import Part, serving


@contextmanager
def stub(*parts: Part) -> Iterator[str]:
    """Serve a stub on a thread of its own; yields its address."""
    ready, over = threading.Event(), threading.Event()
    found: list[str] = []

    async def main() -> None:
        async with serving(*parts) as (_, target):
            found.append(target.url)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: run(main()))
    thread.start()
    try:
        assert ready.wait(20)
        yield found[0]
    finally:
        over.set()
        thread.join()
