"""Children are started, watched, ended and reaped, and never outlive who wanted them."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import pytest

from roost.backends.processes.child import STDIN_MAX_BYTES, Child, Program, start
from roost.errors import RoostError
from tests.children import runs, seen, settled_descriptors
from tests.conftest import Eventually

PARENT = """
import asyncio, sys
from roost.backends.processes.child import Program, start
async def main():
    child = await start(Program((sys.executable, "-c", sys.argv[1]), sys.argv[2]))
    print(child.pid, flush=True)
    await child.died.wait()
asyncio.run(main())
"""
WAIT = r"print('up\n', end='', flush=True); time.sleep(60)"
"""In one write, unbuffered or not: half a line is seen too, and the other half finds no reader."""
STUBBORN = f"import signal,time; signal.signal(15, signal.SIG_IGN); {WAIT}"
POLITE = f"import signal,sys,time; signal.signal(15, lambda *_: sys.exit(7)); {WAIT}"
LEAVING = f"""import subprocess,sys
p = subprocess.Popen([sys.executable, '-c', {STUBBORN!r}], stdout=subprocess.DEVNULL)"""


def python(
    code: str, log: Path, *, stdin: bytes = b"", log_max_bytes: int = 65536, kept: int = 1
) -> Program:
    """Give a program that runs `code`."""
    return Program((sys.executable, "-S", "-c", code), str(log), stdin, {}, log_max_bytes, kept)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Give a place for a log in a folder that does not exist yet."""
    return tmp_path / "logs" / "child.log"


async def up(child: Child, eventually: Eventually, word: str = "up") -> None:
    """Wait until the program has said `word`."""
    await eventually(lambda: word in child.tail(1))


async def test_output_and_status_are_kept(log: Path) -> None:
    """A program that ends by itself sets `died`, its status and its log, which only we may read."""
    child = await start(python("import sys; print('a'); print('b'); sys.exit(3)", log))
    await child.died.wait()
    assert child.status == 3
    assert child.tail(1) == ("b",)
    assert child.tail(9) == ("a", "b")
    assert _mode(log) == 0o600


async def test_clean_up_follows_death(log: Path) -> None:
    """What is to be done after the end is done after it, and at once where it has come."""
    done: list[int | None] = []
    child = await start(python("import sys; sys.exit(3)", log))
    child.on_death(lambda: done.append(child.status))
    await child.died.wait()
    assert done == [3]
    child.on_death(lambda: done.append(None))
    assert done == [3, None]


async def test_stdin_is_given_whole(log: Path) -> None:
    """What is given on stdin arrives, followed by its end."""
    child = await start(python("print(len(input()))", log, stdin=b"x" * 9000))
    await child.died.wait()
    assert child.tail(1) == ("9000",)


async def test_too_long_stdin_is_refused(log: Path) -> None:
    """Input that might make the parent wait is a mistake of the caller's."""
    with pytest.raises(ValueError, match="too long"):
        await start(python("", log, stdin=b"x" * (STDIN_MAX_BYTES + 1)))


async def test_memory_is_limited_for_the_program_alone(log: Path) -> None:
    """More than it may write to is refused to the program; who reads files has no limit."""
    code = "b = bytearray(96 << 20)"
    allowed = (64 << 20, "MemoryError"), (0, "")
    for memory_max_bytes, last in allowed:
        limited = msgspec.structs.replace(python(code, log), memory_max_bytes=memory_max_bytes)
        child = await start(limited)
        await child.died.wait()
        assert child.status == (1 if last else 0)
        assert not last or child.tail(1) == (last,)


async def test_a_descriptor_is_inherited(log: Path) -> None:
    """The program has it under its own number, and it ends with the program."""
    reader, writer = os.pipe()
    code = "import os, sys; os.write(int(sys.argv[1]), b'here')"
    argv = (sys.executable, "-S", "-c", code, str(writer))
    child = await start(Program(argv, str(log), inherited=writer))
    os.close(writer)
    await child.died.wait()
    assert os.read(reader, 9) == b"here"
    assert os.read(reader, 9) == b""
    os.close(reader)


