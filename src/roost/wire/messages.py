"""VALUE: every message of the link between a gateway and a node; one encoded message per frame.

A node dials in. The order on a fresh link:

    node      Hello
    gateway   Welcome                  (or Goodbye: wrong version, unknown token)
    node      Status                   (again whenever it changes, at least once per `status_s`)
    both      Ping, answered by Pong   (each side on its own)
    gateway   Want                     (whenever a model should be loaded before it is asked for)
    gateway   Pull, CancelPull         (whenever an operator wants a model fetched, or no more)
    gateway   Order                    (whenever an operator wants one loaded, unloaded or kept)
    gateway   StateOrder               (whenever an operator asks for states; StatesTold answers)
    gateway   Vacate                   (once nobody comes back to what the node holds, or again)

and for each request:

    gateway   Open
    node      Refused               nothing was started, the lease is free again
           or Phase* Events*        the last of the events is the one terminal event
    gateway   Credit*, at most one Cancel
    node      Released              always, exactly once, always last

`Released` is the acknowledgement that slot, memory and lease are free; only then may the gateway
count the capacity as free. After a Cancel the node may skip the terminal event but not `Released`.

Sequence numbers: `Status.seq` rises by one per status of one link. `Events.seq` is the index of its
first event on that stream, starting at 0, so that a gap or a repetition is noticed.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from roost.core.events import StreamEvent
from roost.core.fence import Fence
from roost.core.ids import ModelId, NodeId, RequestId, StreamId, TenantId
from roost.core.request import GenerateRequest
from roost.core.snapshots import NodeStatus, OrderKind
from roost.core.state_views import StateResult, StateView, StateWish
from roost.errors import Failure

VERSION = 2
OLDEST = 1
"""The version of this protocol, and the oldest that is spoken as well: see `wire.versions`."""

LINK_PATH = "/roost/v1/link"
"""Where a gateway answers links, below its base path."""

Waiting = Literal["loading", "preparing"]


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """First message of a node. `instance` differs on every start of the node process.

    The node speaks `version` and everything up to `newest`, which stands apart because gateways of
    version 1 accept their own and nothing else; 0 is no more than `version`.
    """

    version: int
    node: NodeId
    name: str
    instance: str
    software: str
    newest: int = 0


class Status(msgspec.Struct, frozen=True, tag="status"):
    """The node's whole report; replaces every earlier one of this link."""

    seq: int
    status: NodeStatus


class Phase(msgspec.Struct, frozen=True, tag="phase"):
    """What a stream waits for before it holds a slot; `progress` is 0..1 or None if unknown."""

    stream: StreamId
    phase: Waiting
    progress: float | None = None


