"""SHELL: what endpoints of roost's own share: who may, in which version, and about which node.

What they raise is the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from roost.core.ids import NodeId
from roost.errors import Failure, RoostError
from roost.gateway.control_words import HEADERS, VERSION_HEADER, answer, incompatible

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.fleet.watching.views import NodeView
    from roost.gateway.mind import Mind
    from roost.gateway.node_link import NodeLink
    from roost.gateway.routes import Call

ADMIN = "admin"
NOT_ADMIN = Failure(
    "forbidden", "This needs a key of the role admin: `roost keys add NAME --role admin`."
)
NO_NODE = Failure("not_found", "No node of this id is known; `roost fleet` lists them.")
NOT_HERE = Failure("not_found", "The node is known, and has no link to this gateway now.")


def refusing(serve: Callable[[Call], None]) -> Callable[[Call], None]:
    """Make an endpoint of what raises where it refuses."""

    def endpoint(call: Call) -> None:
        try:
            serve(call)
        except RoostError as error:
            call.exchange.fail(error.failure)

    return endpoint


def spoken(serve: Callable[[Call], None], *, admins: bool = False) -> Callable[[Call], None]:
    """Make an endpoint of the control protocol: in a version that is spoken, for those who may."""

    def checked(call: Call) -> None:
        wrong = incompatible(call.exchange.fields.get(VERSION_HEADER))
        if admins and call.role != ADMIN:
            wrong = NOT_ADMIN
        if wrong is not None:
            raise RoostError(wrong)
        serve(call)

    return refusing(checked)


def answered(call: Call, data: object) -> None:
    """Answer in the control protocol's envelope."""
    call.exchange.reply(200, HEADERS, answer(data, call.exchange.request_id))


def linked(mind: Mind, name: str) -> tuple[NodeLink, NodeView]:
    """Give a node's link, and what it has said; raises `not_found` where there is none."""
    node = NodeId(name)
    link, view = mind.links.get(node), mind.coordinator.node(node)
    if link is None or view is None:
        raise RoostError(NO_NODE if view is None else NOT_HERE)
    return link, view
