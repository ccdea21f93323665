"""WIRING: `roost undrain NODE`."""

from __future__ import annotations

from roost.cli.verbs.fleet import change_node, node_parser

DESCRIPTION = "Give a node work again after `roost drain`."


def main(arguments: list[str]) -> int:
    """Ask the gateway to undrain a node, and show it."""
    change_node("undrain", node_parser("undrain", DESCRIPTION).parse_args(arguments))
    return 0
