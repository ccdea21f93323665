"""MACHINE: the requests that are alive: where each is, and what it has been through."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from roost.core.events import Started
from roost.core.ids import ModelId, NodeId, RequestId, RuntimeId
from roost.core.request import Terms
from roost.errors import Failure
from roost.fleet.choice.routing import Choice
from roost.fleet.effects import Placement
from roost.fleet.streams.said import Said

Stopper = Literal["client", "operator", "deadline", "drain", "loss"]
Phase = Literal["queued", "waiting", "prefill", "decode"]


class Stopped(msgspec.Struct, frozen=True):
    """Who stopped the request, in which phase of it, and how soon its place was free after that.

    `free_s` is None until the node has said so, and 0 if there was no place to free.
    """

    by: Stopper
    phase: Phase
    free_s: float | None


@dataclass(slots=True)
class Attempt:
    """One dispatch: the choice behind it, what it means for the client and why, what came of it.

    `resumes_at` is after how many tokens of the answer it goes on, 0 for an answer of its own.
    `home_tokens` are what its home was believed to hold of the prompt, or to have held.
    """

    attempt: int
    choice: Choice
    placement: Placement
    why: str
    dispatched_s: float
    predicted_s: float | None
    started: Started | None = None
    started_s: float | None = None
    first_token_s: float | None = None
    ended_s: float | None = None
    failure: str | None = None
    streams: int = 0
    resumes_at: int = 0
    home_tokens: int = 0


@dataclass(slots=True)
class Call:
    """One live request.

    `node` is where its current attempt runs, None while it waits. `attempt` counts dispatches,
    `failures` those that ended in a failure, `bounces` those that ended for lack of room.
    `setback` is why it waits again, `unserved_since_s` since when nobody has begun with it.
    `answered` means that a byte of the answer may be out.
    `prompt_tokens`, `answer_tokens` and `cost`, all in tokens, are estimates.
    `kills` counts runtimes and nodes that died while it ran on them. `resting` are nodes that may
    have it again: from the report after this number on, with another runtime than this one.
    `trail` is every dispatch, the current one last. `dropped` counts pieces of its answer that its
    reader was too slow for.
    `said` is what its client has of the answer, None if it is not to be gone on with elsewhere;
    only a model of `digest` can do that. `resumes_at` tokens of it count as prompt, since the last
    attempt that had said something was lost to `loss`.
    """

    terms: Terms
    model: ModelId
    arrived_s: float
    waiting_since_s: float
    unserved_since_s: float
    queued_s: float = 0.0
    node: NodeId | None = None
    attempt: int = 0
    failures: int = 0
    bounces: int = 0
    answered: bool = False
    tried: set[NodeId] = field(default_factory=set)
    setback: Failure | None = None
    prompt_tokens: int = 0
    answer_tokens: int = 1
    cost: float = 1.0
    completion_tokens: int | None = None
    kills: int = 0
    resting: dict[NodeId, tuple[int, RuntimeId | None]] = field(default_factory=dict)
    trail: list[Attempt] = field(default_factory=list)
    stopped: Stopped | None = None
    dropped: int = 0
    said: Said | None = None
    digest: str = ""
    resumes_at: int = 0
    loss: Failure | None = None

    @property
    def resumable(self) -> bool:
        """Whether an answer that has begun can be gone on with by somebody else."""
        return self.said is not None and self.said.resumable and bool(self.digest)

    @property
    def now_on(self) -> Attempt:
        """The current dispatch, or the last one."""
        return self.trail[-1]

    @property
    def phase(self) -> Phase:
        """How far it has come."""
        if self.node is None:
            return "queued"
        if self.answered:
            return "decode"
        return "waiting" if self.now_on.started is None else "prefill"

    @property
    def id(self) -> RequestId:
        """The request's id."""
        return self.terms.request_id

    def left_s(self, now: float) -> float | None:
        """What is left of the client's own time; None without a deadline."""
        if self.terms.timeout_s is None:
            return None
        return max(0.0, self.arrived_s + self.terms.timeout_s - now)


class Calls:
    """Every live request; a request that ended is in nobody's hands any more."""

    def __init__(self) -> None:
        self._calls: dict[RequestId, Call] = {}

    def add(self, call: Call) -> None:
        """A request arrived."""
        assert call.id not in self._calls, "a request arrives once"
        self._calls[call.id] = call

    def end(self, call: Call) -> None:
        """The request has its one ending; there is no way to give it a second."""
        assert self._calls.pop(call.id, None) is call, "a request ends once"

    def get(self, request: RequestId) -> Call | None:
        """The live request of this id."""
        return self._calls.get(request)

    def current(self, request: RequestId, attempt: int) -> Call | None:
        """The request, if this attempt is the one that counts."""
        call = self._calls.get(request)
        if call is None or call.node is None or call.attempt != attempt:
            return None
        return call

    def on_node(self, node: NodeId) -> list[Call]:
        """Requests whose current attempt runs there, oldest first."""
        return [call for call in self._calls.values() if call.node == node]

    def all(self) -> list[Call]:
        """Every live request, oldest first."""
        return list(self._calls.values())

    def running(self) -> int:
        """How many are on a node."""
        return sum(call.node is not None for call in self._calls.values())
