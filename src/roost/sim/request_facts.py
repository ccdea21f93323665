"""VALUE: what happened to requests: a trace of each, its attempts, what a past became, repeats.

Facts are of what went over the edges of the machines; no machine is asked what it believes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from roost.core.engine import Mode
from roost.core.events import Usage
from roost.core.ids import ModelId, NodeId, RequestId
from roost.errors import Failure
from roost.fleet.effects import Placement

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
    `mode` is what the node had said its model is for.
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
    mode: Mode | None = None
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
    that such a one computes anew, because its node is being left. `mode` is what is asked for: of
    vectors and scores each is a piece of its text.
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
    mode: Mode = "generate"

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
class Tried:
    """Somebody asked for the answer to a prompt that was computed ahead, and `spent` it or not."""

    at_s: float
    tenant: str
    life: str
    spent: bool


@dataclass(slots=True)
class Handed:
    """A place for a prompt to be computed ahead by `prefill`, in one `life` of a gateway.

    It was `refused`, or kept until `over_s` where nothing came of it, or computed at `made_s`.
    """

    prefill: RequestId
    tenant: str
    life: str
    at_s: float
    refused: Failure | None = None
    made_s: float | None = None
    over_s: float | None = None
    secret: str = ""
    tries: list[Tried] = field(default_factory=list)


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
