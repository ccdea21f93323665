"""WIRING: `roost drain NODE`."""

from __future__ import annotations

from roost.cli.fleet import change_node

DESCRIPTION = "Give a node no new work; what runs there finishes. `roost undrain` ends it."


def main(arguments: list[str]) -> int:
    """Ask the gateway to drain a node, and show it."""
    return change_node("drain", DESCRIPTION, arguments)
