"""DECIDER: the page as lines of text, for a pipe or a mail."""

from __future__ import annotations

from collections.abc import Iterator

from roost.cli.dashboard.page import Page
from roost.cli.dashboard.tables import Table, fitted


def plain(page: Page, width: int) -> Iterator[str]:
    """Write the page in lines of at most `width` characters, whole tables under their titles."""
    yield page.title
    yield page.summary
    yield from (note.text for note in page.notes)
    for table in page.tables:
        yield ""
        yield table.title.upper()
        yield from _lines(table, width) if table.lines else (f"  {table.nothing}",)


def _lines(table: Table, width: int) -> Iterator[str]:
    shown, widths = fitted(table, width - 2)
    rows = [[column.title for column in shown.columns]]
    rows += [[cell.text for cell in line.cells] for line in shown.lines]
    for row in rows:
        cells = zip(row, shown.columns, widths, strict=True)
        texts = (
            text.rjust(wide) if column.right else text.ljust(wide) for text, column, wide in cells
        )
        yield ("  " + " ".join(texts)).rstrip()
