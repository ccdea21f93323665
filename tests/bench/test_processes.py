"""What a benchmark or a drill has started ends with it, however that ends."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import psutil
import pytest

from roost.bench.claims import Report, none_of
from roost.bench.drills.asking import Chat, scripted
from roost.bench.drills.stage import Stage, on_stage
from roost.bench.processes import family, rss_bytes
from tests.children import runs
from tests.conftest import Eventually

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
PARENT = """
import asyncio, sys, time
from roost.bench.drills.stage import Stage
from roost.bench.processes import ends_by_term, first_line, pinned
ends_by_term()
with Stage() as stage:
    running = stage.run([sys.executable, "-c", sys.argv[1]], "home")
    asyncio.run(running.says("up"))
    first = pinned([sys.executable, "-c", sys.argv[1]], 0)
    first_line(first, 20)
    print(stage.path, flush=True)
    time.sleep(600)
"""


def spawned(argv: list[str]) -> subprocess.Popen[str]:
    """Start a process whose first words are wanted, and whose last are not."""
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    return subprocess.Popen(argv, stdout=pipe, stderr=nothing, text=True)


def test_the_memory_of_a_process_is_counted_in_bytes() -> None:
    """As another library counts it, about; who is gone has none."""
    with spawned([sys.executable, "-c", SLEEP]) as child:
        assert child.stdout
        assert child.stdout.readline() == "up\n"
        # It may take or give back a page between the two looks.
        counted = psutil.Process(child.pid).memory_info().rss
        assert rss_bytes(child.pid) == pytest.approx(counted, rel=0.1)
        child.kill()
    assert rss_bytes(child.pid) == 0


@pytest.mark.drill
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
async def test_nothing_outlives_a_drill(number: signal.Signals, eventually: Eventually) -> None:
    """Whatever ends the process of a drill ends all that it has started, kill -9 included."""
    with spawned([sys.executable, "-c", PARENT, SLEEP]) as parent:
        assert parent.stdout
        folder = await asyncio.to_thread(parent.stdout.readline)
        assert folder
        _, *children = [psutil.Process(pid) for pid in family(parent.pid)]
        # A shim with what it runs, and the pinned one.
        assert len(children) == 3
        parent.send_signal(number)
    await eventually(lambda: not any(map(runs, children)))
    assert parent.returncode != 0


def report() -> Report:
    """Build a report with one claim that holds."""
    return Report("drill", (), {}, (none_of("faults", 0),))


@asynccontextmanager
async def streaming(stage: Stage) -> AsyncIterator[None]:
    """Serve one long answer to a client that stays."""
    server = stage.serve("server", "--slots", "1")
    await server.serves()
    content = scripted(random.Random(1), 1000, 100.0)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(Chat(server.port, stage.model, content).request())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
    try:
        yield
    finally:
        writer.close()


@pytest.mark.drill
async def test_what_is_held_at_the_end_fails_the_drill() -> None:
    """A drill that leaves a place taken does not pass, and its report says where."""
    async with AsyncExitStack() as stack:

        async def leaves_one(stage: Stage) -> Report:
            await stack.enter_async_context(streaming(stage))
            return report()

        found = await on_stage(leaves_one, 60, settle_s=0.1)
    assert [check.met for check in found.checks] == [True, False]
    assert not found.passed
    assert "server (roost serve)" in found.checks[1].seen


@pytest.mark.drill
async def test_a_drill_that_does_not_end_says_what_is_held() -> None:
    """There is a bound, and what was held then stands in the failure."""

    async def waits(stage: Stage) -> Report:
        async with streaming(stage):
            await asyncio.Event().wait()
        return report()

    with pytest.raises(TimeoutError, match=r"within 4 s: it ends; still held: .*roost serve"):
        await on_stage(waits, 4)
