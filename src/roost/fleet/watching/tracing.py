"""DECIDER: the trace of a request that is over: queue, prefill, decode and stream, by its receipt.

Everything is known by then and was measured anyway, so that tracing costs nothing while a request
runs.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from roost.core.events import Usage
from roost.core.trace import Fact, Parent, Span, Trace
from roost.fleet.watching.receipts import AttemptView, Receipt

_WELL = frozenset({"complete", "buffer_overflow", "client_disconnect", "cancelled"})


class Ended(msgspec.Struct, frozen=True):
    """How a request was for its client: times are seconds after its arrival.

    `admitted_s` is when it came to the coordinator: later where it waited for the turn before it.
    """

    request: str
    model: str
    dialect: str
    outcome: str
    usage: Usage
    end_s: float
    admitted_s: float | None = None
    first_text_s: float | None = None
    parent: Parent | None = None
    cache_miss: str = ""


def trace_of(ended: Ended, receipt: Receipt | None) -> Trace:
    """Make the trace; without a receipt nobody was asked to serve it."""
    facts: dict[str, Fact] = {
        "roost.request.id": ended.request,
        "roost.outcome": ended.outcome,
        "roost.dialect": ended.dialect,
        "gen_ai.request.model": ended.model,
        "gen_ai.usage.input_tokens": ended.usage.prompt_tokens,
        "gen_ai.usage.output_tokens": ended.usage.completion_tokens,
        "roost.usage.cached_tokens": ended.usage.cached_tokens,
    }
    if ended.cache_miss:
        facts["roost.cache_miss"] = ended.cache_miss
    failure = "" if ended.outcome in _WELL else ended.outcome
    request = Span("request", 0.0, ended.end_s, facts, failure)
    return Trace(request, tuple(_phases(ended, receipt)), ended.parent)


def _phases(ended: Ended, receipt: Receipt | None) -> Iterator[Span]:
    admitted_s = ended.end_s if ended.admitted_s is None else ended.admitted_s
    if admitted_s > 0 and (ended.admitted_s is None or admitted_s >= _SEEN_S):
        yield Span("turn_before", 0.0, admitted_s)
    if receipt is None or ended.admitted_s is None:
        return
    free_s = admitted_s
    for attempt in receipt.attempts:
        sent_s = admitted_s + attempt.dispatched_s
        yield Span("queue", free_s, sent_s)
        free_s = ended.end_s if attempt.ended_s is None else admitted_s + attempt.ended_s
        yield from _attempt(attempt, admitted_s, min(free_s, ended.end_s))
    if not receipt.attempts:
        yield Span("queue", admitted_s, ended.end_s)
    if ended.first_text_s is not None:
        yield Span("stream", ended.first_text_s, ended.end_s)


_SEEN_S = 0.001
"""Less than this is the time between two lines of code, and no wait."""


def _attempt(attempt: AttemptView, admitted_s: float, end_s: float) -> Iterator[Span]:
    """Give the phases on a node: until it holds a slot, until its first token, until its end."""
    facts: dict[str, Fact] = {"roost.node": attempt.node, "roost.attempt": attempt.attempt}
    times = (attempt.started_s, attempt.first_token_s)
    started_s, first_s = (None if at is None else admitted_s + at for at in times)
    failure, sent_s = attempt.failure or "", admitted_s + attempt.dispatched_s
    placed: dict[str, Fact] = {"roost.placement": attempt.placement, "roost.policy": attempt.policy}
    # A load of the model, and what the node itself had waiting.
    yield _phase("node", sent_s, started_s, end_s, {**facts, **placed}, failure)
    if started_s is None:
        return
    counted: dict[str, Fact] = {}
    if attempt.prompt_tokens is not None and attempt.cached_tokens is not None:
        counted = {"roost.tokens.computed": attempt.prompt_tokens - attempt.cached_tokens}
    yield _phase("prefill", started_s, first_s, end_s, {**facts, **counted}, failure)
    if first_s is not None:
        yield Span("decode", first_s, max(first_s, end_s), facts, failure)


def _phase(
    name: str,
    start_s: float,
    next_s: float | None,
    end_s: float,
    facts: dict[str, Fact],
    failure: str,
) -> Span:
    """Give a phase that ended with the next one, or with the attempt, and then for its reason."""
    if next_s is None:
        return Span(name, start_s, max(start_s, end_s), facts, failure)
    return Span(name, start_s, next_s, facts)
