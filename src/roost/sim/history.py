"""MACHINE: what happened, as facts for checkers: a trace per request, a run per stream on a node.

It records what went over the edges of the machines (effects performed, bytes handed to clients,
work done by engines) and does not ask a machine what it believes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from roost.core.allowance import NO_LIMITS, Allowance
from roost.core.events import Usage
from roost.core.fence import Fence
from roost.core.ids import ModelId, NodeId, RequestId, RuntimeId, SessionId
from roost.errors import Failure
from roost.fleet.conversations.compacting import CompactionSettings
from roost.fleet.effects import Placement
from roost.sim.booking import Booking

NO_COMPACTION = CompactionSettings(summariser="off")
Ending = Literal["complete", "rejected", "broken", "client_gone", "write_timeout", "gateway_lost"]


@dataclass(slots=True)
class Opened:
    """One dispatch: where to, and in which state the node was as far as the gateway could see.

    `held` counts the places taken on that node for that model, this one included, of `limit`.
    `idle_rivals` is how many nodes, this one included, were idle and equal; 0 unless it was a tie.
    `fleet_held` and `node_held` count places of all models, everywhere, and on that node without
    those that wait for a load; `bereaved` how many on that node were hit by a death before and have
    not said anything since; `started` says that it held a slot, `died` that it ended by the death
    of its runtime or node.
    `epoch` is what fences it off from earlier ones of this `life` of the gateway. `resumes_at` is
    after how many tokens it was to go on, `heard` how many had come until then, and `digest` what
    the node had said it has.
    `loads` says that it had to load the model, at the cost of the runtimes in `evicts`, while so
    many other nodes had `runtimes` of it, ready or under way; `roomy` were nodes without one that
    had room.
    `home_tokens` are what its home was believed to hold, `label` and `lost_tokens` what its client
    is told of that.
    `lost_after_s` is how long the node had been silent when the request was taken away from it,
    `over_s` when the attempt ended, in whatever way, as far as the gateway could know.
    """

    at_s: float
    attempt: int
    node: NodeId
    placement: Placement
    why: str
    silent_s: float
    draining: bool
    held: int
    limit: int
    idle_rivals: int
    released_s: float | None = None
    lost_after_s: float | None = None
    over_s: float | None = None
    fleet_held: int = 0
    node_held: int = 0
    bereaved: int = 0
    started: bool = False
    died: bool = False
    loads: bool = False
    runtimes: int = 0
    evicts: tuple[ModelId, ...] = ()
    roomy: tuple[NodeId, ...] = ()
    epoch: int = 0
    life: int = 1
    resumes_at: int = 0
    heard: int = 0
    digest: str = ""
    home_tokens: int = 0
    label: str = ""
    lost_tokens: int = 0


@dataclass(slots=True)
class Trace:
    """One request from its arrival to its ending.

    A turn of a named `conversation` came at `came_s` with the words `asked`, began at `began_s` and
    was given `past`, its own words last; `reached` is what its client's socket took of the answer,
    `told_unkept` that its end was told before it was `kept`. `dropped` counts pieces of text,
    `marks` those between which somebody else went on. The gateway's `own` are asked by no client.
    Of all summaries there were so many when its past was put together. `moves` is the conversation
    that such a one computes anew, because its node is being left.
    """

    request: RequestId
    model: ModelId
    turn: int
    arrived_s: float
    oracle: tuple[str, ...]
    text: str = ""
    saw_last_event: bool = False
    first_byte_s: float | None = None
    over_s: float | None = None
    opened: list[Opened] = field(default_factory=list)
    retries: list[float] = field(default_factory=list)
    endings: list[tuple[Ending, Failure | None]] = field(default_factory=list)
    cached_tokens: int | None = None
    held_tokens: int = 0
    previous: RequestId | None = None
    overlooked: NodeId | None = None
    tenant: str = ""
    class_: str = "interactive"
    cancelled_s: float | None = None
    replays: bool = False
    heard: int = 0
    told: Usage | None = None
    prompt_tokens: int = 0
    key: str = ""
    fingerprint: bytes = b""
    received: list[tuple[int, str]] | None = None
    read_whole: bool = False
    insists: bool = False
    conversation: bytes | None = None
    asked: str = ""
    came_s: float = 0.0
    began_s: float | None = None
    past: tuple[str, ...] = ()
    reached: str = ""
    kept: bool = False
    told_unkept: bool = False
    dropped: int = 0
    streamed: bool = True
    marks: int = 0
    moves: bytes | None = None
    own: bool = False
    summaries: int = 0

    @property
    def stays(self) -> bool:
        """Whether it is part of the past of the turn after it.

        A gateway that dies leaves what is on disk, whether or not its client has heard the end.
        """
        died = any(kind == "gateway_lost" for kind, _ in self.endings)
        return bool(self.reached) and (self.kept or not died)


@dataclass(slots=True)
class Shortened:
    """A past was made shorter by `job`, a turn or a piece of work: what was noted of it.

    `covers` turns are what its `text` stands for. What was `undone`
    counts for its own job alone.
    """

    conversation: bytes
    job: RequestId
    trigger: str
    began_s: float
    ended_s: float
    covers: int
    text: str
    undone: bool = False


@dataclass(slots=True)
class Repeat:
    """A request under a key that did not run: `twin` is whose it was, `answer` what it was given.

    Both are None where it was refused because the key stands for something else.
    """

    request: RequestId
    tenant: str
    key: str
    fingerprint: bytes
    at_s: float
    twin: RequestId | None = None
    answer: str | None = None


@dataclass(slots=True)
class Run:
    """One stream on an engine, from its slot to the slot's return.

    Its `prompt` was ready for a slot at `ready_s`; `cached` tokens of it were found there, and it
    was computed whole at `computed_s`.
    """

    request: RequestId
    node: NodeId
    slot: int
    began_s: float
    ended_s: float | None = None
    life: str = ""
    runtime: str = ""
    reuse: bool = False
    prompt: tuple[int, ...] = ()
    ready_s: float = 0.0
    cached: int = 0
    computed_s: float | None = None


@dataclass(slots=True)
class Move:
    """A slot's content written (`park`, `copy`), read (`restore`), or a session's files removed.

    `life` is one life of a node's process; `slot` is -1 for what touches none.
    """

    kind: str
    life: str
    runtime: RuntimeId
    slot: int
    session: SessionId
    began_s: float
    ended_s: float | None = None
    ok: bool = False


@dataclass(slots=True)
class Kept:
    """The most that one life of a node had in files, what it might have, and what it had at rest.

    `told` and `at_rest` are bytes in memory and on disk, as the node says and as they are; None for
    a life that is over.
    """

    life: str
    ram_bytes: int = 0
    disk_bytes: int = 0
    files: int = 0
    ram_bytes_max: int = 0
    disk_bytes_max: int = 0
    files_max: int = 0
    tokens_min: int = 0
    shared_tokens_min: int = 0
    shared_wait_s: float = 0.0
    told: tuple[int, int] | None = None
    at_rest: tuple[int, int] | None = None


@dataclass(slots=True)
class Ownership:
    """One stream on an engine, whichever gateway asked for it, under a key and an epoch."""

    node: NodeId
    fence: Fence
    began_s: float
    ended_s: float | None = None


@dataclass(slots=True)
class Wish:
    """A node was asked to load a model: who waited for it, and how many loads were under way.

    `places` counts nodes that run it and had a place left; `roomy` says that the node had room for
    one more without driving anything out.
    """

    at_s: float
    node: NodeId
    model: ModelId
    waiting: int
    under_way: int
    places: int = 0
    roomy: bool = False


@dataclass(slots=True)
class Residence:
    """One runtime on a node, from the start of its load until it was told to go, or died.

    `together` counts the runtimes there at its start, itself included, of `room`; `stays_s` is how
    long it had to stay; `busy` streams were on it when it was told to go, and `preparing` ones on
    their way. An operator had `ordered` or `forced` that, or it was `pinned`. Of its memory so many
    MB were `taken` when its load began, itself included, of those that `may` be, 0 for any.
    """

    node: NodeId
    model: ModelId
    began_s: float
    together: int
    room: int
    stays_s: float
    ready_s: float | None = None
    told_s: float | None = None
    busy: int = 0
    ordered: bool = False
    forced: bool = False
    pinned: bool = False
    preparing: int = 0
    taken_mb: float = 0.0
    may_mb: float = 0.0


@dataclass(slots=True)
class Ordered:
    """An order to a node, and what came of it; `runtime` is what the model had there then.

    `there` is whether that one, or after a load any, was really there at its end. `life` is that of
    the node which got it, 0 for none.
    """

    node: NodeId
    model: ModelId
    what: str
    force: bool
    given_s: float
    wait_s: float
    runtime: RuntimeId | None = None
    life: int = 0
    ended_s: float | None = None
    done: bool = False
    reason: str = ""
    there: bool = False


@dataclass(slots=True)
class Weighing:
    """A memory was measured, because the node had `asked` for it or not; `passes` made so far."""

    node: NodeId
    life: int
    asked: bool
    share: float
    passes: int = 0


@dataclass(slots=True)
class Trouble:
    """A span of time in which a node was not itself; `until_s` None means until the end."""

    node: NodeId
    kind: str
    since_s: float
    until_s: float | None = None


@dataclass(slots=True)
class Drain:
    """A node that an operator drained, until it was given back at `until_s`.

    `told_s` is when it was told that nobody comes back, with `left_when_told` idle conversations
    there. At the end it had so many `sessions` in slots and files and `busy` streams, and so many
    idle conversations were `left`.
    """

    node: NodeId
    since_s: float
    told_s: float | None = None
    left_when_told: int = 0
    until_s: float | None = None
    sessions: int = 0
    busy: int = 0
    left: int = 0


@dataclass(slots=True)
class Cells:
    """One slot at rest: the tokens its node reports, and those that its engine has."""

    node: NodeId
    runtime: str
    slot: int
    told: int
    real: int
    ctx: int


@dataclass(slots=True)
class Rest:
    """What is left of anything once everything has come to rest.

    `on_account` are tokens and places that are still reserved for keys.
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
    openings: list[tuple[NodeId, float]] = field(default_factory=list)
    defects: list[str] = field(default_factory=list)
    compaction: CompactionSettings = NO_COMPACTION
    ctx: int = 0
    shortened: list[Shortened] = field(default_factory=list)
    words: dict[bytes, tuple[str, ...]] = field(default_factory=dict)
    rest: Rest | None = None
    allowance: Allowance = NO_LIMITS
    answer_tokens: int = 0
    bookings: list[Booking] = field(default_factory=list)

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
