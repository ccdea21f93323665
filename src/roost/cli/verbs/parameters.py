"""WIRING: `roost parameters`: what a request may ask for, and which backends heed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.cli import options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roost.core.choice import Trait
    from roost.core.parameters import Parameter

DESCRIPTION = """\
List the parameters of a request with their ranges, and which backends heed each; --for NAME lists
those of one backend. What a model or its backend cannot do is refused, not ignored.
"""


def main(arguments: list[str]) -> int:
    """Print the list."""
    from roost.backends.registry import NAMES, traits
    from roost.core.parameters import PARAMETERS

    parser = options.parser("parameters", DESCRIPTION)
    parser.add_argument("--for", dest="backend", choices=NAMES, help="one backend")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parsed = parser.parse_args(arguments)
    chosen = [one for one in traits() if parsed.backend in (None, one.name)]
    rows = [(one, heeding(one, chosen)) for one in PARAMETERS]
    rows = [(one, names) for one, names in rows if names]
    if parsed.json:
        options.print_json([{"parameter": one, "backends": names} for one, names in rows])
        return 0
    for one, names in rows:
        who = "" if len(names) == len(chosen) else f"  ({', '.join(names)} only)"
        print(f"{one.name:<18} {_range(one):<18} {one.meaning}{who}")
    return 0


def heeding(parameter: Parameter, traits: Sequence[Trait]) -> list[str]:
    """List the backends that heed a parameter."""
    needed = parameter.needs
    return [one.name for one in traits if not needed or getattr(one.capabilities, needed)]


def _range(one: Parameter) -> str:
    if one.kind == "switch":
        return "true or false"
    least = "" if one.least is None else f"{one.least:.15g}"
    if one.most is None:
        return f"from {least}"
    return f"{least} to {one.most:.15g}{' texts' if one.kind == 'texts' else ''}"
