"""DECIDER: bounds on the figures of a load: `p95_ttft_ms=500`, `error_rate=0.01`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roost.bench.load.summary import Summary

_RANKS = ("min", "mean", "p50", "p90", "p95", "p99", "max")
_SPREADS = ("ttft_ms", "gap_ms", "tpot_ms", "e2e_ms", "shed_ms", "queue_ms", "late_ms")
_RATES = ("error_rate", "reject_rate", "drop_rate")
_LEAST = ("goodput_per_s", "requests_per_s", "tokens_per_s")


class Gate(msgspec.Struct, frozen=True):
    """One bound: at most `limit`, or at least that for figures of which more is better."""

    figure: str
    limit: float


def parse_gates(text: str) -> tuple[Gate, ...]:
    """Parse `FIGURE=NUMBER,…`; `ValueError` naming what there is for one that is not there."""
    return tuple(_gate(part.strip()) for part in text.split(",") if part.strip())


def _gate(part: str) -> Gate:
    figure, found, number = part.partition("=")
    rank, _, kind = figure.partition("_")
    known = figure in (*_RATES, *_LEAST) or (rank in _RANKS and kind in _SPREADS)
    if not known:
        ranks = f"{'|'.join(_RANKS)}_{'|'.join(_SPREADS)}"
        raise ValueError(
            f"no figure is called {figure!r}; there are {', '.join((*_RATES, *_LEAST))}, {ranks}"
        )
    try:
        limit = float(number)
    except ValueError:
        raise ValueError(f"{figure} needs a number behind `=`, not {number!r}") from None
    if not found or limit != limit or limit < 0:  # noqa: PLR0124 - not a number is no bound
        raise ValueError(f"{figure} needs a number from 0 on behind `=`")
    return Gate(figure, limit)


def broken(gates: Sequence[Gate], told: Summary) -> list[str]:
    """Say which bounds were not kept; a figure that nobody knows keeps none."""
    return [words for gate in gates if (words := _broken(gate, seen(gate.figure, told)))]


def _broken(gate: Gate, value: float | None) -> str:
    bound = f"{gate.figure} has to be at {'least' if gate.figure in _LEAST else 'most'}"
    if value is None:
        return f"{bound} {gate.limit:g} and is unknown"
    kept = value >= gate.limit if gate.figure in _LEAST else value <= gate.limit
    return "" if kept else f"{bound} {gate.limit:g} and is {value:g}"


def seen(figure: str, told: Summary) -> float | None:
    """Return a figure of a load by its name; None where it is not known."""
    asked = told.ok + told.shed + told.failed
    rates = {
        "error_rate": told.failed / asked if asked else None,
        "reject_rate": told.shed / asked if asked else None,
        "drop_rate": told.dropped / (asked + told.dropped) if asked + told.dropped else None,
    }
    if figure in rates:
        return rates[figure]
    figures: dict[str, object] = msgspec.to_builtins(told)
    rank, _, kind = figure.partition("_")
    spread = figures.get(kind) if rank in _RANKS else None
    value = spread.get(rank) if isinstance(spread, dict) else figures.get(figure)
    return float(value) if isinstance(value, int | float) else None
