"""What is left of a llama.cpp server when everything above it is killed with -9: nothing."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from roost.core.request import ChatPrompt, GenerateRequest, Message
from tests.backends.subjects import FAKE, MODEL, fake_manifest
from tests.backends.test_llama_server import start
from tests.children import runs, seen
from tests.conftest import Eventually
from tests.source import ROOT

pytestmark = pytest.mark.slow

PARENT = """
import asyncio, sys
from pathlib import Path
from tests.backends.test_llama_kill import chat_once
asyncio.run(chat_once(Path(sys.argv[1])))
"""


async def chat_once(folder: Path) -> None:
    """Start, render a chat, say so and wait: what the parent does that is going to be killed."""
    runtime = await start(folder)
    await runtime.prepare(GenerateRequest(MODEL, ChatPrompt((Message("user", "x"),))))
    sys.stdout.write("up\n")
    sys.stdout.flush()
    await runtime.died.wait()


async def test_kill_9_of_the_parent_leaves_no_process(
    tmp_path: Path, eventually: Eventually
) -> None:
    """When everything above is killed with -9, server, shim and renderer are gone in moments."""
    with _spawned([sys.executable, "-c", PARENT, str(tmp_path)]) as parent:
        assert parent.stdout
        assert parent.stdout.readline() == "up\n"
        family = psutil.Process(parent.pid).children(recursive=True)
        assert len(family) == 3
        parent.kill()
    await eventually(lambda: not any(map(runs, family)))


LOADER = """
import asyncio, sys
from pathlib import Path
from tests.backends.test_llama_kill import load_for_ever
asyncio.run(load_for_ever(Path(sys.argv[1])))
"""


async def load_for_ever(folder: Path) -> None:
    """Start a server that gets nowhere: what the parent does that is going to be killed."""
    await start(folder, fake_manifest(folder, load_s=3600.0))


async def test_kill_9_of_a_parent_that_loads_leaves_no_process(
    tmp_path: Path, eventually: Eventually
) -> None:
    """Nor does a start that stands still, so that nobody can ask it to end."""
    with _spawned([sys.executable, "-c", LOADER, str(tmp_path)]) as parent:
        me = psutil.Process(parent.pid)
        await eventually(lambda: _servers(me) != [])
        (server,) = _servers(me)
        server.suspend()
        family = me.children(recursive=True)
        assert server in family
        parent.kill()
    await eventually(lambda: not any(map(runs, family)))


def _servers(parent: psutil.Process) -> list[psutil.Process]:
    """List what runs of its server: neither what starts it nor what tells its options.

    On its way it is `env`, and where Python is a script that picks a version, a shell with other
    arguments at every step; only what it is at last keeps its command line.
    """
    told = seen(parent.children(recursive=True), lambda one: (one, one.cmdline()))
    return [one for one, line in told if _is_server(line)]


def _is_server(line: list[str]) -> bool:
    match line:
        case [program, script, *options] if script == str(FAKE):
            return Path(program).name.startswith("python") and "--model" in options
    return False


@contextlib.contextmanager
def _spawned(argv: list[str]) -> Iterator[subprocess.Popen[str]]:
    """Start a program, which ends with the test, however that ends."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT) as program:
        try:
            yield program
        finally:
            program.kill()
