"""DECIDER: what a key does about a row: a question first, then one call of the gateway."""

from __future__ import annotations

from typing import Literal
from urllib.parse import quote

import msgspec

from roost.cli.dashboard.tables import NodeTarget, RequestTarget, RuntimeTarget, Target
from roost.text.screen import in_one_line

Key = Literal["drain", "unload", "cancel"]
TABLES: dict[Key, str] = {"drain": "nodes", "unload": "runtimes", "cancel": "requests"}
"""On whose marked row each key acts."""
UNLOAD_WAIT_S = 5.0


class Action(msgspec.Struct, frozen=True):
    """A call of the gateway; `question` is asked before, `done` said after."""

    method: Literal["POST", "DELETE"]
    path: str
    question: str
    done: str
    body: dict[str, str | float] | None = None


NOTHING: dict[Key, str] = {
    "drain": "There is no node to drain.",
    "unload": "There is no runtime to unload.",
    "cancel": "The marked request is over, or there is none: nothing to cancel.",
}
NOT_ADMIN = "This needs a key of the role admin: --api-key or ROOST_API_KEY."


def action_of(key: Key, target: Target | None, role: str) -> Action | str:
    """Return what a key would do about its table's marked row, or why it does nothing.

    A gateway that does not tell the caller's `role` will say itself what he may not do.
    """
    match key, target:
        case "cancel", RequestTarget():
            return _cancel(target)
        case (("drain" | "unload"), (NodeTarget() | RuntimeTarget())) if role == "user":
            return NOT_ADMIN
        case "drain", NodeTarget():
            return _drain(target)
        case "unload", RuntimeTarget():
            return _unload(target)
        case _:
            return NOTHING[key]


def _cancel(target: RequestTarget) -> Action:
    whose = f" of {in_one_line(target.tenant)}" if target.tenant else ""
    return Action(
        "DELETE",
        f"/roost/v1/requests/{quote(target.request, safe='')}",
        f"Cancel request {in_one_line(target.request)[:12]}{whose} to {in_one_line(target.model)}?",
        "It is told to stop.",
    )


def _drain(target: NodeTarget) -> Action:
    verb, node = "undrain" if target.draining else "drain", in_one_line(target.node)
    what = "Give node {} work again?" if target.draining else "Give node {} no new work?"
    done = "{} gets work again." if target.draining else "{} gets no new work."
    path = f"/roost/v1/nodes/{quote(target.node, safe='')}/{verb}"
    return Action("POST", path, what.format(node), done.format(node))


def _unload(target: RuntimeTarget) -> Action:
    model, node = in_one_line(target.model), in_one_line(target.node)
    return Action(
        "POST",
        f"/roost/v1/nodes/{quote(target.node, safe='')}/unload",
        f"Unload {model} on {node}? It is not stopped while it is in use.",
        f"{model} is unloaded on {node}.",
        {"model": target.model, "answer_s": UNLOAD_WAIT_S},
    )
