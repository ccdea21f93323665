"""SHELL: `python -m roost.bench.conversations`: what named conversations cost the gateway.

Bytes of memory for an idle one, time of a turn in the registry with few and with many of them, and
how long a turn waits until it is on disk, alone and among others that end at the same time.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from queue import Queue
from statistics import median

import msgspec

from roost.core.conversation import SaidTurn
from roost.core.ids import ConversationKey, ModelId, NodeId, RequestId, TenantId
from roost.core.pin import Pin
from roost.fleet.conversations import Conversations, ConversationSettings, conversation_key
from roost.store.home import Home
from roost.store.journal import Journal, JournalSettings, Shelves
from roost.store.transcripts import open_disk

TENANT = TenantId("key:bench")
ANSWER = "word " * 200
FEW = 100
BAR_BYTES = 2048


class Figures(msgspec.Struct, frozen=True):
    """Bytes for one that is idle, µs for a turn among few and among many, ms until on disk.

    `alone_ms` and `among_ms` are medians of single turns and of turns of which `together` end at
    once; `among_p99_ms` is how long the slowest of those wait.
    """

    idle_bytes: float
    few_us: float
    many_us: float
    alone_ms: float
    among_ms: float
    among_p99_ms: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; status 1 if an idle conversation takes more than it may."""
    parser = argparse.ArgumentParser("roost.bench.conversations", description=__doc__)
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=300, help="turns written to disk")
    parser.add_argument("--together", type=int, default=50, help="turns that end at once")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options.conversations, options.turns, options.together)
    for name, value in msgspec.structs.asdict(figures).items():
        sys.stdout.write(f"{name:14} {value:10.2f}\n")
    return 1 if figures.idle_bytes > BAR_BYTES else 0


def measure(folder: Path, conversations: int, turns: int, together: int) -> Figures:
    """Take all figures; files are written under `folder`."""
    idle_bytes = _idle_bytes(conversations)
    few_us, many_us = _turn_us(FEW), _turn_us(conversations)
    journal = Journal(open_disk(Home.open(folder / "home"), 2**30), JournalSettings())
    alone = _commits(journal, turns, 1)
    among = sorted(_commits(journal, turns, together))
    journal.close()
    p99 = among[int(0.99 * (len(among) - 1))]
    return Figures(idle_bytes, few_us, many_us, median(alone), median(among), p99)


def _filled(count: int) -> Conversations:
    talks = Conversations(ConversationSettings(most=count))
    for number in range(count):
        _turn(talks, number, f"r{number}")
    return talks


def _turn(talks: Conversations, number: int, request: str) -> None:
    key = conversation_key(TENANT, f"conversation {number}")
    name = RequestId(request)
    talks.on_turn(key, name, 1.0)
    talks.on_ended(name, Pin(NodeId(f"node-{number % 64}"), ModelId("m"), number), 1.0)


def _idle_bytes(count: int) -> float:
    gc.collect()
    tracemalloc.start()
    talks = _filled(count)
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert talks.counts().idle == count, "all of them are known"
    return size / count


def _turn_us(count: int) -> float:
    talks = _filled(count)
    times = []
    for number in range(2000):
        began_s = time.perf_counter()
        _turn(talks, number * 7919 % count, f"again {number}")
        times.append(time.perf_counter() - began_s)
    return median(times) * 1e6


def _commits(journal: Journal, turns: int, together: int) -> list[float]:
    """Milliseconds from the end of a turn to the word that it is on disk."""
    waits_ms: list[float] = []
    for first in range(0, turns, together):
        told: Queue[float] = Queue()
        began_s = time.perf_counter()
        for number in range(first, first + together):
            _note(journal, number, told)
        waits_ms += [(told.get() - began_s) * 1e3 for _ in range(together)]
    return waits_ms


def _note(journal: Journal, number: int, told: Queue[float]) -> None:
    key = ConversationKey(conversation_key(TENANT, f"c{number % 20}"))
    pin = Pin(NodeId("n1"), ModelId("m"), number)
    complete = True
    said = SaidTurn(key, TENANT, f"c{number % 20}", pin, "question", ANSWER, complete, number)

    def work(shelves: Shelves) -> object:
        shelves.note(said)
        return None

    journal.submit(work, lambda _: told.put(time.perf_counter()))


if __name__ == "__main__":
    sys.exit(main())
