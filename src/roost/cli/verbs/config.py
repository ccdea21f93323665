"""WIRING: `roost config`: the settings in force and where each comes from."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from roost.cli import options
from roost.config import TABLE
from roost.config.show import Shown, describe

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roost.config.load import Fault

DESCRIPTION = """\
show: every setting in force, its unit and its source. check: only say whether all of them are
right. Both read flags, ROOST_* variables and the settings file, as every other verb does; a FILE
is read in its place, as by --config. Everything that is wrong is told at once; then the exit code
is 2.
"""


def main(arguments: list[str]) -> int:
    """Show or check the settings."""
    names = [row.name for row in TABLE if row.name != "home"]
    parser = options.parser("config", DESCRIPTION, names)
    parser.add_argument("action", nargs="?", default="show", choices=("show", "check"))
    parser.add_argument("file", nargs="?", metavar="FILE", help="a settings file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_intermixed_args(arguments)
    from roost.cli.parts.meaning import examined

    if parsed.file and parsed.config:
        parser.error("FILE and --config are two files; name one")
    loaded, faults = examined({**vars(parsed), "config": parsed.file or parsed.config})
    options.warn_unknown(loaded)
    lines = describe(loaded) if parsed.action == "show" else []
    if parsed.json:
        _print_json(lines, faults, checked=parsed.action == "check")
    else:
        for line in lines:
            print(_row(line))
        if not lines and not faults:
            print("every setting is right")
    for fault in faults:
        print(f"roost config: {fault.message}", file=sys.stderr)
    return 2 if faults else 0


def _print_json(lines: Sequence[Shown], faults: Sequence[Fault], *, checked: bool) -> None:
    if not checked:
        options.print_json([line._asdict() for line in lines])
        return
    wrong = [fault._asdict() for fault in faults]
    options.print_json({"ok": not faults, "faults": wrong})


def _row(line: Shown) -> str:
    value = ",".join(line.value) if isinstance(line.value, tuple) else str(line.value)
    return f"{line.name:<28} {value:<24} {line.unit:<12} {line.origin}"
