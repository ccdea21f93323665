"""What drills are made of: the client that stamps and judges, loops, tables, the tiny model."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import cast

import pytest

from roost.bench.claims import Report, at_least, at_most, none_of, quantile, table
from roost.bench.drills.aborts import leaving
from roost.bench.drills.answers import Answer
from roost.bench.drills.arrivals import OPEN_MAX, closed_loop, due_times, open_loop
from roost.bench.drills.asking import Chat, ask, scripted
from roost.bench.drills.ties import MEMBERS, FirstOfTies, decided
from roost.bench.drills.tiny_model import CTX, NAME, tiny_model
from roost.bench.overload import goodput, recovery
from roost.store.home import Home
from roost.store.models.registry import ModelStore

HEAD = b"HTTP/1.1 200 OK\r\nX-Roost-Node: n1\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"choices":[]}\n\n'
FAILED = b'data: {"error":{"code":"node_lost"}}\n\n'
DONE = b"data: [DONE]\n\n"
BUSY = (
    b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 3\r\nContent-Length: 31\r\n\r\n"
    b'{"error":{"code":"queue_full"}}'
)


def chunk(data: bytes) -> bytes:
    """Frame data as a chunk; nothing is the last one."""
    return b"%x\r\n%s\r\n" % (len(data), data)


@asynccontextmanager
async def server(*parts: bytes) -> AsyncIterator[int]:
    """Answer every connection with these bytes and close it; give the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            for part in parts:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(0)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as listening:
        yield listening.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("parts", "end", "code"),
    [
        ((HEAD, chunk(EVENT), chunk(DONE), chunk(b"")), "complete", ""),
        ((HEAD, chunk(EVENT), chunk(FAILED), chunk(b"")), "error", "node_lost"),
        ((HEAD, chunk(EVENT), chunk(DONE)), "cut", ""),
        ((HEAD, chunk(EVENT), chunk(b"")), "cut", ""),
        ((BUSY,), "refused", "queue_full"),
        ((), "silent", ""),
    ],
)
async def test_every_end_is_told_apart(parts: tuple[bytes, ...], end: str, code: str) -> None:
    """A stream without its terminator is cut, whatever its last event says."""
    async with server(*parts) as port:
        answer = await ask(Chat(port, "m", "hello"))
    assert (answer.end, answer.code) == (end, code)
    assert answer.node == ("n1" if end in ("complete", "error", "cut") else "")
    assert answer.retry_after == ("3" if end == "refused" else "")
    assert answer.done_marks == sum(DONE in part for part in parts)
    assert isnan(answer.ttft_s) is not bool(answer.stamps)


async def test_a_client_leaves_where_it_was_told() -> None:
    """After so many events, at the last one, or with half of a request sent."""
    async with server(HEAD, chunk(EVENT), chunk(EVENT), chunk(DONE), chunk(b"")) as port:
        early = await ask(Chat(port, "m", "hello", leave_after_events=0))
        late = await ask(Chat(port, "m", "hello", leave_at_done=True))
        half = await ask(Chat(port, "m", "hello", half=True))
    assert [answer.end for answer in (early, late, half)] == ["left"] * 3
    assert late.done_marks == 1
    assert half.status == 0


async def test_nobody_there_is_silent() -> None:
    """A refused connection is an outcome, no exception."""
    async with server() as port:
        pass
    assert (await ask(Chat(port, "m", "hello"))).end == "silent"


async def test_an_open_loop_counts_from_when_a_request_was_due() -> None:
    """Due times are evenly spaced, and a late sending adds to the latency."""
    async with server(BUSY) as port:
        answers = await open_loop(lambda _n: Chat(port, "m", "hello"), 200, 0.1)
    assert len(answers) == 20
    gaps = [b.due_s - a.due_s for a, b in pairwise(answers)]
    assert gaps == pytest.approx([0.005] * 19)
    assert all(a.latency_s >= a.lag_s >= 0 for a in answers)
    with pytest.raises(ValueError, match="trusted"):
        await open_loop(lambda _n: Chat(port, "m", "hello"), OPEN_MAX + 1, 1)


