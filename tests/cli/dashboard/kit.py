"""VALUE: looks at a fleet that tests are about."""

from __future__ import annotations

import msgspec

from roost.cli.dashboard.feed import (
    Device,
    Feed,
    Fleet,
    Happening,
    Hint,
    Memory,
    Node,
    Observed,
    Offer,
    Queue,
    Row,
    Runtime,
    Slot,
    Tenant,
    Totals,
    Vitals,
)

READY = Runtime(
    "tiny",
    "llama",
    "ready",
    "r1",
    (Slot(busy=True, tokens=300), Slot(tokens=100)),
    ctx=1000,
    vitals=Vitals(0.25, 12.5, 1, ("slow_decode",)),
)
LOADING = Runtime("big", "llama", "loading", "r2", progress=0.4)
GARAGE = Node(
    "n-garage",
    "garage",
    "alive",
    1,
    4,
    models=(Offer("tiny"), Offer("big")),
    runtimes=(READY, LOADING),
    load_1m=0.5,
    memory=Memory((Device("host", 100, 40), Device("cuda", 100, 5, "hard"))),
)
ATTIC = Node("n-attic", "attic", "dead", draining=True, models=(Offer("tiny"),))
STREAMING = Row(
    "4f2a6a10aaaa",
    "tiny",
    "streaming",
    "key:ann",
    "n-garage",
    "answering",
    12.0,
    8.0,
    300,
    212,
    100,
    4.0,
)
WAITING = Row("77aa77aa77aa", "big", "waiting", "key:bob", None, "queued 1/1, about 3 s", 3.0, 3.0)
DONE = Row(
    "000000000000", "tiny", "done", "key:ann", "n-garage", "", 5.0, 60.0, 30, 0, 40, 1.0, 10.0
)
OBSERVED = Observed(
    1_000,
    3700.0,
    "admin",
    Totals(9, 5, 1, 2),
    (STREAMING, WAITING, DONE),
    Queue(1, (Tenant("key:bob", 1, 0, 3.0, 900), Tenant("key:ann", 0, 1)), left_out=3),
    (
        Happening(7, 61_000, 4, "warning", "node_left", {"node": "n-attic", "state": "dead"}),
        Happening(1, 1_000, 1, "info", "node_joined", {"node": "n-attic"}),
    ),
    (Hint("slow_decode", "answers come slowly", "n-garage", "tiny"),),
)
FEED = Feed(OBSERVED, Fleet((GARAGE, ATTIC)))


def with_rows(*rows: Row) -> Feed:
    """Look at the same fleet with other requests."""
    return Feed(msgspec.structs.replace(OBSERVED, requests=rows), FEED.fleet)
