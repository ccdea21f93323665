"""WIRING: `roost fleet`: the nodes of a running gateway, their models, slots and state."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

from roost.cli import options
from roost.cli.listing import Listing
from roost.cli.standing import standing

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Mapping

    from roost.config import Settings

DESCRIPTION = """\
Show the nodes of a gateway: the one that runs here, or the one at --url. A key goes into
ROOST_API_KEY or --api-key.
"""


def main(arguments: list[str]) -> int:
    """Ask the gateway and print what it says."""
    nobody = "no node has joined; see: roost node --help"
    return Listing("fleet", DESCRIPTION, "/roost/v1/fleet", "nodes", row, nobody).run(arguments)


def node_parser(verb: str, description: str) -> ArgumentParser:
    """Make a parser for a verb that changes one node."""
    parser = options.parser(verb, description, options.ASKS)
    parser.add_argument("node", metavar="NODE", help="its id, as `roost fleet` shows it")
    return parser


def change_node(verb: str, parsed: Namespace) -> Settings:
    """Run a verb that changes one node, and show that node."""
    from roost.cli.client import ask

    settings = options.load(parsed).settings
    path = f"/roost/v1/nodes/{quote(parsed.node, safe='')}/{verb}"
    print(row(ask(settings, path, "POST")))
    return settings


def held(node: Mapping[str, object]) -> int:
    """Count the sessions that a node holds: in slots, idle or not, and put aside."""
    runtimes, aside = node["runtimes"], node.get("sessions")
    assert isinstance(runtimes, list), "a node has a list of runtimes"
    seated = [slot for view in runtimes for slot in view["slots"] if slot["tokens"] > 0]
    return len(seated) + (int(aside["ram"] + aside["disk"]) if isinstance(aside, dict) else 0)


def row(node: Mapping[str, object]) -> str:
    """Say what one node is and does, in one line."""
    models, runtimes = node["models"], node["runtimes"]
    assert isinstance(models, list), "a node has a list of models"
    assert isinstance(runtimes, list), "a node has a list of runtimes"
    loaded = {view["model"]: standing(view) for view in runtimes if view.get("runtime")}
    names = ", ".join(
        f"{m['model']} ({loaded[m['model']]})" if m["model"] in loaded else m["model"]
        for m in models
    )
    # A node that has left was draining last; that it is gone says more.
    state = "draining" if node["draining"] and node["state"] != "dead" else node["state"]
    flight = f"{node['in_flight']}/{node['max_in_flight']} in flight"
    if node.get("sessions") is not None:
        flight += f"  {options.counted(held(node), 'session')}"
    return f"{node['id']}  {node['name']}  {state}  {flight}  {names}"
