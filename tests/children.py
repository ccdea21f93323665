"""VALUE: looking at processes that may end while they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

import psutil

S = TypeVar("S")
T = TypeVar("T")


def seen(processes: Iterable[S], read: Callable[[S], T]) -> list[T]:
    """Read something of each process, or of each process id; what has ended is left out."""
    found = []
    for process in processes:
        try:
            found.append(read(process))
        except psutil.NoSuchProcess:
            continue
    return found


def runs(process: psutil.Process) -> bool:
    """Whether it still does anything: it exists, and is more than an entry that nobody reaped."""
    return seen([process], lambda one: one.status() != psutil.STATUS_ZOMBIE) == [True]


def living(*, recursive: bool = False) -> list[psutil.Process]:
    """List the children of this process (and theirs) that run."""
    return [child for child in psutil.Process().children(recursive=recursive) if runs(child)]


def called(name: str) -> list[psutil.Process]:
    """List the descendants of this process that run and have this text in their command line."""
    told = seen(living(recursive=True), lambda one: (one, " ".join(one.cmdline())))
    return [process for process, line in told if name in line]
