"""DECIDER: records as pages in Markdown: one for each experiment, and one about all."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from roost.bench.experiments.record import Record
from roost.bench.experiments.telling import About, Verdict, points

COMMAND = "make experiments ONLY="
GRAPH = "E1"
INTRODUCTION = """\
# Experiments

`make experiments` runs all of them in their small form, on scripted engines and one small real
model, and writes these pages; `make experiments ONLY=E4` runs one.
Raw samples lie beside them in `raw`, and `python -m roost.bench.experiments --pages` makes pages
of those alone, verdicts included.
Figures are of one machine and one hour, and others used it too: compare them within a page, not
between pages.
"""


class Told(msgspec.Struct, frozen=True):
    """One experiment with its last run, and what that was judged to be."""

    about: About
    record: Record
    verdict: Verdict


def picture_name(name: str, number: int) -> str:
    """Return the file of an experiment's picture; the first has number 0."""
    return f"{name}.svg" if number == 0 else f"{name}-{number + 1}.svg"


def page(told: Told) -> str:
    """Write the page of one experiment."""
    about, record = told.about, told.record
    pictures = (
        f"![{picture.title}]({picture_name(about.name, number)})\n"
        for number, picture in enumerate(told.verdict.pictures)
    )
    parts = (
        f"# {about.name} {about.title}\n\n",
        f"{points(about.question)[0]}\n\n**{_outcome(told.verdict)}\n",
        *("\n" + picture for picture in pictures),
        _section("Method", _bullets(about.method)),
        _section("Accepted when", f"{points(about.accept)[0]}\n"),
        _section("Command", f"```\n{COMMAND}{about.name}\n```\n"),
        _section("Figures", _fenced(told.verdict.tables) + "\n" + _claims(told.verdict)),
        _section("What it shows", _bullets(about.shows)),
        _section("What it does not show", _bullets(about.hides)),
        _section("Where and when", _where(record)),
    )
    return "".join(parts)


def index(every: Sequence[Told], missing: Sequence[About]) -> str:
    """Write the page about all; `missing` have not been run."""
    graph = next((one for one in every if one.about.name == GRAPH), None)
    parts = [INTRODUCTION]
    if graph is not None:
        first = graph.verdict.pictures[0].title
        parts.append(f"\n![{first}]({picture_name(GRAPH, 0)})\n\n")
        parts.append(f"{points(graph.about.shows)[0]}\n")
    parts.append("\n| experiment | question | outcome |\n|---|---|---|\n")
    for one in every:
        about = one.about
        link = f"[{about.name} {about.title}]({about.name}.md)"
        parts.append(f"| {link} | {points(about.question)[0]} | {_short(one.verdict)} |\n")
    parts += (
        f"| {about.name} {about.title} | {points(about.question)[0]} | not run |\n"
        for about in missing
    )
    return "".join(parts)


def _short(verdict: Verdict) -> str:
    missed, every = len(verdict.missed), len(verdict.checks)
    if not missed:
        return f"Accepted: all {every} claims held."
    return f"Not accepted: {missed} of {every} claims did not hold."


def _outcome(verdict: Verdict) -> str:
    """Say what came of it, and name what was missed."""
    lost = "; ".join(f"{check.claim}: {check.seen}" for check in verdict.missed)
    return f"{_short(verdict)}** {lost}" if lost else f"{_short(verdict)}**"


def _section(title: str, text: str) -> str:
    return f"\n## {title}\n\n{text}"


def _bullets(text: str) -> str:
    return "".join(f"- {point}\n" for point in points(text))


def _fenced(tables: Sequence[str]) -> str:
    return "```text\n" + "\n\n".join(tables) + "\n```\n"


def _claims(verdict: Verdict) -> str:
    rows = (
        f"| {'held' if check.met else '**missed**'} | {check.claim} | {check.seen} |\n"
        for check in verdict.checks
    )
    return "| | claim | seen |\n|---|---|---|\n" + "".join(rows)


def _where(record: Record) -> str:
    where = record.environment
    facts = (
        ("at", where.at),
        ("took", f"{record.wall_s:.0f} s"),
        ("revision", where.revision or "no checkout"),
        ("machine", f"{where.cpu or where.machine}, {where.cores} cores"),
        ("memory", f"{where.memory_bytes / 2**30:.1f} GiB"),
        ("load average", f"{where.load_before:.2f} before, {where.load_after:.2f} after"),
        ("system", where.system),
        ("versions", f"roost {where.roost}, Python {where.python}"),
        ("model", record.model or "none: scripted"),
        ("plan", f"`{msgspec.json.encode(record.plan).decode()}`"),
        ("raw", f"[{record.experiment}.json](raw/{record.experiment}.json)"),
    )
    return "| | |\n|---|---|\n" + "".join(f"| {name} | {value} |\n" for name, value in facts)
