"""Looking at processes holds up against their ending, and against what others have started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context

import psutil

from tests.children import called, children, living, runs, seen

SLEEPER = "import time; time.sleep(60)"


@contextmanager
def _sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", SLEEPER]) as child:
        try:
            yield child
        finally:
            child.kill()


def test_what_ends_while_it_is_looked_at_is_left_out() -> None:
    """A process that was listed and is gone when it is asked is no error, nor in the answer."""
    with _sleeper() as child:
        listed = psutil.Process(child.pid)
        assert listed in living()
        assert called(SLEEPER) == [listed]
        assert runs(listed)
    assert seen([psutil.Process(), listed], psutil.Process.name) == [psutil.Process().name()]
    assert not runs(listed)
    assert called(SLEEPER) == []


def test_what_nobody_has_reaped_does_not_run() -> None:
    """A zombie is a child and does nothing."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        zombie = psutil.Process(child.pid)
        assert zombie.status() == psutil.STATUS_ZOMBIE
        assert zombie in children()
        assert zombie not in living()
        assert not runs(zombie)


def test_the_tracker_of_a_pool_is_nobody_s_child() -> None:
    """After a pool of processes has ended, the list is as it was before."""
    before = children()
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(os.getpid).result() != os.getpid()
    assert len(psutil.Process().children()) > len(before)
    assert children() == before
