"""VALUE: everything the coordinator can ask for. A shell performs each; nobody else decides.

`attempt` counts a request's dispatches from 1. Events about an attempt that is no longer the
request's current one are ignored by the coordinator, so a late answer can never be taken for a
fresh one.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from roost.core.ids import ModelId, NodeId, RequestId
from roost.core.snapshots import LinkState
from roost.errors import Failure

Placement = Literal["warm", "cold", "moved", "lost"]


class Dispatch(msgspec.Struct, frozen=True, gc=False):
    """Open the request on this node. The lease for it has been taken.

    `placement` says how the node relates to the conversation's home: `warm` = it is the home (the
    node's own cached-token count decides whether it still is), `cold` = there is no home, `moved` =
    the home could not be used (`why`), `lost` = the home is gone.
    `policy` is the scorer that chose among `candidates` nodes with room, lowest `score` first;
    `runner_up` came second. `predicted_s` is when the answer should be complete, None if unsure.
    With `resumes_at`, the answer goes on behind so many tokens, which its client has: the attempt
    before was lost to `lost_to`, and only a model of `digest` means the same by their ids.
    `home_tokens` are what the home is believed to hold of the prompt, or to have held.
    `epoch` counts all dispatches of this coordinator: a later one fences off every earlier one.
    """

    request: RequestId
    attempt: int
    node: NodeId
    placement: Placement
    why: str
    queued_s: float
    deadline_s: float | None
    policy: str = ""
    score: float = 0.0
    candidates: int = 1
    runner_up: NodeId | None = None
    predicted_s: float | None = None
    epoch: int = 0
    resumes_at: int = 0
    lost_to: str = ""
    digest: str = ""
    home_tokens: int = 0


class Withdraw(msgspec.Struct, frozen=True):
    """Cancel this attempt on its node; its lease stays taken until the node says it is released.

    The attempt is over at once: events of it that still arrive must not reach the request's relay,
    whether or not the next attempt has been dispatched yet. The coordinator tells them apart by
    itself.
    """

    request: RequestId
    attempt: int
    node: NodeId


class Answer(msgspec.Struct, frozen=True):
    """End the request towards its client with this failure; the one terminal outcome it gets.

    Before the first answer byte it becomes a status and a body, afterwards an error event.
    """

    request: RequestId
    failure: Failure


class Waiting(msgspec.Struct, frozen=True):
    """The request waits in the queue at this position (1 = next) of this many.

    `eta_s` is when its place should be free by the measured rate; None before there is one.
    """

    request: RequestId
    position: int
    length: int
    eta_s: float | None = None


class Disconnect(msgspec.Struct, frozen=True):
    """Close the link to this node: it is dead, or a newer link of the same node has replaced it.

    In the second case it comes from `on_node_joined` and means the link that is filed under this
    name at that moment: the shell performs it before it files the new one.
    """

    node: NodeId
    failure: Failure


class Want(msgspec.Struct, frozen=True):
    """Ask a node to load a model. It may not: its next reports show what it does."""

    node: NodeId
    model: ModelId


class Vacate(msgspec.Struct, frozen=True):
    """Tell a node whether anybody comes back to what it holds: not while it is `vacant`."""

    node: NodeId
    vacant: bool


class Report(msgspec.Struct, frozen=True):
    """Something an operator would want to know; logged once and counted.

    A `node_state` without a `state` has a `reason`: `breaker_open` and `breaker_closed` of a node
    for a model, `drained` and `undrained` by an operator, `handed_over` once its conversations are
    elsewhere.
    """

    event: Literal[
        "node_joined",
        "node_state",
        "node_left",
        "request_retried",
        "request_cut",
        "request_replayed",
        "request_shed",
    ]
    node: NodeId | None = None
    request: RequestId | None = None
    state: LinkState | None = None
    reason: str | None = None
    model: ModelId | None = None


Effect: TypeAlias = Dispatch | Withdraw | Answer | Waiting | Disconnect | Want | Vacate | Report
