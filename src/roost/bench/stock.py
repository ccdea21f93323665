"""SHELL: a server as it comes with llama.cpp, beside which roost is measured."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

from roost.backends.llama.argv import Launch
from roost.backends.llama.child import serve, stock_of
from roost.backends.processes.huge_pages import with_huge_pages
from roost.bench.drills.stage import Stage, until
from roost.bench.processes import end, free_port, pinned, python
from roost.config.read import read_environment

START_S = 60.0


@asynccontextmanager
async def stock_server(
    stage: Stage, slots: int, slot_ctx: int, *, copies: bool = False
) -> AsyncIterator[int]:
    """Serve the stage's real model with the stock server; yields its port when it is ready.

    With `copies` its weights lie in huge pages, as those of roost's children do.
    """
    assert stage.real is not None, "a stock server runs real models only"
    port = free_port()
    launch = Launch(str(stage.real), "", "", slot_ctx, slots, 0, port=port, copies=copies)
    words = msgspec.json.encode(launch).decode()
    log = stage.path / f"stock-{port}.log"
    environ = read_environment()
    if copies:
        environ |= with_huge_pages(environ)
    server = pinned((python(), "-m", "roost.bench.stock", words), None, log=log, env=environ)
    try:
        await until(lambda: _answers(port), "the stock server is ready", START_S)
        yield port
    finally:
        end(server)


def _answers(port: int) -> bool | None:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2) as reply:
            return bool(reply.status == 200) or None
    except (OSError, urllib.error.URLError):
        return None


if __name__ == "__main__":
    sys.exit(serve(msgspec.json.decode(sys.argv[1], type=Launch), stock_of))
