"""SHELL: child processes that can neither outlive this one nor leave anything behind.

A child runs under `shim`, in a session of its own, with a lifetime pipe whose writing end only
this process holds. Its end is awaited through a pidfd, and its group is killed while the group's
leader is a zombie: until it is reaped, its number cannot belong to anybody else.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from roost.backends.base import LOG_MAX_BYTES, LOGS_KEPT
from roost.config.read import read_environment
from roost.errors import fail

SHIM = str(Path(__file__).with_name("shim.py"))
UNFETCHING = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
"""What libraries read: models are on the disk before anybody is started."""
STDIN_MAX_BYTES = 16 * 1024
TAIL_MAX_BYTES = 16 * 1024
REAP_TIMEOUT_S = 10.0
DEATH_NOTICE_S = 0.5
"""A connection breaks before the kernel tells that the process has ended: wait so long for that."""


class Program(msgspec.Struct, frozen=True):
    """What to run and where its output goes.

    `stdin` is given to it whole, at most `STDIN_MAX_BYTES`: a pipe takes that without waiting, and
    unlike arguments it is nobody else's to read. `env` is what it is told besides the environment
    of this process, which it has because drivers of accelerators are found through variables nobody
    here can list; libraries that could fetch models are told to fetch nothing.
    `log_max_bytes` bounds the log file, and `logs_kept` of those before it are kept. `inherited` is
    a descriptor that the program has under the same number. `memory_max_bytes` of private memory is
    the most that it gets, 0 for all there is; files that it only reads do not count.
    """

    argv: tuple[str, ...]
    log_path: str
    stdin: bytes = b""
    env: Mapping[str, str] = {}
    log_max_bytes: int = LOG_MAX_BYTES
    logs_kept: int = LOGS_KEPT
    inherited: int | None = None
    memory_max_bytes: int = 0


class _Log(NamedTuple):
    """A log, and where it ended before this program wrote to it: in which file, at which byte."""

    path: str
    file: int = 0
    end_bytes: int = 0

    @classmethod
    def at(cls, path: str) -> _Log:
        """Look where this log ends now."""
        try:
            found = Path(path).stat()
        except OSError:
            return cls(path)
        return cls(path, found.st_ino, found.st_size)

    def tail(self) -> str:
        """Read what has been written since, its last part if that is much."""
        try:
            with Path(self.path).open("rb") as log:
                begin = self.end_bytes if os.fstat(log.fileno()).st_ino == self.file else 0
                log.seek(max(begin, log.seek(0, os.SEEK_END) - TAIL_MAX_BYTES))
                return log.read(TAIL_MAX_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""


class Child:
    """A running program; made by `start`."""

    def __init__(self, popen: subprocess.Popen[bytes], lifetime_fd: int, log: _Log) -> None:
        self.died = asyncio.Event()
        self.status: int | None = None
        self._popen = popen
        self._lifetime_fd = lifetime_fd
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._on_death: Callable[[], None] | None = None
        self._watch()

    @property
    def pid(self) -> int:
        """The process group's number: the shim, whose child the program is."""
        return self._popen.pid

    def _watch(self) -> None:
        if hasattr(os, "pidfd_open"):
            pidfd = os.pidfd_open(self.pid)
            self._loop.add_reader(pidfd, self._on_exit, pidfd)
        else:
            # Without pidfd a thread has to wait; it ends with the child.
            threading.Thread(target=self._wait_in_thread, daemon=True).start()

    def _wait_in_thread(self) -> None:
        self._popen.wait()
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._on_exit, None)

    def _on_exit(self, pidfd: int | None) -> None:
        self.kill()
        if pidfd is not None:
            self._loop.remove_reader(pidfd)
            os.close(pidfd)
        self.status = self._popen.wait()
        os.close(self._lifetime_fd)
        self.died.set()
        if self._on_death:
            self._on_death()

    def on_death(self, clean_up: Callable[[], None]) -> None:
        """Have `clean_up` called once it has ended, at once if it has; one caller, no waiting."""
        if self.died.is_set():
            clean_up()
        else:
            self._on_death = clean_up

    def kill(self) -> None:
        """Kill the whole group at once; `died` follows when the kernel says so."""
        if not self.died.is_set():
            # EPERM is what macOS says of a group of zombies.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def terminate(self, grace_s: float) -> None:
        """Ask politely, kill after `grace_s` seconds or on cancellation, and reap; idempotent."""
        try:
            if not self.died.is_set():
                os.kill(self.pid, signal.SIGTERM)
                async with asyncio.timeout(grace_s):
                    await self.died.wait()
        except TimeoutError:
            pass
        finally:
            self.kill()
        await self.reaped()

    async def reaped(self) -> None:
        """Wait until it is gone; raises `runtime_error` when not even the kernel can end it."""
        try:
            async with asyncio.timeout(REAP_TIMEOUT_S):
                await self.died.wait()
        except TimeoutError:
            raise fail("runtime_error", "A runtime's process cannot be killed.") from None

    @property
    def was_killed(self) -> bool:
        """Whether something killed the program alone: a system that is short of memory does so.

        Whoever ends a child here kills its whole group, and then the shim tells no status.
        """
        return self.status == 128 + signal.SIGKILL

    def tail(self, lines: int) -> tuple[str, ...]:
        """Give the last `lines` lines that it has written, for a person who asks why it ended.

        Another run may have written to the same log before; its words are not this one's.
        """
        return tuple(deque(self._log.tail().splitlines(), maxlen=lines))

    def rss_bytes(self) -> int | None:
        """Give the resident memory of the programs under the shim; None where nobody tells."""
        return self._pages(1)

    def mapped_bytes(self) -> int | None:
        """Give how much of that is pages of files."""
        return self._pages(2)

    def _pages(self, column: int) -> int | None:
        try:
            proc = Path("/proc")
            children = (proc / f"{self.pid}/task/{self.pid}/children").read_text().split()
            pages = [(proc / pid / "statm").read_text().split()[column] for pid in children]
        except OSError:
            return None
        return sum(map(int, pages)) * os.sysconf("SC_PAGE_SIZE") if pages else None


async def start(program: Program) -> Child:
    """Start a program; it has been forked when this returns, and may yet fail to run.

    Raises `load_failed` when the operating system refuses.
    """
    if len(program.stdin) > STDIN_MAX_BYTES:
        raise ValueError("stdin is too long to be given at once")
    log = _Log.at(program.log_path)
    reader, writer = os.pipe()
    try:
        popen = _popen(program, reader)
    except OSError as error:
        os.close(writer)
        raise fail("load_failed", f"A process cannot be started: {error.strerror}.") from None
    finally:
        os.close(reader)
    return Child(popen, writer, log)


def _popen(program: Program, lifetime_fd: int) -> subprocess.Popen[bytes]:
    Path(program.log_path).parent.mkdir(parents=True, exist_ok=True)
    shim = (sys.executable, "-S", "-E", "-I", SHIM, str(lifetime_fd), program.log_path)
    limits = tuple(map(str, (program.log_max_bytes, program.logs_kept, program.memory_max_bytes)))
    inherited = () if program.inherited is None else (program.inherited,)
    popen = subprocess.Popen(
        [*shim, *limits, *program.argv],
        stdin=subprocess.PIPE if program.stdin else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**read_environment(), **UNFETCHING, **program.env},
        pass_fds=(lifetime_fd, *inherited),
        start_new_session=True,
    )
    if popen.stdin:
        with contextlib.suppress(BrokenPipeError), popen.stdin as stdin:
            stdin.write(program.stdin)
    return popen