def test_steps_follow_one_another() -> None:
    """The second step begins where the first one's seconds end."""
    assert due_times(((2.0, 1.0), (4.0, 0.5))) == [0.0, 0.5, 1.0, 1.25]


def test_goodput_counts_what_ended_in_time_and_recovery_what_was_served_after() -> None:
    """The first fifth warms up; a late answer is no goodput; recovery goes by second."""
    answers = [Answer(n, n, n + 0.5, "complete" if n != 7 else "refused") for n in range(10)]
    assert goodput(answers, 0.0, 10.0) == 7 / 8
    assert recovery(answers, 6.0) == [1.0, 0.0, 1.0, 1.0]


def test_ties_by_order_all_go_to_the_first_server() -> None:
    """The decider is as even as its dice."""
    ordered = decided(30, cast("random.Random", FirstOfTies()))
    assert ordered == {"upstream-1": 30}
    assert len(decided(30, random.Random(1))) == MEMBERS


async def test_a_closed_loop_asks_one_after_the_other() -> None:
    """So many clients, and never more at a time."""
    async with server(BUSY) as port:
        answers = await closed_loop(lambda _n: Chat(port, "m", "hello"), 2, 0.2)
    ordered = sorted(answers, key=lambda answer: answer.due_s)
    assert len(ordered) >= 4
    for earlier, third in zip(ordered, ordered[2:], strict=False):
        assert third.due_s >= earlier.due_s


def test_prompts_differ_and_say_what_the_model_does() -> None:
    """No two share a beginning, so no prefix is found again."""
    dice = random.Random(1)
    first, second = (scripted(dice, 2, 5.0, prefill_ms_per_token=1.0) for _ in range(2))
    assert first[:16] != second[:16]
    assert first.splitlines()[1] == second.splitlines()[1]
    assert '"prefill_ms_per_token": 1.0' in first


def test_clients_leave_at_every_kind_of_moment() -> None:
    """A drill of three hundred meets all of them."""
    dice = random.Random(5)
    chats = [leaving(dice, Chat(1, "m", "hello")) for _ in range(300)]
    assert any(chat.half for chat in chats)
    assert any(chat.leave_at_done for chat in chats)
    assert {chat.leave_after_events for chat in chats} >= {None, 0, 7}
    assert len({chat.leave_after_s for chat in chats}) > 50


def test_reports_judge_figures() -> None:
    """A report has passed if every claim held, and shows each with its figure."""
    good = (at_most("quick", 2.0, 3.0, " ms"), at_least("many", 5, 5), none_of("leaks", 0))
    report = Report("E0 nothing", (table(("a", "bb"), [["10", "2"]]),), {}, good)
    assert report.passed
    assert report.text().splitlines() == [
        "== E0 nothing",
        " a  bb",
        "10   2",
        "met    quick: 2 ms (at most 3 ms)",
        "met    many: 5 (at least 5)",
        "met    leaks: 0",
    ]
    assert not Report("E0", (), {}, (*good, none_of("leaks", 1))).passed
    assert not at_most("quick", float("nan"), 1.0).met


def test_quantiles() -> None:
    """The nearest value at or above the share; nothing has none."""
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0, 2.0], 0.99) == 2.0
    assert isnan(quantile([], 0.5))


def test_the_tiny_model_installs(tmp_path: Path) -> None:
    """It is a whole model file to the store, with the context drills need."""
    path = tmp_path / f"{NAME}.gguf"
    path.write_bytes(tiny_model())
    manifest = ModelStore(Home.open(tmp_path / "home")).add_file(path, link=True)
    assert (manifest.id, manifest.ctx_train) == (NAME, CTX)
