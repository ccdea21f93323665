"""VALUE: what an experiment is about, and what came of it, in the words of its page."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from roost.bench.claims import Check, Report, none_of
from roost.bench.load.curves import Curve


class About(msgspec.Struct, frozen=True):
    """What is asked, how it is found out, and what an answer is worth.

    `accept` says when the experiment counts as passed. `shows` and `hides` are what can follow from
    its figures and what cannot. Empty lines part the points of a text; other line ends mean
    nothing. `real` is True where a real model is needed.
    """

    name: str
    title: str
    question: str
    method: str
    accept: str
    shows: str
    hides: str
    real: bool = False


def points(text: str) -> tuple[str, ...]:
    """Return the points of a text, one line each."""
    return tuple(" ".join(point.split()) for point in text.split("\n\n") if point.strip())


class Bars(msgspec.Struct, frozen=True, tag="bars"):
    """A picture of values side by side: for each group one value of each series."""

    title: str
    unit: str
    series: tuple[str, ...]
    groups: tuple[tuple[str, tuple[float, ...]], ...]


class Lines(msgspec.Struct, frozen=True, tag="lines"):
    """A picture of curves, and what is along its two axes."""

    title: str
    across: str
    up: str
    curves: tuple[Curve, ...]


class Verdict(msgspec.Struct, frozen=True):
    """What was found: tables, figures, claims that held or did not, and pictures."""

    tables: tuple[str, ...]
    figures: dict[str, float]
    checks: tuple[Check, ...]
    pictures: tuple[Bars | Lines, ...]

    @property
    def missed(self) -> list[Check]:
        """The claims that did not hold."""
        return [check for check in self.checks if not check.met]


def verdict(reports: Sequence[Report], *pictures: Bars | Lines) -> Verdict:
    """Put reports together; where there are several, names say which one a figure is of."""
    alone = len(reports) == 1
    tables: list[str] = []
    figures: dict[str, float] = {}
    checks: list[Check] = []
    for report in reports:
        tables += report.tables if alone else (f"{report.drill}:", *report.tables)
        before = "" if alone else f"{report.drill}: "
        figures |= {before + name: value for name, value in report.figures.items()}
        checks += (msgspec.structs.replace(c, claim=before + c.claim) for c in report.checks)
    return Verdict(tuple(tables), figures, tuple(checks), pictures)


def left_over(held: dict[str, str]) -> Check:
    """Check that nobody held anything when the experiment was over."""
    check = none_of("gateways that hold something at the end", len(held))
    return msgspec.structs.replace(
        check, seen="; ".join(f"{who}: {what}" for who, what in held.items()) or "0"
    )
