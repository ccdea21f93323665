"""SHELL: the `roost` processes of a drill: started, listened to, killed; nothing is left behind.

They run under the shim of the runtimes, and so end with this process however that ends.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

import msgspec

from roost.backends.base import LOG_MAX_BYTES, LOGS_KEPT
from roost.backends.processes.child import SHIM
from roost.bench.claims import Check, Report
from roost.bench.drills.tiny_model import NAME, tiny_model
from roost.bench.processes import end
from roost.store.home import Home
from roost.store.models.registry import ModelStore

START_S = 60.0
HELD_S = 10.0
CALLS = 64
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


class Aside(msgspec.Struct, frozen=True):
    """The sessions that a node has put aside, in memory and on disk."""

    ram: int = 0
    disk: int = 0


class Node(msgspec.Struct, frozen=True):
    """One node or server behind a gateway."""

    id: str
    state: str
    in_flight: int
    runtimes: tuple[Runtime, ...] = ()
    sessions: Aside | None = None

    @property
    def holds(self) -> int:
        """Sessions in slots, and those put aside."""
        aside = self.sessions or Aside()
        seated = sum(slot.tokens > 0 for view in self.runtimes for slot in view.slots)
        return seated + aside.ram + aside.disk


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
    """One process under its shim; its output is in a file.

    One that is `foreign` is no roost: nobody asks it how its fleet stands.
    """

    def __init__(self, words: Sequence[str], home: Path, log: Path) -> None:
        self.words = words
        self.home = home
        self.port = 0
        self.foreign = False
        self._log = log
        log.touch()
        reader, self._lifetime_fd = os.pipe()
        shim = (sys.executable, "-S", "-E", "-I", SHIM, str(reader), str(log))
        limits = (str(LOG_MAX_BYTES), str(LOGS_KEPT), "0")
        self.process = subprocess.Popen(
            [*shim, *limits, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(reader,),
            start_new_session=True,
        )
        os.close(reader)

    @property
    def name(self) -> str:
        """What it is, in the words that started it."""
        return f"{self.home.name} ({' '.join(self.words[3:5])})"

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

    async def serves(self) -> int:
        """Wait until it listens and takes work, and return its port."""
        await self.listens()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + START_S
        while not await asyncio.to_thread(_ready, self.port):
            if loop.time() > deadline:
                raise TimeoutError(f"within {START_S:g} s: {self.name} is ready\n{self.output}")
            await asyncio.sleep(0.02)
        return self.port

    def kill(self) -> None:
        """End it as the kernel does when memory is short: at once, without a word."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def end(self) -> None:
        """End it, wait for that, and let go of its lifetime."""
        end(self.process)
        os.close(self._lifetime_fd)

    @property
    def asked(self) -> bool:
        """Whether it lives and can be asked how its fleet stands."""
        return self.port > 0 and not self.foreign and self.process.poll() is None

    async def view(self) -> FleetView:
        """Ask it how its fleet stands."""
        return msgspec.json.decode(await self.get("/roost/v1/fleet"), type=FleetView)

    async def get(self, path: str) -> bytes:
        """GET a path of it."""
        return await asyncio.to_thread(_get, f"http://127.0.0.1:{self.port}{path}")

    async def post(self, path: str) -> bytes:
        """POST to a path of it, without a body."""
        return await asyncio.to_thread(_get, f"http://127.0.0.1:{self.port}{path}", b"")

    async def delete(self, path: str) -> bytes:
        """DELETE a path of it."""
        url = f"http://127.0.0.1:{self.port}{path}"
        return await asyncio.to_thread(_get, url, method="DELETE")

    async def quiet(self, within_s: float = 30.0) -> None:
        """Wait until nothing waits or runs; nodes may have yet to report that slots are free."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_s
        while (view := await self.view()).owed:
            if loop.time() > deadline:
                raise TimeoutError(f"within {within_s:g} s: nothing waits or runs; {view}")
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

    `real` is a model file for llama.cpp, with so many `threads` for each runtime (0: as it likes);
    without it the scripted backend runs a tiny one.
    """

    def __init__(self, real: Path | None = None, threads: int = 0) -> None:
        self.real = real
        self.threads = threads
        self.model = NAME
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name)
        self._file = real or self.path / f"{NAME}.gguf"
        if real is None:
            self._file.write_bytes(tiny_model())
        self._running: list[Running] = []
        self._beside: list[Stage] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        for stage in self._beside:
            stage.__exit__(kind, error, at)
        for running in self._running:
            running.process.send_signal(signal.SIGINT)
        for running in self._running:
            running.end()
        self._folder.cleanup()

    def beside(self) -> Stage:
        """Return another stage, for a second fleet at the same time; it ends with this one."""
        self._beside.append(Stage(self.real, self.threads))
        return self._beside[-1]

    async def held(self, within_s: float) -> dict[str, str]:
        """Wait until nobody holds anything at any gateway, and return who does all the same."""
        found: dict[str, str] = {}
        for stage in self._beside:
            found |= await stage.held(within_s)
        for running in self._running:
            if running.asked and (view := await running.settled(within_s)).held:
                found[running.name] = str(view)
        return found

    def home(self, name: str) -> Path:
        """Return a ROOST_HOME of this name with the model installed."""
        root = self.path / name
        if not root.exists():
            manifest = ModelStore(Home.open(root)).add_file(self._file, link=True)
            self.model = manifest.id
        return root

    def another(self, home: str, name: str) -> str:
        """Install one more model in a home: the same one as a file of its own; return its id.

        `name` has at least four letters, and no two names begin with the same four.
        """
        file = self.path / f"{name}.gguf"
        if not file.exists():
            field = f"general.{name[:4]}".encode()
            file.write_bytes(self._file.read_bytes().replace(b"general.name", field, 1))
        return ModelStore(Home.open(self.home(home))).add_file(file, link=True).id

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

    def foreign(self, command: Sequence[str], port: int) -> Running:
        """Start a program that is no roost, as it is; it listens on this port."""
        running = Running(command, self.path, self.path / f"log-{len(self._running)}")
        running.port, running.foreign = port, True
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
        if self.real:
            return ("--ctx", "2048", "--threads", str(self.threads))
        return ("--backend", "scripted", "--ctx", "32768")


