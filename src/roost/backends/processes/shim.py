"""SHELL: runs one program, bounds its log, and ends it when the process that wanted it is gone.

    python -S -E -I shim.py LIFETIME_FD LOG_PATH LOG_MAX_BYTES LOGS_KEPT MEMORY_MAX_BYTES PROGRAM …

The other end of the pipe LIFETIME_FD is held by the parent alone, so the kernel closes it however
the parent ends, kill -9 included; then the whole process group is killed. Foreign programs cannot
be asked to watch a pipe, hence this one, which starts in 20 ms on the standard library alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import sys
from collections.abc import Callable

READ_BYTES = 65536
NOT_FOUND = 127
PR_SET_PDEATHSIG = 1
FORWARDED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Log:
    """A file of at most `max_bytes`; the `kept` full ones before it are `.1`, `.2` and so on."""

    def __init__(self, path: str, max_bytes: int, kept: int) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._kept = kept
        self._fd = self._open()
        self._size = os.fstat(self._fd).st_size

    def _open(self) -> int:
        return os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def write(self, data: bytes) -> None:
        """Append; a disk that is full loses the line and never the program."""
        with contextlib.suppress(OSError):
            if self._size + len(data) > self._max_bytes and self._size:
                self._begin_anew()
            self._size += os.write(self._fd, data)

    def close(self) -> None:
        """Write nothing more."""
        os.close(self._fd)

    def _begin_anew(self) -> None:
        names = [self._path, *(f"{self._path}.{number}" for number in range(1, self._kept + 1))]
        if self._kept == 0:
            os.unlink(self._path)  # noqa: PTH108 - pathlib doubles the start
        for number in range(self._kept, 0, -1):
            # The older ones may be missing: somebody has cleared up, or they never were.
            with contextlib.suppress(FileNotFoundError):
                os.replace(names[number - 1], names[number])  # noqa: PTH105 - see above
        os.close(self._fd)
        self._fd, self._size = self._open(), 0


def parent_death_call() -> Callable[[], object] | None:
    """Give the call that makes the kernel kill the caller with its parent, where there is one.

    It fires when the thread that forked ends; this process has one thread, so that is its own end.
    """
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def limit_memory(max_bytes: int) -> None:
    """Let this process and what it becomes write to so much memory and no more; 0 is no limit.

    Private memory, and not addresses: weights that are mapped from a file and only read are shared
    with the page cache, and libraries reserve far more addresses than they ever touch.
    """
    if max_bytes:
        # macOS has the constant and refuses some values; a limit is better than no runtime.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_DATA, (max_bytes, max_bytes))


def _spawn(argv: list[str], output: int, memory_max_bytes: int) -> int:
    die_with_parent = parent_death_call()
    pid = os.fork()
    if pid:
        return pid
    try:
        for number in (*FORWARDED, signal.SIGCHLD, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(output, 1)
        os.dup2(output, 2)
        if die_with_parent:
            die_with_parent()
        limit_memory(memory_max_bytes)
        os.execvp(argv[0], argv)  # noqa: S606 - the command is our own list, no shell reads it
    except OSError as error:
        os.write(2, f"the program cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(NOT_FOUND)


def _watch_signals() -> int:
    """Turn signals into bytes on a pipe, so that one `select` waits for everything."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    for number in (*FORWARDED, signal.SIGCHLD):
        signal.signal(number, lambda _number, _frame: None)
    return reader


def _drain(output: int, log: Log) -> None:
    """Take what is left in the pipe; a grandchild may still hold it, so never wait for its end."""
    os.set_blocking(output, False)
    with contextlib.suppress(BlockingIOError):
        while data := os.read(output, READ_BYTES):
            log.write(data)


def _on_signals(numbers: bytes, pid: int) -> int | None:
    """Forward what was sent to end the program; return its exit status once it has ended."""
    for number in numbers:
        if number in FORWARDED:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    done, status = os.waitpid(pid, os.WNOHANG)
    if not done:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def watch(lifetime: int, argv: list[str], log: Log, memory_max_bytes: int = 0) -> int:
    """Run the program to its end and return its exit status, 128 + N when signal N ended it."""
    os.set_inheritable(lifetime, False)  # noqa: FBT003 - it takes no keyword
    signals = _watch_signals()
    output, output_writer = os.pipe()
    pid = _spawn(argv, output_writer, memory_max_bytes)
    os.close(output_writer)
    waiting = [lifetime, signals, output]
    while True:
        ready, _, _ = select.select(waiting, [], [])
        if lifetime in ready and not os.read(lifetime, 1):
            os.killpg(0, signal.SIGKILL)
        if output in ready:
            if data := os.read(output, READ_BYTES):
                log.write(data)
            else:
                waiting.remove(output)
        if signals in ready:
            status = _on_signals(os.read(signals, 512), pid)
            if status is not None:
                _drain(output, log)
                return status


if __name__ == "__main__":
    written = Log(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    sys.exit(watch(int(sys.argv[1]), sys.argv[6:], written, int(sys.argv[5])))
