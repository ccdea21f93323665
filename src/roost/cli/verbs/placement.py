"""WIRING: `roost placement`: where models run, and what loading them elsewhere would cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.cli.listing import Listing
from roost.cli.standing import standing

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

DESCRIPTION = """\
Show for each model of a gateway how many runtimes there are and should be, and for each node what
one there would cost, in seconds: the wait for room, the load, and what the loss of the models that
would have to go will probably cost. A key goes into ROOST_API_KEY or --api-key.
"""


def main(arguments: list[str]) -> int:
    """Ask the gateway and print what it says."""
    path, nobody = "/roost/v1/placement", "no node offers a model; see: roost node --help"
    return Listing("placement", DESCRIPTION, path, "models", told, nobody).run(arguments)


def told(model: Mapping[str, object]) -> str:
    """Say where one model is and could be."""
    return "\n".join(lines(model))


def lines(model: Mapping[str, object]) -> Iterator[str]:
    """Say where one model is and could be: a line for it, and one for each node."""
    counts = f"{model['ready']} ready, {model['loading']} loading, {model['wanted']} wanted"
    waiting = f", {model['waiting']} requests wait" if model["waiting"] else ""
    yield f"{model['model']}  {counts}{waiting}"
    nodes = model["nodes"]
    assert isinstance(nodes, list), "a model has a list of nodes"
    for node in nodes:
        yield f"  {node['node']}  {_state(node)}"


def _state(node: Mapping[str, object]) -> str:
    state, why = node["state"], node["why"]
    if state in ("ready", "loading"):
        return standing(node)
    if state != "cold":
        return f"{state}: {why}" if state == "closed" else str(state)
    price_s, evicts = node["price_s"], node["evicts"]
    assert isinstance(evicts, list), "a node has a list of models that would go"
    price = f"{price_s:.1f} s" if isinstance(price_s, float) else "not now"
    going = f", in place of {', '.join(map(str, evicts))}" if evicts else ""
    return f"cold: {price}{going}{f' ({why})' if why else ''}"
