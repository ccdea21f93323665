"""VALUE: the shapes of load, and what one block of it has measured."""

from __future__ import annotations

import msgspec

EVENTS = 64
GAP_US = 250


class Load(msgspec.Struct, frozen=True):
    """A closed loop of `connections`; events come `GAP_US` apart or as fast as they can be written.

    `json` asks for 1 KiB at once instead of a stream. `quick` loads are part of the short run too.
    With `per_s` it is an open loop: so many requests are begun each second, whatever became of
    those before, and latencies count from when they were due.
    """

    name: str
    connections: int
    paced: bool
    json: bool = False
    quick: bool = True
    per_s: float = 0.0


ONE, MANY, STEADY = "stream, paced, c=1", "stream, paced, c=16", "stream, paced, 100/s"

LOADS = (
    Load(ONE, 1, paced=True),
    Load(MANY, 16, paced=True),
    Load(STEADY, 0, paced=True, per_s=100.0),
    Load("stream, flat out, c=1", 1, paced=False, quick=False),
    Load("stream, flat out, c=16", 16, paced=False),
    Load("json 1 KiB, c=1", 1, paced=False, json=True, quick=False),
    Load("json 1 KiB, c=16", 16, paced=False, json=True),
)


class Counted(msgspec.Struct, frozen=True):
    """What the load generator prints; latencies in microseconds."""

    requests: int
    failures: int
    events: int
    seconds: float
    client_cpu_s: float
    first_p50_us: float
    first_p99_us: float
    total_p50_us: float
    total_p99_us: float


class Block(msgspec.Struct, frozen=True):
    """One block: `cpu_ms` per request of the gateway, and the fixed loop just before it."""

    variant: str
    load: str
    counted: Counted
    cpu_ms: float
    calibration_ms: float

    @property
    def requests_per_s(self) -> float:
        """Answers in a second."""
        return self.counted.requests / self.counted.seconds

    @property
    def events_per_s(self) -> float:
        """Events in a second, the final one included."""
        return self.counted.events / self.counted.seconds
