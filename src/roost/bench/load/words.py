"""DECIDER: a load's figures as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.bench.claims import table

if TYPE_CHECKING:
    from roost.bench.load.measure import Result
    from roost.bench.load.summary import Spread, Summary


def lines(result: Result) -> list[str]:
    """Say what came of a load, losses first."""
    told, where = result.figures, result.environment
    asked = told.ok + told.shed + told.failed
    said = [
        f"{told.ok} ok, {told.shed} shed, {told.failed} failed of {asked} in {told.wall_s:.1f} s"
        + (f"; {told.dropped} not sent: too many were on their way" if told.dropped else ""),
        *(f"  {count} {why}" for why, count in told.errors.items()),
        _rates(told),
    ]
    heads = ("ms", "p50", "p90", "p95", "p99", "max", "count")
    named = {
        "TTFT": told.ttft_ms,
        "gap": told.gap_ms,
        "TPOT": told.tpot_ms,
        "end to end": told.e2e_ms,
        "queue": told.queue_ms,
        "refusal": told.shed_ms,
        "sent late": told.late_ms,
    }
    rows = [_row(name, spread) for name, spread in named.items() if spread is not None]
    said += table(heads, rows).splitlines() if rows else []
    if told.prompt_tokens:
        said.append(f"{_known(told.cached_tokens)} of {told.prompt_tokens} prompt tokens cached")
    said += [
        f"{name}: {', '.join(f'{key} {count}' for key, count in counted.items())}"
        for name, counted in (("placement", told.placement), ("nodes", told.nodes))
        if counted
    ]
    said.append(
        f"{where.cores} cores, load {where.load_before:.1f} before and {where.load_after:.1f} after"
    )
    return said


def _rates(told: Summary) -> str:
    tokens = f"{_known(told.tokens_per_s)} tokens/s"
    goodput = f"goodput {told.goodput_per_s:g}/s{_slo(told)}"
    return f"{told.requests_per_s:g} answers/s, {tokens}, {goodput}"


def _row(name: str, spread: Spread) -> list[str]:
    values = (spread.p50, spread.p90, spread.p95, spread.p99, spread.max)
    return [name, *(f"{value:.1f}" for value in values), str(spread.count)]


def _slo(told: Summary) -> str:
    slo = told.slo
    pairs = (("TTFT", slo.ttft_ms), ("TPOT", slo.tpot_ms), ("e2e", slo.e2e_ms))
    within = [f"{name} {limit:g} ms" for name, limit in pairs if limit is not None]
    return f" within {', '.join(within)}" if within else ""


def _known(value: float | None) -> str:
    return "?" if value is None else f"{value:g}"
