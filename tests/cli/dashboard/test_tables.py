"""Tables that fit: what is least important goes first, and nothing is wider than its column."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.cli.dashboard.tables import GAP, Cell, Column, Line, Table, fitted

COLUMNS = (
    Column("NAME", 0, 4, 12),
    Column("STATE", 2, 5, 9),
    Column("KV", 1, 6, 20, right=True),
)


def table(*rows: tuple[str, ...]) -> Table:
    """Make a table of these texts."""
    lines = (Line(str(n), tuple(map(Cell, row))) for n, row in enumerate(rows))
    return Table("t", "t", COLUMNS, tuple(lines), "nothing")


ROWS = (("a-long-name-indeed", "ready", "12k of 33k"), ("b", "loading 7%", "-"))


@pytest.mark.parametrize(
    ("width", "titles", "widths"),
    [
        (80, ["NAME", "STATE", "KV"], (12, 9, 10)),
        (28, ["NAME", "STATE", "KV"], (12, 5, 8)),
        (17, ["NAME", "KV"], (9, 6)),
        (6, ["NAME"], (5,)),
        (1, ["NAME"], (4,)),
    ],
)
def test_columns_for_a_width(width: int, titles: list[str], widths: tuple[int, ...]) -> None:
    """The first one always stays; what room there is goes to the more important ones."""
    shown, wide = fitted(table(*ROWS), width)
    assert [column.title for column in shown.columns] == titles
    assert wide == widths


TEXTS = st.text(max_size=30)


@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=5), st.integers(5, 90))
def test_everything_fits(rows: list[tuple[str, str, str]], width: int) -> None:
    """Whatever others call themselves: one line, no more than the width."""
    shown, widths = fitted(table(*rows), width)
    assert sum(widths) + GAP * len(widths) <= max(width, 5)
    for line in shown.lines:
        assert len(line.cells) == len(shown.columns)
        for cell, wide in zip(line.cells, widths, strict=True):
            assert len(cell.text) <= wide
            assert not set(cell.text) & set("\n\r\x1b\x07\u202e")