async def on_stage(
    action: Callable[[Stage], Awaitable[Report]],
    bound_s: float,
    real: Path | None = None,
    settle_s: float = HELD_S,
) -> Report:
    """Let something happen on a stage of its own, within a time; nobody may hold anything then.

    What ends a moment later than the drill has `settle_s` for it.
    """
    report, held = await acted(action, bound_s, real, settle_s)
    seen = str(held) if held else "nothing"
    checks = (*report.checks, Check("held by no gateway at the end", not held, seen))
    return msgspec.structs.replace(report, checks=checks)


def many_calls() -> None:
    """Let this loop wait for many blocking calls at once; by itself it does for a few per core."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(CALLS))


async def acted(
    action: Callable[[Stage], Awaitable[Found]],
    bound_s: float,
    real: Path | None = None,
    settle_s: float = HELD_S,
    threads: int = 0,
) -> tuple[Found, dict[str, str]]:
    """Let something happen on a stage of its own; return what came of it and who holds what then.

    `TimeoutError` where it takes longer than `bound_s`.
    """
    with Stage(real, threads) as stage:
        try:
            async with asyncio.timeout(bound_s):
                found = await action(stage)
        except TimeoutError as error:
            what = str(error) or f"within {bound_s:g} s: it ends"
            raise TimeoutError(f"{what}; still held: {await stage.held(0) or 'nothing'}") from error
        return found, await stage.held(settle_s)


def _get(url: str, body: bytes | None = None, method: str | None = None) -> bytes:
    asked = urllib.request.Request(url, body, method=method)  # noqa: S310 - a loopback address
    with urllib.request.urlopen(asked, timeout=10) as reply:  # noqa: S310 - a loopback address
        return bytes(reply.read())


def _ready(port: int) -> bool:
    try:
        return bool(_get(f"http://127.0.0.1:{port}/ready"))
    except urllib.error.HTTPError as refused:
        refused.close()
        return False


async def until(look: Callable[[], Found | None], what: str, within_s: float) -> Found:
    """Look until there is something to be seen."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_s
    while (found := look()) is None:
        if loop.time() > deadline:
            raise TimeoutError(f"within {within_s:g} s: {what}")
        await asyncio.sleep(0.02)
    return found