async def test_words_of_the_run_before_are_not_its_own(log: Path) -> None:
    """The next program writes to the same log, and its tail begins where it began."""
    for word in ("out of memory", "fine"):
        child = await start(python(f"print({word!r})", log))
        await child.died.wait()
        assert child.tail(9) == (word,)


async def test_missing_program_says_so(log: Path) -> None:
    """A program that does not exist ends with 127 and a sentence in the log."""
    child = await start(Program(("/nonexistent/program",), str(log)))
    await child.died.wait()
    assert child.status == 127
    assert child.tail(1) == ("the program cannot be started: No such file or directory",)


async def test_log_that_cannot_be_opened_ends_the_child(tmp_path: Path) -> None:
    """Where no log can be written the child ends, and there is no tail."""
    child = await start(python("", tmp_path))
    await child.died.wait()
    assert child.status == 1
    assert child.tail(3) == ()


async def test_no_process_for_a_place_that_cannot_be(tmp_path: Path) -> None:
    """A log folder that cannot be made is a failed load, and no descriptor is left."""
    (tmp_path / "file").write_text("")
    before = settled_descriptors()
    with pytest.raises(RoostError, match="cannot be started"):
        await start(python("", tmp_path / "file" / "x" / "child.log"))
    assert psutil.Process().num_fds() == before


async def test_term_is_forwarded(log: Path, eventually: Eventually) -> None:
    """A polite end is the program's own: it gets one TERM and chooses its status."""
    child = await start(python(POLITE, log))
    await up(child, eventually)
    await child.terminate(60.0)
    assert child.status == 7


async def test_the_signal_that_ended_it_is_told(log: Path, eventually: Eventually) -> None:
    """A program ended by a signal has 128 + its number as status, as in a shell."""
    child = await start(python(f"import time; {WAIT}", log))
    await up(child, eventually)
    await child.terminate(60.0)
    assert child.status == 128 + signal.SIGTERM


async def test_stubborn_program_is_killed_with_its_group(log: Path, eventually: Eventually) -> None:
    """What ignores TERM is killed after the grace, with everything it has started."""
    code = (
        f"import subprocess,sys; subprocess.Popen([sys.executable, '-c', {STUBBORN!r}]); {STUBBORN}"
    )
    child = await start(python(code, log))
    await eventually(lambda: child.tail(2) == ("up", "up"))
    family = psutil.Process(child.pid).children(recursive=True)
    assert len(family) == 2
    await child.terminate(0.05)
    assert child.status == -signal.SIGKILL
    await eventually(lambda: not any(map(runs, family)))


async def test_terminate_is_idempotent_and_cancellable(log: Path, eventually: Eventually) -> None:
    """A cancelled terminate kills at once, and further ones return."""
    child = await start(python(STUBBORN, log))
    await up(child, eventually)
    async with asyncio.TaskGroup() as tasks:
        polite = tasks.create_task(child.terminate(60.0))
        await asyncio.sleep(0)
        polite.cancel()
    await child.reaped()
    await asyncio.gather(child.terminate(1.0), child.terminate(1.0))
    assert child.status == -signal.SIGKILL


async def test_grandchildren_of_a_program_that_ended_are_swept(
    log: Path, eventually: Eventually
) -> None:
    """A program that ends and leaves a process behind does not leave it for long."""
    child = await start(python(f"{LEAVING}; print(p.pid)", log))
    await child.died.wait()
    assert child.status == 0
    (pid,) = child.tail(1)
    await eventually(lambda: not _pid_runs(int(pid)))


async def test_an_ordinary_end_kills_no_stranger(log: Path, eventually: Eventually) -> None:
    """Neighbours, and what has left the group, live on: through the end, and all calls after it."""
    # It has nothing left to write when it is seen: its output ends with the program that it left.
    said = r"import os; os.write(1, b'%d\n' % os.getpid())"
    stays = f"import signal,time; signal.signal(15, signal.SIG_IGN); {said}; time.sleep(60)"
    leaving = f"subprocess.Popen([sys.executable, '-c', {stays!r}], start_new_session=True)"
    code = f"import subprocess,sys,time; {leaving}; time.sleep(60)"
    with _spawned([sys.executable, "-S", "-c", "import time; time.sleep(60)"]) as neighbour:
        child = await start(python(code, log))
        await eventually(lambda: child.tail(1) != ())
        stranger = psutil.Process(int(child.tail(1)[0]))
        await child.terminate(5.0)
        child.kill()
        await child.terminate(0.0)
        assert runs(stranger)
        assert neighbour.poll() is None
        stranger.kill()
        neighbour.kill()


