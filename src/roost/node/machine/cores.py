"""DECIDER: how many threads a runtime has here, and whether they stay on cores of their own.

Threads that compute one token together meet some hundred times for it. Where every core has one of
them, a system that moves them can only put two on one core.
"""

from __future__ import annotations

from roost.core.machine import Cores, Processor

ID_MAX = 511
"""llama.cpp knows no core beyond."""


def cores_to_stay_on(processor: Processor, cores: Cores) -> tuple[int, ...]:
    """Give the numbers of all cores, for runtimes that have a thread for each; () for none.

    Not where the system has something to choose: two numbers for one core, cores of two kinds, or
    the time of fewer cores than there are.
    """
    ids = cores.ids
    stays = processor.threads == processor.physical == len(ids) > 1
    return ids if stays and cores.alike and ids[-1] <= ID_MAX else ()


def threads_where_open(processor: Processor) -> int:
    """Say how many threads a runtime has that was told no number; 0 leaves it to its library.

    Libraries count the cores of the machine, also in a container that has the time of two of them:
    then all threads wait while the container is held back, at each of some hundred meetings.
    """
    whole = processor.cores if processor.quota is None else min(processor.cores, processor.quota)
    return processor.threads if min(whole, processor.usable) < processor.cores else 0
