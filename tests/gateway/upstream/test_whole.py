"""What is asked once, on a connection of its own: every end it can have is an answer or none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from roost.gateway.foreign.calls import HEALTH, Answer, WorkerCalls
from roost.gateway.foreign.effects import Heard, Pieces
from roost.gateway.front.defects import INTERNAL
from roost.gateway.upstream.client import ClientLimits, ConnectionPool
from roost.gateway.upstream.targets import Target
from roost.gateway.upstream.whole import Whole, ask_whole
from tests.gateway.upstream.conftest import BODY, FakeServer, Script, chunk, hang, whole, writing

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
LONG_S = 30.0
"""Longer than any of these may take."""
OPEN = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@asynccontextmanager
async def listening(script: Script) -> AsyncIterator[ConnectionPool]:
    """Connections to a server that answers by this script; none of them is left at the end."""
    server = FakeServer(script)
    await server.start()
    pool = ConnectionPool(Target("s", "127.0.0.1", server.port), ClientLimits())
    yield pool
    assert pool.open_connections == 0
    await server.kill()


@pytest.mark.parametrize(
    ("pieces", "answer"),
    [
        ([whole()], Whole(200, BODY)),
        ([OPEN, chunk(b"a"), chunk(b"b"), chunk(b"")], Whole(200, b"ab")),
        ([whole(b"x" * 100)], Whole(200, b"x" * 100)),
        (
            [whole(b"no", "503 Busy", "Retry-After: 7\r\n")],
            Whole(503, b"no", retry_after="7"),
        ),
        ([whole(b"x" * 101)], Whole(200, is_too_long=True)),
        ([OPEN, chunk(b"x" * 60), chunk(b"x" * 60)], Whole(200, is_too_long=True)),
        ([b"this is no HTTP"], None),
    ],
    ids=["whole", "pieces", "just enough", "refused", "too long", "without an end", "nonsense"],
)
async def test_an_answer_is_whole_or_none(pieces: list[bytes], answer: Whole | None) -> None:
    """One that is too long is known to be one before it is over, and nothing is kept of it."""
    async with listening(writing(*pieces)) as pool:
        assert await ask_whole(pool, GET, LONG_S, 100) == answer


async def test_an_answer_that_is_cut_is_none() -> None:
    """However much of it there was."""
    async with listening(writing(OPEN, chunk(b"x"), cut=True)) as pool:
        assert await ask_whole(pool, GET, LONG_S, 100) is None


async def test_silence_is_no_answer() -> None:
    """It is waited for as long as was said; and where nobody listens, not at all."""
    async with listening(hang) as pool:
        assert await ask_whole(pool, GET, 0.05, 100) is None
    assert await ask_whole(pool, GET, LONG_S, 100) is None


async def test_a_defect_is_logged_and_ends_nobody(capsys: pytest.CaptureFixture[str]) -> None:
    """What asks a worker would otherwise end, and keep the worker out of the fleet for ever."""
    target = Target("w", "." * 300, 1)
    assert await ask_whole(ConnectionPool(target, ClientLimits()), GET, LONG_S, 100) is None
    calls = WorkerCalls(target, "", ClientLimits())
    assert await calls.ask("GET", HEALTH, None, LONG_S, 100) is None
    assert "".join(capsys.readouterr()).count("internal_error") == 2


async def test_a_defect_ends_the_answer_with_a_failure(capsys: pytest.CaptureFixture[str]) -> None:
    """A client would otherwise wait for an answer that nobody asks a worker for; it gets a 500."""
    calls = WorkerCalls(Target("w", "." * 300, 1), "", ClientLimits())
    heard: list[Heard] = []
    await calls.answer(b"{}", Answer(heard.append))
    assert heard == [Pieces((INTERNAL,))]
    assert INTERNAL.status == 500
    assert "".join(capsys.readouterr()).count("internal_error") == 1
