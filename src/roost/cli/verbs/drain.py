"""WIRING: `roost drain NODE`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from roost.cli import options
from roost.cli.verbs.fleet import change_node, held, node_parser, row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from roost.config import Settings

DESCRIPTION = """\
Give a node no new work: what runs there finishes, conversations are moved to other nodes, and then
it keeps no session and may be stopped. `roost undrain` ends it.
"""
POLL_S = 0.2


def main(arguments: list[str]) -> int:
    """Ask the gateway to drain a node, and show it; with `--wait` wait until it has nothing left.

    Status 1 where it still has something after that time.
    """
    parser = node_parser("drain", DESCRIPTION)
    wait_help = "until it has nothing left; status 1 if that takes longer"
    parser.add_argument(
        "--wait", type=options.seconds, default=0.0, metavar="SECONDS", help=wait_help
    )
    parsed = parser.parse_args(arguments)
    settings, until_s = change_node("drain", parsed), time.monotonic() + parsed.wait
    while parsed.wait:
        node = _seen(settings, parsed.node)
        if not node["in_flight"] and not held(node):
            print(f"{parsed.node} has nothing left and may be stopped")
            return 0
        if time.monotonic() >= until_s:
            print(f"{parsed.node} is not empty yet: {row(node)}")
            return 1
        time.sleep(POLL_S)
    return 0


def _seen(settings: Settings, name: str) -> Mapping[str, object]:
    """Look at one node."""
    from roost.cli.client import fleet_as
    from roost.errors import fail

    nodes = fleet_as(settings, dict[str, object])
    found = next((node for node in nodes if node["id"] == name), None)
    if found is None:
        raise fail("not_found", f"{name} is not among the nodes any more.")
    return found