async def test_program_dies_with_its_shim(log: Path, eventually: Eventually) -> None:
    """Killing the shim alone leaves no program either."""
    child = await start(python(STUBBORN, log))
    await up(child, eventually)
    (program,) = psutil.Process(child.pid).children()
    os.kill(child.pid, signal.SIGKILL)
    await child.reaped()
    await eventually(lambda: not runs(program))


@pytest.mark.slow
async def test_no_orphan_after_kill_9_of_the_parent(log: Path, eventually: Eventually) -> None:
    """When the parent is killed with -9, program and shim are gone within moments."""
    argv = [sys.executable, "-c", PARENT, STUBBORN, str(log)]
    with _spawned(argv) as parent:
        assert parent.stdout
        group = int(parent.stdout.readline())
        await eventually(lambda: log.exists() and "up" in log.read_text())
        family = [psutil.Process(group), *psutil.Process(group).children(recursive=True)]
        assert len(family) == 2
        parent.kill()
    await eventually(lambda: not any(map(runs, family)))


async def test_log_is_bounded(log: Path) -> None:
    """A chatty program fills two files of the limit and no more; the newest lines survive."""
    code = "for n in range(5000): print(n, 'x' * 60)"
    child = await start(python(code, log, log_max_bytes=20_000))
    await child.died.wait()
    sizes = [p.stat().st_size for p in log.parent.iterdir()]
    # One read may be longer than the limit; the file holds that read and nothing else then.
    assert len(sizes) == 2
    assert sum(sizes) <= 2 * 65536
    assert child.tail(1)[0].startswith("4999 ")


@pytest.mark.slow
async def test_nothing_is_left_after_twenty_starts(log: Path) -> None:
    """Descriptors, children and zombies are back at the baseline after twenty lives."""
    me = psutil.Process()
    before = settled_descriptors(), len(me.children(recursive=True))
    for _ in range(20):
        child = await start(python("import time; time.sleep(60)", log, stdin=b"x"))
        await child.terminate(5.0)
    assert (me.num_fds(), len(me.children(recursive=True))) == before


def _pid_runs(pid: int) -> bool:
    return seen([pid], lambda one: runs(psutil.Process(one))) == [True]


def _mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def _spawned(argv: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)


@pytest.mark.parametrize("kept", [0, 2])
async def test_as_many_full_logs_are_kept_as_told(log: Path, kept: int) -> None:
    """They are numbered from the newest, and each goes on where the one before it ended."""
    code = "for n in range(5000): print(f'{n:06}', 'x' * 60, flush=n % 100 == 0)"
    child = await start(python(code, log, log_max_bytes=20_000, kept=kept))
    await child.died.wait()
    names = [log.name, *(f"{log.name}.{number}" for number in range(1, kept + 1))]
    assert sorted(path.name for path in log.parent.iterdir()) == names
    lines = b"".join((log.parent / name).read_bytes() for name in reversed(names)).splitlines()
    numbers = [int(line.split()[0]) for line in lines[1:]]
    assert numbers == list(range(numbers[0], 5000))


async def test_libraries_are_told_to_fetch_nothing(log: Path) -> None:
    """Whatever else they are told, and beside what the environment of this process has."""
    code = (
        "import os; print(*map(os.environ.get, ('HF_HUB_OFFLINE', 'MORE')), 'PATH' in os.environ)"
    )
    for env, told in (({}, "1 None True"), ({"MORE": "x"}, "1 x True")):
        child = await start(msgspec.structs.replace(python(code, log), env=env))
        await child.died.wait()
        assert child.tail(1) == (told,)
