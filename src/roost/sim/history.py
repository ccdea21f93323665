"""MACHINE: what happened in a run, as facts for checkers: of requests, of nodes, and at the end.

It records what went over the edges of the machines (effects performed, bytes handed to clients,
work done by engines) and does not ask a machine what it believes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from roost.core.allowance import NO_LIMITS, Allowance
from roost.core.ids import ModelId, NodeId, RequestId
from roost.fleet.conversations.compacting import CompactionSettings
from roost.fleet.conversations.handoffs import HandoffSettings
from roost.sim.booking import Booking
from roost.sim.node_facts import (
    Cells,
    Drain,
    Kept,
    Move,
    Ordered,
    Ownership,
    Residence,
    Run,
    Trouble,
    Weighing,
    Wish,
)
from roost.sim.request_facts import Handed, Repeat, Shortened, Trace

NO_COMPACTION = CompactionSettings(summariser="off")
NO_HANDOFFS = HandoffSettings()


@dataclass(slots=True)
class Rest:
    """What is left of anything once everything has come to rest.

    `on_account` are tokens and places that are still reserved for keys, `handoffs` those that have
    a place.
    """

    waiting: int
    running: int
    leases: int
    opened: int
    released: int
    busy_slots: int
    live_streams: int
    alive: int
    nodes: int
    on_account: int = 0
    handoffs: int = 0


@dataclass(slots=True)
class History:
    """All facts of one run."""

    healed_s: float = 0.0
    probed_s: float | None = None
    ended_s: float = 0.0
    queue_length: int = 0
    queue_wait_s: float = 0.0
    retry_floor: int = 0
    retry_ratio: float = 0.0
    retry_window_s: float = 0.0
    max_decodes: int = 0
    max_decodes_per_node: int = 0
    class_one_in: int = 8
    redispatch_per_node: int = 2
    breaker_open_s: float = 5.0
    breaker_successes: int = 2
    replay_max_tokens: int = 4096
    drops: bool = False
    replicas: int = 0
    want_s: float = 0.0
    kept: frozenset[str] = frozenset()
    residences: list[Residence] = field(default_factory=list)
    orders: list[Ordered] = field(default_factory=list)
    weighings: list[Weighing] = field(default_factory=list)
    idle: dict[tuple[NodeId, ModelId], float] = field(default_factory=dict)
    wishes: list[Wish] = field(default_factory=list)
    traces: dict[RequestId, Trace] = field(default_factory=dict)
    key_ttl_s: float = 0.0
    repeats: list[Repeat] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    aside: list[Kept] = field(default_factory=list)
    owners: list[Ownership] = field(default_factory=list)
    troubles: list[Trouble] = field(default_factory=list)
    drains: list[Drain] = field(default_factory=list)
    cells: list[Cells] = field(default_factory=list)
    queue_peak: int = 0
    faults: list[tuple[NodeId, float]] = field(default_factory=list)
    openings: list[tuple[NodeId, ModelId | None, float]] = field(default_factory=list)
    closings: list[tuple[NodeId, ModelId | None, float]] = field(default_factory=list)
    defects: list[str] = field(default_factory=list)
    compaction: CompactionSettings = NO_COMPACTION
    ctx: int = 0
    shortened: list[Shortened] = field(default_factory=list)
    words: dict[bytes, tuple[str, ...]] = field(default_factory=dict)
    rest: Rest | None = None
    allowance: Allowance = NO_LIMITS
    answer_tokens: int = 0
    bookings: list[Booking] = field(default_factory=list)
    handoffs: HandoffSettings = NO_HANDOFFS
    handed: list[Handed] = field(default_factory=list)
    life: str = ""

    def troubled(self, node: NodeId, since_s: float, until_s: float) -> bool:
        """Whether anything was wrong with this node in this span."""
        return any(
            trouble.node == node
            and trouble.since_s <= until_s
            and (trouble.until_s is None or trouble.until_s >= since_s)
            for trouble in self.troubles
        )

    @property
    def arrivals(self) -> list[float]:
        """When requests arrived, in order."""
        return [trace.arrived_s for trace in self.traces.values()]