class Events(msgspec.Struct, frozen=True, tag="events"):
    """Stream events in order; consumes one credit per message."""

    stream: StreamId
    seq: int
    events: tuple[StreamEvent, ...]


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The node did not start this stream: no slot was taken, no prefill begun. Released follows."""

    stream: StreamId
    failure: Failure


class Released(msgspec.Struct, frozen=True, tag="released"):
    """All that the stream held is free. `cancel_to_free_s` only after a Cancel that found work."""

    stream: StreamId
    phase: Literal["waiting", "prefill", "decode", "done"]
    cancel_to_free_s: float | None = None


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """The gateway accepts the node, and both speak `version` from now on.

    `ping_s`: how often it expects to hear something.
    """

    version: int
    gateway: str
    ping_s: float


class Goodbye(msgspec.Struct, frozen=True, tag="goodbye"):
    """The sender ends the link for this reason; `again` says whether dialling again makes sense."""

    failure: Failure
    again: bool


class Open(msgspec.Struct, frozen=True, tag="open"):
    """Start a request on the node. `deadline_s` is what is left of its time, None for no limit.

    `fence` says whose attempt this is; what carries none is not held against anybody else's.
    A prompt of more than `prompt_max` tokens is refused before it takes a slot; None is no limit
    but the context. With `require`, a node that knows that it cannot go on with what it holds of
    the conversation refuses with `session_gone`, rather than compute all of it again.
    """

    stream: StreamId
    request_id: RequestId
    tenant: TenantId
    request: GenerateRequest
    credit: int
    deadline_s: float | None = None
    fence: Fence | None = None
    prompt_max: int | None = None
    require: bool = False


class Credit(msgspec.Struct, frozen=True, tag="credit"):
    """The gateway has room for `messages` more Events messages on this stream."""

    stream: StreamId
    messages: int


class Cancel(msgspec.Struct, frozen=True, tag="cancel"):
    """Stop this stream in whatever phase it is; unknown streams are ignored."""

    stream: StreamId


class Want(msgspec.Struct, frozen=True, tag="want"):
    """The gateway would like a runtime of this model there; the node loads it if it has room.

    A wish, not a request: a node that cannot, or would rather not, does nothing, and its next
    report shows which. Only nodes whose reports say what loads would take understand it.
    """

    model: ModelId


class Vacate(msgspec.Struct, frozen=True, tag="vacate"):
    """Nobody comes back through this gateway to what the node holds; or, not `vacant`, they do.

    A node that hears so from all its gateways keeps nothing idle. Only nodes whose reports say
    whether they are vacant understand it.
    """

    vacant: bool


class Pull(msgspec.Struct, frozen=True, tag="pull"):
    """An operator wants the node to fetch a model; its reports say under `job` how far it is.

    `source` and `file` are what `roost pull` takes, and never a path of the node's machine.
    `accepted` says that the operator has agreed to the licence. Only nodes whose reports have
    `pulls` understand it.
    """

    job: str
    source: str
    file: str = ""
    accepted: bool = False


class CancelPull(msgspec.Struct, frozen=True, tag="cancel_pull"):
    """The operators do not want this pull any more; a job that is over, or unknown, is ignored.

    Since version 2.
    """

    job: str


class Order(msgspec.Struct, frozen=True, tag="order"):
    """An operator wants this done with a model; the node's reports say under `job` what came of it.

    A model in use is unloaded if it falls idle within `wait_s`, and with `force` at once, with
    whatever runs on it. One that is unpinned stays for `keep_s` when nobody uses it, None for as
    long as its node keeps others. Only nodes whose reports have `orders` understand it.
    """

    job: str
    model: ModelId
    what: OrderKind
    force: bool = False
    wait_s: float = 0.0
    keep_s: float | None = None


class StateOrder(msgspec.Struct, frozen=True, tag="state_order"):
    """An operator wants to see the states that the node keeps, or this done with some of them.

    Answered by one `StatesTold` with the same `job`, at the latest when what is in use was waited
    for as long as `wait_s`. Only nodes whose reports say what their `sessions` outlive (their
    `persistence`) understand it.
    """

    job: str
    what: StateWish
    states: tuple[str, ...] = ()
    wait_s: float = 0.0


class StatesTold(msgspec.Struct, frozen=True, tag="states_told"):
    """The answer to a `StateOrder`: all states there are, or what came of each that was named."""

    job: str
    states: tuple[StateView, ...] = ()
    results: tuple[StateResult, ...] = ()


class Ping(msgspec.Struct, frozen=True, tag="ping"):
    """Are you there? Answered by a Pong with the same number."""

    seq: int


class Pong(msgspec.Struct, frozen=True, tag="pong"):
    """Answer to a Ping."""

    seq: int


FromNode: TypeAlias = (
    Hello | Status | Phase | Events | Refused | Released | StatesTold | Goodbye | Ping | Pong
)
FromGateway: TypeAlias = (
    Welcome
    | Goodbye
    | Open
    | Credit
    | Cancel
    | Want
    | Vacate
    | Pull
    | CancelPull
    | Order
    | StateOrder
    | Ping
    | Pong
)
