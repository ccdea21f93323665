"""SHELL: `roost` as a person runs it: processes, their addresses, and how they end."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import psutil

from tests.patience import PATIENCE_S

# An address of this machine alone, written so that roost does not take it for one: what is said
# beyond loopback is said here, and no other machine can hear it.
BEYOND = "0x7f.0.0.1"
ENDS_S = 20.0
"""For who has nothing left to do and ends at once; what waits for its grace ends after that."""
LISTENS = re.compile(r"roost listens on (http\S+?)(?:[;\s]|$)")


class Roost:
    """One `roost` process; its output is kept, and nothing of it is left after `close`."""

    def __init__(self, log: Path, *arguments: str, home: Path) -> None:
        self._log = log
        self._file = log.open("wb")
        environ = {k: v for k, v in os.environ.items() if not k.startswith("ROOST_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "roost", *arguments, "--home", str(home)],
            stdout=self._file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # Nobody measures how fast a machine is while tests run on it.
            env={"ROOST_STEP_BUDGET_MS": "0", **environ, "PYTHONUNBUFFERED": "1"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def output_path(self) -> Path:
        """Where its output is kept."""
        return self._log

    @property
    def output(self) -> str:
        """Everything it has said."""
        return self._log.read_text("utf-8", "replace")

    def url(self) -> str:
        """Wait until it listens, and say where."""
        found = self.wait_for(LISTENS)
        return found[1]

    def wait_for(
        self, pattern: str | re.Pattern[str], within_s: float = PATIENCE_S
    ) -> re.Match[str]:
        """Wait until its output has this."""
        deadline = time.monotonic() + within_s
        while (found := re.search(pattern, self.output)) is None:
            assert self.process.poll() is None, f"it has ended:\n{self.output}"
            assert time.monotonic() < deadline, f"no {pattern!r} in:\n{self.output}"
            time.sleep(0.02)
        return found

    def descendants(self) -> list[psutil.Process]:
        """List its children and theirs."""
        return list(psutil.Process(self.process.pid).children(recursive=True))

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, and it alone."""
        self.process.send_signal(number)

    def ends(self, within_s: float = PATIENCE_S) -> int:
        """Wait for its end and return its exit code."""
        return self.process.wait(within_s)

    def close(self) -> None:
        """End it however it stands."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self._file.close()


def fetch(url: str, path: str) -> bytes:
    """GET a path of a running `roost` and return the body of a 200."""
    status, body = get(url, path)
    assert status == 200, body
    return body


def is_ready(url: str) -> bool:
    """Whether a running `roost` says that it can serve: it listens before that."""
    return get(url, "/ready")[0] == 200


def get(url: str, path: str, key: str = "") -> tuple[int, bytes]:
    """GET a path of a running `roost`; return status and body."""
    parts = urlsplit(url)
    with closing(
        HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE_S)
    ) as connection:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        connection.request("GET", path, headers=headers)
        reply = connection.getresponse()
        return reply.status, reply.read()


def send(url: str, path: str, body: object, *, within_s: float = PATIENCE_S) -> tuple[int, bytes]:
    """POST JSON to a running `roost`; return status and body."""
    parts = urlsplit(url)
    with closing(HTTPConnection(parts.hostname or "", parts.port, timeout=within_s)) as connection:
        connection.request("POST", path, json.dumps(body))
        reply = connection.getresponse()
        return reply.status, reply.read()


def wait(condition: Callable[[], bool], what: str, within_s: float = PATIENCE_S) -> None:
    """Wait until something about processes holds."""
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def gone(processes: list[psutil.Process], within_s: float = PATIENCE_S) -> bool:
    """Whether all of these have ended within the time."""
    _, alive = psutil.wait_procs(processes, within_s)
    return not alive
