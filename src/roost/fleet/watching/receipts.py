"""MACHINE: what became of each request, kept for a while: for `roost why` and for whoever asks.

A receipt is made when a request ends; that its last place is free is added when the node says so.
It has no text of anybody: lengths, times, places, scores and reasons.
"""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from roost.core.compacted import Compacted
from roost.core.ids import ModelId, NodeId, RequestId, TenantId
from roost.core.request import ServiceClass
from roost.fleet.calls import Attempt, Call, Stopped
from roost.fleet.choice.homecoming import found, lost_tokens
from roost.fleet.settings import FleetSettings
from roost.fleet.streams.relay import Outcome

RANKED = 5
"""How many candidates a receipt names, best first."""


class AttemptView(msgspec.Struct, frozen=True):
    """One dispatch and the choice behind it; times are seconds after the request's arrival.

    `ranking` names the best candidates with their scores, lowest first, of `candidates` with room.
    `predicted_s` and `actual_s` are from dispatch to the end; None where unknown. `resumes_at` is
    after how many tokens it went on with an answer that an attempt before it had begun.
    `lost_tokens` of the prompt were computed although its home had them, or should have had.
    """

    attempt: int
    node: NodeId
    placement: str
    why: str
    policy: str
    candidates: int
    ranking: tuple[tuple[NodeId, float], ...]
    runner_up: NodeId | None
    dispatched_s: float
    started_s: float | None
    first_token_s: float | None
    ended_s: float | None
    predicted_s: float | None
    actual_s: float | None
    prompt_tokens: int | None
    cached_tokens: int | None
    failure: str | None
    resumes_at: int = 0
    lost_tokens: int = 0


class Receipt(msgspec.Struct, frozen=True):
    """One request: `outcome` is `running`, `waiting`, `complete`, `client_gone` or a reason.

    It is `buffer_overflow` where the answer is complete but for `dropped` pieces of it.
    `ending` is how it ended for its client, None before that: an answer that was complete on its
    node may still meet a client that has left, or does not read.
    """

    request: RequestId
    tenant: TenantId
    model: ModelId
    class_: ServiceClass
    outcome: str
    queued_s: float
    total_s: float
    prompt_estimate: int
    completion_tokens: int | None
    attempts: tuple[AttemptView, ...]
    stopped: Stopped | None = None
    dropped: int = 0
    ending: Outcome | None = None
    compacted: Compacted | None = None


class _Kept(msgspec.Struct, frozen=True):
    receipt: Receipt
    ended_s: float
    attempt: int


class Receipts:
    """The newest receipts, bounded by number and by age."""

    def __init__(self, settings: FleetSettings) -> None:
        self._most = settings.receipts_entries
        self._ttl_s = settings.receipts_ttl_s
        self._kept: OrderedDict[RequestId, _Kept] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def keep(self, call: Call, outcome: str, now: float) -> None:
        """The request has ended."""
        self._kept[call.id] = _Kept(receipt_of(call, outcome, now), now, call.attempt)
        while self._kept and (len(self._kept) > self._most or self._oldest_s() + self._ttl_s < now):
            self._kept.popitem(last=False)

    def freed(self, request: RequestId, attempt: int, now: float) -> float | None:
        """A place is free; seconds since the request was stopped, None if that was not why."""
        kept = self._kept.get(request)
        if kept is None or kept.attempt != attempt:
            return None
        stopped = kept.receipt.stopped
        if stopped is None or stopped.free_s is not None:
            return None
        free_s = now - kept.ended_s
        done = msgspec.structs.replace(stopped, free_s=free_s)
        receipt = msgspec.structs.replace(kept.receipt, stopped=done)
        self._kept[request] = msgspec.structs.replace(kept, receipt=receipt)
        return free_s

    def overflowed(self, request: RequestId, pieces: int) -> None:
        """A request that has ended on its node has lost so many pieces on the way to its reader."""
        kept = self._kept.get(request)
        if kept is not None:
            outcome = outcome_of(kept.receipt.outcome, pieces)
            dropped = kept.receipt.dropped + pieces
            receipt = msgspec.structs.replace(kept.receipt, outcome=outcome, dropped=dropped)
            self._kept[request] = msgspec.structs.replace(kept, receipt=receipt)

    def departed(self, request: RequestId, ending: Outcome) -> None:
        """A request that has ended here has ended for its client too, and how."""
        kept = self._kept.get(request)
        if kept is not None:
            receipt = msgspec.structs.replace(kept.receipt, ending=ending)
            self._kept[request] = msgspec.structs.replace(kept, receipt=receipt)

    def get(self, request: RequestId, now: float) -> Receipt | None:
        """The receipt, while it is kept."""
        kept = self._kept.get(request)
        return kept.receipt if kept is not None and now <= kept.ended_s + self._ttl_s else None

    def _oldest_s(self) -> float:
        return next(iter(self._kept.values())).ended_s


def outcome_of(outcome: str, dropped: int) -> str:
    """Name an ending: one that is complete but for what was dropped is not complete."""
    return "buffer_overflow" if dropped and outcome == "complete" else outcome


def receipt_of(call: Call, outcome: str, now: float) -> Receipt:
    """The request as of now."""
    waits = call.node is None and outcome == "waiting"
    return Receipt(
        request=call.id,
        tenant=call.terms.tenant,
        model=call.model,
        class_=call.terms.class_,
        outcome=outcome_of(outcome, call.dropped),
        queued_s=call.queued_s + (now - call.waiting_since_s if waits else 0.0),
        total_s=now - call.arrived_s,
        prompt_estimate=call.prompt_tokens,
        completion_tokens=call.completion_tokens,
        attempts=tuple(_view(one, call) for one in call.trail),
        stopped=call.stopped,
        dropped=call.dropped,
        compacted=call.terms.compacted,
    )


def _view(one: Attempt, call: Call) -> AttemptView:
    choice, arrived_s, placement = one.choice, call.arrived_s, one.placement
    lost = 0
    if one.started is not None:
        held = one.home_tokens, one.started.cached_tokens
        placement, lost = found(placement, *held), lost_tokens(placement, *held)
    return AttemptView(
        attempt=one.attempt,
        node=choice.node,
        placement=placement,
        why=one.why,
        policy=choice.policy,
        candidates=choice.candidates,
        ranking=tuple((node, score) for score, node in choice.ranking(RANKED)),
        runner_up=choice.runner_up,
        dispatched_s=one.dispatched_s - arrived_s,
        started_s=_after(one.started_s, arrived_s),
        first_token_s=_after(one.first_token_s, arrived_s),
        ended_s=_after(one.ended_s, arrived_s),
        predicted_s=one.predicted_s,
        actual_s=_after(one.ended_s, one.dispatched_s),
        prompt_tokens=one.started.prompt_tokens if one.started is not None else None,
        cached_tokens=one.started.cached_tokens if one.started is not None else None,
        failure=one.failure,
        resumes_at=one.resumes_at,
        lost_tokens=lost,
    )


def _after(when_s: float | None, since_s: float) -> float | None:
    return None if when_s is None else when_s - since_s
