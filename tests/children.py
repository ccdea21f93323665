"""VALUE: looking at processes that may end while they are looked at."""

from __future__ import annotations

import gc
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


def children(*, recursive: bool = False) -> list[psutil.Process]:
    """List the children of this process (and theirs), zombies included.

    Without the one that `multiprocessing` starts with its first pool and keeps for good: which
    tests see it depends on their order, and none of them is about it.
    """
    listed = psutil.Process().children(recursive=recursive)
    told = seen(listed, lambda one: (one, " ".join(one.cmdline())))
    trackers = [one for one, line in told if "multiprocessing.resource_tracker" in line]
    return [one for one in listed if one not in trackers]


def living(*, recursive: bool = False) -> list[psutil.Process]:
    """List those of them that run."""
    return [child for child in children(recursive=recursive) if runs(child)]


def called(name: str) -> list[psutil.Process]:
    """List the descendants of this process that run and have this text in their command line."""
    told = seen(living(recursive=True), lambda one: (one, " ".join(one.cmdline())))
    return [process for process, line in told if name in line]


def settled_descriptors() -> int:
    """Count this process's descriptors, for a later look at whether as many are open again.

    A file that an earlier test has left to the collector would be counted here, and be closed at
    any moment up to that look.
    """
    gc.collect()
    return int(psutil.Process().num_fds())
