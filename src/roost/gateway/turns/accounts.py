"""SHELL: what is counted and logged of a turn when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.gateway.turns.lines import who

if TYPE_CHECKING:
    from roost.gateway.turns.turn import Turn
    from roost.observe.logs import Log
    from roost.observe.metrics import Metrics


def tokens(turn: Turn) -> int:
    """Count what a turn has taken, as its client is told; nothing is taken by counting."""
    if turn.request.counts:
        return 0
    return turn.spent.prompt_tokens + turn.spent.completion_tokens


def close(turn: Turn, metrics: Metrics, log: Log, now: float, live: int) -> None:
    """Count and log a turn that has ended, while `live` others go on; called once for each."""
    outcome = str(turn.relay.outcome)
    metrics("roost_requests_total", outcome, turn.dialect).inc()
    spent = turn.spent
    if not turn.request.counts:
        metrics("roost_cached_prompt_tokens_total").inc(spent.cached_tokens)
    metrics("roost_prefill_tokens_total").inc(max(0, spent.prompt_tokens - spent.cached_tokens))
    metrics("roost_completion_tokens_total").inc(spent.completion_tokens)
    if turn.first_text_s is not None:
        metrics("roost_ttft_seconds").observe(turn.first_text_s - turn.arrived_s)
    facts: dict[str, object] = {"cache_miss": turn.missed} if turn.missed else {}
    if turn.ended_by is not None:
        facts["reason"] = turn.ended_by.reason
    if turn.held_most:
        facts["held_most"] = turn.held_most
    log.info(
        "request_done",
        **who(turn),
        outcome=outcome,
        model=turn.request.model,
        attempts=turn.attempt,
        prompt_tokens=spent.prompt_tokens,
        cached_tokens=spent.cached_tokens,
        completion_tokens=spent.completion_tokens,
        seconds=round(now - turn.arrived_s, 3),
        live=live,
        **facts,
    )
