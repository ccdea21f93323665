"""SHELL: how fast memory is read and written here, as a short measurement.

Decoding one stream reads all weights for every token, so bandwidth bounds it: tokens a second are
at most bandwidth / bytes of weights. A copy reads and writes; its two directions are counted.
"""

from __future__ import annotations

import ctypes
import threading
import time

from roost.core.machine import Bandwidth

BUFFER_MAX_BYTES = 64 * 1024 * 1024
BUFFERS_MAX_BYTES = 1024 * 1024 * 1024
"""Of all threads together, sources and targets."""

COPIES_MAX = 1000


def buffer_bytes(threads: int) -> int:
    """Say how much each of so many threads copies at a time: more than its share of any cache."""
    return min(BUFFER_MAX_BYTES, BUFFERS_MAX_BYTES // (2 * threads))


def measure_bandwidth(threads: int, size_bytes: int, seconds: float = 0.25) -> Bandwidth:
    """Copy `size_bytes` at a time in so many threads for about `seconds`; each takes twice that."""
    copied = [0] * threads
    began_s = [0.0]

    def begin() -> None:
        began_s[0] = time.perf_counter()

    ready = threading.Barrier(threads, action=begin)

    def work(number: int) -> None:
        source, target = (ctypes.create_string_buffer(size_bytes) for _ in range(2))
        # Untouched pages are one page of zeros, for which no memory is read.
        ctypes.memset(source, 1, size_bytes)
        ctypes.memset(target, 1, size_bytes)
        ready.wait()
        for _ in range(COPIES_MAX):
            ctypes.memmove(target, source, size_bytes)
            copied[number] += size_bytes
            if time.perf_counter() >= began_s[0] + seconds:
                break

    workers = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    took_s = time.perf_counter() - began_s[0]
    return Bandwidth(2 * sum(copied) / took_s, threads, size_bytes, took_s)
