"""DECIDER: what a drill has found: tables, figures, and checks that are met or not."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, sqrt

import msgspec


class Check(msgspec.Struct, frozen=True):
    """One claim, whether it held, and the figure that says so."""

    claim: str
    met: bool
    seen: str


class Report(msgspec.Struct, frozen=True):
    """One drill: what is printed, what is kept as numbers, and what was claimed."""

    drill: str
    tables: tuple[str, ...]
    figures: dict[str, float]
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether every claim held."""
        return all(check.met for check in self.checks)

    def text(self) -> str:
        """Return the whole report as people read it."""
        lines = [f"== {self.drill}", *self.tables]
        lines += [f"{'met   ' if c.met else 'MISSED'} {c.claim}: {c.seen}" for c in self.checks]
        return "\n".join(lines)


def at_most(claim: str, seen: float, limit: float, unit: str = "") -> Check:
    """Check that a figure is at most a limit."""
    return Check(claim, seen <= limit, f"{seen:.3g}{unit} (at most {limit:g}{unit})")


def at_least(claim: str, seen: float, limit: float, unit: str = "") -> Check:
    """Check that a figure is at least a limit."""
    return Check(claim, seen >= limit, f"{seen:.3g}{unit} (at least {limit:g}{unit})")


def none_of(claim: str, seen: int) -> Check:
    """Check that something did not happen."""
    return Check(claim, seen == 0, str(seen))


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of all lie at or below; nan where there are none."""
    ordered = sorted(values)
    if not ordered:
        return float("nan")
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def interval(values: Sequence[float], share: float) -> tuple[float, float]:
    """Return what holds the true quantile in 95 of 100 runs, by its binomial ranks.

    At least one value. With few of them its upper end is the largest, and no bound at all.
    """
    ordered, middle = sorted(values), share * len(values)
    around = 1.96 * sqrt(middle * (1 - share))
    low, high = int(middle - around), ceil(middle + around)
    return ordered[max(0, low)], ordered[min(len(ordered) - 1, high)]


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lay out columns, right-aligned, each as wide as its widest cell."""
    cells = [list(heads), *(list(row) for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(heads))]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )


def ms(seconds: float) -> str:
    """Write seconds as milliseconds."""
    return f"{1000 * seconds:.1f}"
