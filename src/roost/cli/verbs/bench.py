"""WIRING: `roost bench`: finds the measurement that is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from roost.cli import options

DESCRIPTION = """\
Measure a server of the OpenAI dialect, roost or another one. `roost bench KIND --help` says more.
"""
KINDS = {
    "load": "one load, open or closed: what came of it, and how long it took",
    "sweep": "one load after the other, each heavier",
    "stress": "more and more users, up to where most are refused",
    "capacity": "the most users that a server carries",
    "compare": "two servers in turn, and the ratio of their figures",
    "gateway": "what a gateway costs: CPU per request and per event, before a stub",
    "report": "results side by side, as one page or a table",
}


class Kind(Protocol):
    """What the module of a kind offers."""

    def main(self, arguments: list[str]) -> int:
        """Parse the arguments, measure, return the exit code."""
        ...


def main(arguments: list[str]) -> int:
    """Run one measurement."""
    parser = options.Parser(prog="roost bench", description=DESCRIPTION)
    told = "; ".join(f"{kind}: {what}" for kind, what in KINDS.items())
    parser.add_argument("kind", choices=KINDS, metavar="KIND", help=told)
    kind = parser.parse_args(arguments[:1]).kind
    return cast("Kind", import_module(f"roost.cli.bench.{kind}")).main(arguments[1:])
