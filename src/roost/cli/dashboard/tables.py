"""DECIDER: tables that fit: which columns are shown at a width, and how wide each is."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

from roost.cli.dashboard.words import clipped
from roost.text.screen import in_one_line

Look = Literal["", "good", "warn", "bad", "dim", "strong"]
GAP = 1


class Column(NamedTuple):
    """One column: what comes `first` in importance stays longest where room is short.

    It is as wide as what is in it, and no wider than `most`; one for whose content, or at least
    `least` characters of it, there is no room is left out.
    """

    title: str
    first: int
    least: int = 4
    most: int = 30
    right: bool = False


class Cell(NamedTuple):
    """A text and how it looks."""

    text: str
    look: Look = ""


class NodeTarget(msgspec.Struct, frozen=True):
    """A node that can be drained."""

    node: str
    draining: bool


class RuntimeTarget(msgspec.Struct, frozen=True):
    """A model that a node can unload."""

    node: str
    model: str


class RequestTarget(msgspec.Struct, frozen=True):
    """A request that can be stopped."""

    request: str
    tenant: str
    model: str


Target = NodeTarget | RuntimeTarget | RequestTarget


class Line(NamedTuple):
    """One row: `key` is the same as long as it is about the same; `target` what keys act on."""

    key: str
    cells: tuple[Cell, ...]
    target: Target | None = None


class Table(NamedTuple):
    """Rows under columns; a row has a cell for each column. `nothing` is said where none is."""

    name: str
    title: str
    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    nothing: str


def fitted(table: Table, width: int) -> tuple[Table, tuple[int, ...]]:
    """Leave out the columns for which `width` has no room, and return how wide the others are.

    Widths are without the gap of one character behind each. Texts are in one line and no longer
    than their column.
    """
    wanted = [_wanted(table, place) for place in range(len(table.columns))]
    kept = list(range(len(table.columns)))
    while len(kept) > 1 and _needed(table, kept, wanted) > width:
        kept.remove(max(kept, key=lambda place: table.columns[place].first))
    widths = _widths(table, kept, wanted, width)
    lines = tuple(_cut(line, kept, widths) for line in table.lines)
    columns = tuple(table.columns[place] for place in kept)
    return table._replace(columns=columns, lines=lines), widths


def _wanted(table: Table, place: int) -> int:
    column = table.columns[place]
    longest = max((len(in_one_line(line.cells[place].text)) for line in table.lines), default=0)
    return min(column.most, max(len(column.title), longest))


def _needed(table: Table, kept: list[int], wanted: list[int]) -> int:
    return sum(min(wanted[place], table.columns[place].least) + GAP for place in kept)


def _widths(table: Table, kept: list[int], wanted: list[int], width: int) -> tuple[int, ...]:
    """Give each column its least, and the rest to the more important ones first."""
    widths = {place: min(wanted[place], table.columns[place].least) for place in kept}
    left = width - sum(widths.values()) - GAP * len(kept)
    for place in sorted(kept, key=lambda one: table.columns[one].first):
        more = max(0, min(left, wanted[place] - widths[place]))
        widths[place] += more
        left -= more
    return tuple(widths[place] for place in kept)


def _cut(line: Line, kept: list[int], widths: tuple[int, ...]) -> Line:
    cells = (line.cells[place] for place in kept)
    return line._replace(
        cells=tuple(
            Cell(clipped(in_one_line(cell.text), wide), cell.look)
            for cell, wide in zip(cells, widths, strict=True)
        )
    )
