"""SHELL: the processes of a benchmark: started on a core, waited for, accounted, ended."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from roost.backends.processes.shim import parent_death_call

GATEWAY_CORE, LOAD_CORE = 0, 1
LLAMA_CHILD = b"roost.backends.llama.child"


def pinned(
    command: Sequence[str],
    core: int | None,
    *,
    log: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a command on one core, or any, in a process group that ends with this process.

    `env` is its whole environment, this process's where there is none.
    """
    cores = {core % (os.cpu_count() or 1)} if core is not None else set[int]()
    with log.open("wb") if log is not None else nullcontext(subprocess.PIPE) as out:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            env=env,
            stdout=out,
            stderr=subprocess.STDOUT if log is not None else None,
            start_new_session=True,
            preexec_fn=partial(_prepare, cores, parent_death_call()),  # noqa: PLW1509 - one thread
        )


def _prepare(cores: set[int], die_with_parent: Callable[[], object] | None) -> None:
    """Stay on these cores; where that cannot be said, the figures are only rougher."""
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    if die_with_parent is not None:
        die_with_parent()


def ends_by_term() -> None:
    """Let TERM end this process in order: what it has started ends with it."""
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(128 + signal.SIGTERM))


def first_line(process: subprocess.Popen[bytes], wait_s: float) -> str:
    """Return the first line that a process writes; `TimeoutError` if it writes none in time."""
    assert process.stdout is not None, "started with a log"
    ready, _, _ = select.select([process.stdout], [], [], wait_s)
    line = process.stdout.readline().decode() if ready else ""
    if not line:
        raise TimeoutError("a process of the benchmark did not start")
    return line


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything it has started."""
    for number in (15, 9):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            break
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            continue
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def wait_answering(port: int, key: str, wait_s: float) -> bool:
    """Wait until a chat request through this port is answered with 200."""
    deadline = time.monotonic() + wait_s
    while time.monotonic() < deadline:
        if _answers(port, key):
            return True
        time.sleep(0.1)
    return False


def _answers(port: int, key: str) -> bool:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/v1/chat/completions",
        b'{"model":"stub","messages":[{"role":"user","content":"hello"}]}',
        {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
    )
    try:
        with urllib.request.urlopen(request, timeout=2) as reply:  # noqa: S310
            return bool(reply.status == 200)
    except (OSError, ValueError):
        return False


def cpu_s(pid: int) -> float:
    """Return the CPU seconds that a process, its threads and its living children have used."""
    return sum(_own_cpu_s(p) for p in family(pid))


def _own_cpu_s(pid: int) -> float:
    """Sum the scheduler's nanoseconds over threads; its tick counts are too coarse for a block."""
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(task.read_text().split()[0])
        except (OSError, IndexError):
            continue
    return total / 1e9


def rss_bytes(pid: int) -> int:
    """Return the memory that a process has now; 0 for one that is gone."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text("ascii").split()[1])
    except (OSError, IndexError):
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def family(pid: int) -> list[int]:
    """Return a process and its living descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(word) for word in task.read_text().split()]
        except OSError:
            continue
        found += [p for child in children for p in family(child)]
    return found


def programs(pid: int) -> list[int]:
    """Return the processes below one that run a model of llama.cpp, without their shims."""
    lines = ((member, _command(member)) for member in family(pid))
    return [member for member, line in lines if LLAMA_CHILD in line and b"shim.py" not in line]


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def living(pid: int) -> bool:
    """Whether a process lives; one that has ended may wait for its parent to look at it."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii", "replace")
    except OSError:
        return False
    return stat.rpartition(") ")[2][:1] not in ("", "Z", "X")


def python() -> str:
    """Return the interpreter that runs this."""
    return sys.executable
