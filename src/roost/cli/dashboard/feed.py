"""VALUE: what a gateway tells those who look on, as far as it is shown.

Everything has a default and words are just text: a gateway of another release says more, or less,
and is shown all the same.
"""

from __future__ import annotations

import msgspec


class Slot(msgspec.Struct, frozen=True):
    """A place for one sequence, and the tokens that it holds."""

    busy: bool = False
    tokens: int = 0


class Vitals(msgspec.Struct, frozen=True):
    """How a runtime does, as its node counts."""

    prefill_avg_s: float | None = None
    decode_tokens_per_s: float | None = None
    failures: int = 0
    anomalies: tuple[str, ...] = ()


class Runtime(msgspec.Struct, frozen=True):
    """One model's runtime on a node, or why there is none; `ctx` is tokens for each slot."""

    model: str
    backend: str = ""
    state: str = ""
    runtime: str | None = None
    slots: tuple[Slot, ...] = ()
    ctx: int = 0
    progress: float | None = None
    failure: str | None = None
    idle_s: float | None = None
    pinned: bool = False
    waiting: int = 0
    vitals: Vitals | None = None


class Device(msgspec.Struct, frozen=True):
    """One memory of a node, in bytes."""

    name: str
    capacity_bytes: int | None = None
    available_bytes: int | None = None
    pressure: str = "unknown"


class Memory(msgspec.Struct, frozen=True):
    """A node's memories."""

    devices: tuple[Device, ...] = ()


class Offer(msgspec.Struct, frozen=True):
    """A model that a node could serve."""

    model: str


class Node(msgspec.Struct, frozen=True):
    """One node, with and without a link."""

    id: str
    name: str = ""
    state: str = ""
    in_flight: int = 0
    max_in_flight: int = 0
    draining: bool = False
    models: tuple[Offer, ...] = ()
    runtimes: tuple[Runtime, ...] = ()
    load_1m: float | None = None
    memory: Memory | None = None


class Fleet(msgspec.Struct, frozen=True):
    """Every node that the gateway knows."""

    nodes: tuple[Node, ...] = ()


class Row(msgspec.Struct, frozen=True):
    """One request that runs, or has ended."""

    id: str
    model: str = ""
    state: str = ""
    tenant: str = ""
    node: str | None = None
    doing: str = ""
    elapsed_seconds: float = 0.0
    phase_seconds: float = 0.0
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    first_output_seconds: float | None = None
    decode_tokens_per_second: float | None = None
    cache_miss: str = ""

    @property
    def is_live(self) -> bool:
        """Whether it has not ended."""
        return self.state in ("waiting", "prefill", "streaming")


class Tenant(msgspec.Struct, frozen=True):
    """Who waits and runs."""

    tenant: str
    waiting: int = 0
    running: int = 0
    oldest_seconds: float | None = None
    cost_tokens: int = 0


class Queue(msgspec.Struct, frozen=True):
    """The line in front of the fleet."""

    length: int = 0
    tenants: tuple[Tenant, ...] = ()
    left_out: int = 0


class Happening(msgspec.Struct, frozen=True):
    """Something that has happened."""

    id: int
    at_ms: int = 0
    times: int = 1
    level: str = "info"
    event: str = ""
    facts: dict[str, str | int | float | bool] = {}


class Hint(msgspec.Struct, frozen=True):
    """Something that is odd."""

    kind: str
    text: str = ""
    node: str | None = None
    model: str | None = None
    since_ms: int = 0


class Totals(msgspec.Struct, frozen=True):
    """Counts since the gateway's start."""

    started: int = 0
    completed: int = 0
    errors: int = 0
    cancelled: int = 0
    output_tokens: int = 0


class Observed(msgspec.Struct, frozen=True):
    """What `/roost/v1/observability` has of this."""

    observed_at_ms: int = 0
    uptime_seconds: float = 0.0
    role: str = ""
    totals: Totals = Totals()
    requests: tuple[Row, ...] = ()
    queue: Queue = Queue()
    events: tuple[Happening, ...] = ()
    anomalies: tuple[Hint, ...] = ()


class Feed(msgspec.Struct, frozen=True):
    """One look at a gateway."""

    observed: Observed = Observed()
    fleet: Fleet = Fleet()

    @property
    def tokens_per_s(self) -> float | None:
        """What all runtimes generate, as their nodes count; None where none of them says so."""
        runtimes = (one for node in self.fleet.nodes for one in node.runtimes)
        paces = [one.vitals.decode_tokens_per_s for one in runtimes if one.vitals is not None]
        known = [pace for pace in paces if pace is not None]
        return sum(known) if known else None

    @property
    def counts_requests(self) -> bool:
        """Whether the gateway tells of requests; one in front of other servers does not."""
        return self.observed.observed_at_ms > 0
