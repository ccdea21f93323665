"""SHELL: `python -m roost.bench.conversations`: what named conversations cost the gateway.

Bytes of memory for an idle one, in the registry alone and in all that a gateway's mind remembers of
its turn, with the coordinator's affinity and receipts; what a turn takes there from its arrival to
its end, with few of them known and with many; and how long a turn waits until it is on disk, alone
and among others that end at the same time.
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterable, Sequence
from pathlib import Path
from queue import Queue
from statistics import median

import msgspec

from roost.core.conversation import SaidTurn
from roost.core.events import Finished, Started, Usage
from roost.core.ids import ConversationKey, ModelId, NodeId, RequestId, RuntimeId, TenantId
from roost.core.pin import Pin
from roost.core.request import Message, Terms
from roost.core.snapshots import ModelOffer, NodeStatus, RuntimeView
from roost.fleet.choice.affinity import chain
from roost.fleet.conversations.registry import Conversations, ConversationSettings, conversation_key
from roost.fleet.coordinator import Coordinator
from roost.fleet.effects import Dispatch
from roost.fleet.settings import FleetSettings
from roost.store.conversations.journal import Journal, JournalSettings, Shelves
from roost.store.conversations.transcripts import open_disk
from roost.store.home import Home

TENANT = TenantId("key:bench")
ANSWER = "word " * 200
FEW = 1000
BAR_BYTES = 2048
BAR_SLOWER = 1.25
NODES, SLOTS, TURNS = 64, 4, 1000
MODEL = ModelId("m")
IDLE_S = 86_400.0
"""Nobody is let go of meanwhile."""


class Figures(msgspec.Struct, frozen=True):
    """Bytes for one that is idle, µs for a turn among few and among many, ms until on disk.

    `registry_bytes` are those of `idle_bytes` that only named conversations take. `slower` is the
    ratio of the two times, which are taken by turns. `alone_ms` and `among_ms` are medians of
    single turns and of turns of which `together` end at once; `among_p99_ms` is how long the
    slowest of those wait.
    """

    registry_bytes: float
    idle_bytes: float
    few_us: float
    many_us: float
    slower: float
    alone_ms: float
    among_ms: float
    among_p99_ms: float


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; status 1 if idle conversations take more than they may, or slow others."""
    parser = argparse.ArgumentParser("roost.bench.conversations", description=__doc__)
    parser.add_argument("--conversations", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=300, help="turns written to disk")
    parser.add_argument("--together", type=int, default=50, help="turns that end at once")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(Path(folder), options.conversations, options.turns, options.together)
    for name, value in msgspec.structs.asdict(figures).items():
        sys.stdout.write(f"{name:14} {value:10.2f}\n")
    return 1 if figures.idle_bytes > BAR_BYTES or figures.slower > BAR_SLOWER else 0


def measure(folder: Path, conversations: int, turns: int, together: int) -> Figures:
    """Take all figures; files are written under `folder`."""
    registry_bytes, idle_bytes = _bytes(conversations)
    few_us, many_us = _turn_us(min(FEW, conversations), conversations)
    journal = Journal(open_disk(Home.open(folder / "home"), 2**30), JournalSettings())
    alone = _commits(journal, turns, 1)
    among = sorted(_commits(journal, turns, together))
    journal.close()
    p99 = among[int(0.99 * (len(among) - 1))]
    slower = many_us / few_us
    waits = median(alone), median(among), p99
    return Figures(registry_bytes, idle_bytes, few_us, many_us, slower, *waits)


class Gateway:
    """What a gateway's mind is made of, with nodes that answer at once."""

    def __init__(self, conversations: int) -> None:
        self.talks = Conversations(ConversationSettings(most=conversations, idle_ttl_s=IDLE_S))
        # A turn leaves two entries, of the history that it brought and of that with its answer;
        # receipts are one for ten, as they are by default for 100,000.
        settings = FleetSettings(
            replicas=1,
            affinity_entries=2 * conversations,
            affinity_ttl_s=IDLE_S,
            receipts_entries=max(1, conversations // 10),
        )
        self._machine = Coordinator(settings, random.Random(2))
        self._now = 100.0
        self._count = self._reports = 0
        for number in range(NODES):
            node = NodeId(f"node-{number}")
            self._machine.on_node_joined(node, node, "1", self._now)
            self._report(node)

    def turns(self, numbers: Iterable[int]) -> list[float]:
        """Take a turn in each of these conversations, and give the seconds of each.

        Between them nodes report, as they do in life, each in less than a second.
        """
        took = []
        for number in numbers:
            self._now += 0.01
            self._count += 1
            self._report(NodeId(f"node-{self._count % NODES}"))
            began_s = time.perf_counter()
            self._turn(number, RequestId(f"{self._count:032x}"))
            took.append(time.perf_counter() - began_s)
        return took

    def _report(self, node: NodeId) -> None:
        self._reports += 1
        view = RuntimeView(MODEL, "none", "ready", RuntimeId(f"{node}#1"), ctx=4096)
        status = NodeStatus((ModelOffer(MODEL, SLOTS, 4096),), (view,), 0, SLOTS)
        self._machine.on_node_status(node, self._reports, status, self._now)

    def _turn(self, number: int, request: RequestId) -> None:
        machine, now = self._machine, self._now
        key = conversation_key(TENANT, f"conversation {number}")
        self.talks.on_turn(key, request, now)
        pin = self.talks.pin(key)
        history = chain(TENANT, MODEL, (Message("user", f"hello, this is {number}"),))
        terms = Terms(request, TENANT, history, prompt_bytes=4000, max_tokens=200, pin=pin)
        effects = machine.on_request(terms, MODEL, now)
        (node,) = [effect.node for effect in effects if isinstance(effect, Dispatch)]
        machine.on_started(request, 1, Started(1000, 0 if pin is None else 900, 0), now)
        machine.on_first_token(request, 1, now)
        machine.on_finished(request, 1, Finished("stop", Usage(1000, 500, 100)), "yes", now)
        machine.on_released(request, 1, now)
        machine.on_departed(request, "complete")
        self.talks.on_ended(request, Pin(node, MODEL, 1100), now)


def _bytes(count: int) -> tuple[float, float]:
    """Give what one more idle conversation takes: in the registry alone, and in everything."""
    gateway = Gateway(count)
    gc.collect()
    tracemalloc.start()
    gateway.turns(range(count))
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    assert gateway.talks.counts().idle == count, "all of them are known"
    gateway.talks = Conversations(ConversationSettings())
    gc.collect()
    without, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (size - without) / count, size / count


def _turn_us(few: int, many: int) -> tuple[float, float]:
    """Give the medians of a turn among few and among many, taken by turns."""
    among_few, among_many = Gateway(few), Gateway(many)
    # As many turns for both: a fleet that has yet to learn its nodes' pace decides otherwise.
    among_few.turns(number % few for number in range(many))
    among_many.turns(range(many))
    took_few: list[float] = []
    took_many: list[float] = []
    for number in range(TURNS):
        took_few += among_few.turns([number % few])
        took_many += among_many.turns([number * 7919 % many])
    return median(took_few) * 1e6, median(took_many) * 1e6


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
