"""WIRING: `roost config`: the settings in force and where each comes from."""

from __future__ import annotations

from roost.cli import options
from roost.config import TABLE
from roost.config.show import Shown, describe

DESCRIPTION = """\
show: every setting in force, its unit and its source. check: only say whether all of them are
right. Both read flags, ROOST_* variables and the settings file, as every other verb does.
"""


def main(arguments: list[str]) -> int:
    """Show or check the settings."""
    names = [row.name for row in TABLE if row.name != "home"]
    parser = options.parser("config", DESCRIPTION, names)
    parser.add_argument("action", nargs="?", default="show", choices=("show", "check"))
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_args(arguments)
    loaded = options.load(parsed)
    if parsed.action == "check":
        print("every setting is right")
        return 0
    lines = describe(loaded)
    if parsed.json:
        options.print_json([line._asdict() for line in lines])
        return 0
    for line in lines:
        print(_row(line))
    return 0


def _row(line: Shown) -> str:
    value = ",".join(line.value) if isinstance(line.value, tuple) else str(line.value)
    return f"{line.name:<28} {value:<24} {line.unit:<12} {line.origin}"
