"""WIRING: `roost bench report`: result files as one page, or as a Markdown table."""

from __future__ import annotations

import json
from pathlib import Path

from roost.cli import options
from roost.cli.bench import flags as bench_flags

DESCRIPTION = """\
Put results of `bench load`, `sweep` and `capacity` side by side: a Markdown table on standard
output, and with --html one page with curves that needs no network and no other file. Files that
were written with --out have raw samples, and so distributions.
"""


def main(arguments: list[str]) -> int:
    """Read, and write."""
    made = options.Parser(prog="roost bench report", description=DESCRIPTION)
    made.add_argument("files", nargs="+", metavar="FILE", help="results as JSON")
    made.add_argument("--html", metavar="FILE", help="where the page goes")
    parsed = made.parse_args(arguments)
    from roost.bench.load.page import Row, markdown, page, rows_of

    rows: list[Row] = []
    with bench_flags.refusing():
        for file in parsed.files:
            rows += rows_of(Path(file).stem, _read(file))
    if parsed.html:
        Path(parsed.html).write_text(page(rows), "utf-8")
    print(markdown(rows), end="")
    return 0


def _read(file: str) -> dict[str, object]:
    """Read a file of JSON; `ValueError` that names it for what is none."""
    try:
        found: object = json.loads(Path(file).read_text("utf-8"))
    except OSError as error:
        raise ValueError(f"{file}: {error.strerror or 'cannot be read'}") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{file} is no JSON") from None
    return found if isinstance(found, dict) else {}
