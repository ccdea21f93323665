"""SHELL: the `roost` processes of a drill: started, listened to, killed; nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from roost.bench.drills.tiny_model import NAME, tiny_model
from roost.bench.processes import end
from roost.store.home import Home
from roost.store.models import ModelStore

START_S = 60.0
LISTENS = r"roost listens on http://127\.0\.0\.1:(\d+)"


Found = TypeVar("Found")


class Counts(msgspec.Struct, frozen=True):
    """What a gateway says of itself, in either mode; 0 where a mode does not count it."""

    waiting: int
    running: int
    leases: int
    in_flight: dict[str, int]
    retried: int = 0
    served: int = 0
    rejected: int = 0
    unavailable: int = 0


class Slot(msgspec.Struct, frozen=True):
    """One slot of a runtime, with the tokens it holds."""

    busy: bool
    tokens: int = 0


class Runtime(msgspec.Struct, frozen=True):
    """One runtime of a node."""

    slots: tuple[Slot, ...] = ()


class Node(msgspec.Struct, frozen=True):
    """One node or server behind a gateway."""

    id: str
    state: str
    in_flight: int
    runtimes: tuple[Runtime, ...] = ()


class FleetView(msgspec.Struct, frozen=True):
    """`/roost/v1/fleet`, as far as drills read it."""

    nodes: tuple[Node, ...]
    statistics: Counts

    @property
    def alive(self) -> set[str]:
        """Names of the nodes that may get work."""
        return {node.id for node in self.nodes if node.state == "alive"}

    @property
    def owed(self) -> int:
        """Requests that wait or run, and leases."""
        return self.statistics.waiting + self.statistics.running + self.statistics.leases

    @property
    def held(self) -> int:
        """Everything that somebody holds: leases, places in the queue, busy slots."""
        busy = sum(slot.busy for n in self.nodes for r in n.runtimes for slot in r.slots)
        in_flight = sum(node.in_flight for node in self.nodes)
        return self.owed + in_flight + busy


class Running:
    """One process; its output is in a file."""

    def __init__(self, words: Sequence[str], home: Path, log: Path) -> None:
        self.words = words
        self.home = home
        self.port = 0
        self._log = log
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """Everything it has said."""
        return self._log.read_text("utf-8", "replace")

    async def says(self, pattern: str) -> re.Match[str]:
        """Wait until its output has this; `RuntimeError` with the output if it ends before."""

        def found() -> re.Match[str] | None:
            ended = self.process.poll() is not None
            seen = re.search(pattern, self.output)
            if seen is None and ended:
                raise RuntimeError(f"a process of the drill has ended:\n{self.output}")
            return seen

        return await until(found, f"a process says {pattern}", START_S)

    async def listens(self) -> int:
        """Wait until it listens and return its port."""
        self.port = int((await self.says(LISTENS))[1])
        return self.port

    def kill(self) -> None:
        """End it as the kernel does when memory is short: at once, without a word."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    async def view(self) -> FleetView:
        """Ask it how its fleet stands."""
        return msgspec.json.decode(await self.get("/roost/v1/fleet"), type=FleetView)

    async def get(self, path: str) -> bytes:
        """GET a path of it."""
        return await asyncio.to_thread(_get, f"http://127.0.0.1:{self.port}{path}")

    async def quiet(self) -> None:
        """Wait until nothing waits or runs; nodes may have yet to report that slots are free."""
        while (await self.view()).owed:  # noqa: ASYNC110 - another process has no event to await
            await asyncio.sleep(0.02)

    async def settled(self, within_s: float = 15.0) -> FleetView:
        """Wait until nobody holds anything there; return the last look in any case."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        view = await self.view()
        while view.held and loop.time() < deadline:
            await asyncio.sleep(0.05)
            view = await self.view()
        return view


class Stage:
    """A folder with homes and logs; every process started on it ends with it.

    `real` is a model file for llama.cpp; without it the scripted backend runs a tiny one.
    """

    def __init__(self, real: Path | None = None) -> None:
        self.real = real
        self.model = NAME
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name)
        self._file = real or self.path / f"{NAME}.gguf"
        if real is None:
            self._file.write_bytes(tiny_model())
        self._running: list[Running] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for running in self._running:
            running.process.send_signal(signal.SIGINT)
        for running in self._running:
            end(running.process)
        self._folder.cleanup()

    def home(self, name: str) -> Path:
        """Return a ROOST_HOME of this name with the model installed."""
        root = self.path / name
        if not root.exists():
            manifest = ModelStore(Home.open(root)).add_file(self._file, link=True)
            self.model = manifest.id
        return root

    def start(self, home: str, *words: str) -> Running:
        """Start `roost` with these words over a home."""
        return self.run([sys.executable, "-u", "-m", "roost", *words], home)

    def run(self, command: Sequence[str], home: str) -> Running:
        """Start a `roost`-like process over a home."""
        root = self.home(home)
        log = self.path / f"log-{len(self._running)}"
        running = Running([*command, "--home", str(root)], root, log)
        self._running.append(running)
        return running

    def serve(self, home: str, *words: str) -> Running:
        """Start `roost serve` on a free port."""
        return self.start(home, "serve", "--port", "0", *self.backend(), *words)

    def serve_all(self, home: str, count: int, flags: Sequence[str]) -> list[Running]:
        """Start several of them at once; they have yet to listen."""
        return [self.serve(f"{home}-{number}", *flags) for number in range(count)]

    def backend(self) -> tuple[str, ...]:
        """Return the flags that choose what runs the model."""
        return ("--ctx", "2048") if self.real else ("--backend", "scripted", "--ctx", "32768")


def _get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=10) as reply:  # noqa: S310 - a loopback address
        return bytes(reply.read())


async def until(look: Callable[[], Found | None], what: str, within_s: float) -> Found:
    """Look until there is something to be seen."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while (found := look()) is None:
        if loop.time() > deadline:
            raise TimeoutError(f"within {within_s:g} s: {what}")
        await asyncio.sleep(0.02)
    return found
