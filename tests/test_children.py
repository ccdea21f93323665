"""Looking at processes holds up against their ending."""

from __future__ import annotations

import os
import subprocess
import sys

import psutil

from tests.children import called, living, runs, seen

SLEEPER = "import time; time.sleep(60)"


def test_what_ends_while_it_is_looked_at_is_left_out() -> None:
    """A process that was listed and is gone when it is asked is no error, nor in the answer."""
    with subprocess.Popen([sys.executable, "-c", SLEEPER]) as child:
        (listed,) = living()
        assert called(SLEEPER) == [listed]
        assert runs(listed)
        child.kill()
        child.wait()
    assert seen([psutil.Process(), listed], psutil.Process.name) == [psutil.Process().name()]
    assert not runs(listed)
    assert called(SLEEPER) == []


def test_what_nobody_has_reaped_does_not_run() -> None:
    """A zombie is listed by the system and does nothing."""
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        zombie = psutil.Process(child.pid)
        assert zombie.status() == psutil.STATUS_ZOMBIE
        assert not runs(zombie)
        assert living() == []
