"""SHELL: what operators and tenants may ask and change: receipts, cancelling, draining nodes.

A tenant sees and stops its own requests; of others' it does not even learn whether they exist.
Nodes are for operators: keys of the role admin, or anybody on this machine while no key exists.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from roost.core.ids import NodeId, RequestId
from roost.errors import Failure, RoostError
from roost.gateway.desk.endpoints import ADMIN, NO_NODE, NOT_ADMIN, refusing
from roost.gateway.desk.ordering import ORDERS, Ordering
from roost.gateway.desk.pulling import cancel_pull, pull_onto
from roost.gateway.front.rendering import JSON_BODY
from roost.gateway.replay.reattach import STREAM

if TYPE_CHECKING:
    from collections.abc import Callable

    from roost.fleet.watching.receipts import Receipt
    from roost.fleet.watching.views import NodeView
    from roost.gateway.mind import Mind
    from roost.gateway.replay.reattach import Reattach
    from roost.gateway.routes import Call, Routes
    from roost.observe.logs import Log

NO_REQUEST = Failure("not_found", "No request of this id is known; receipts are kept for a day.")
DRAIN = "drain"
VERBS = (DRAIN, "undrain")
PULL = "pull"


class Operations:
    """Endpoints that look into single requests, or change what nodes do."""

    def __init__(self, mind: Mind, reattach: Reattach, ordering: Ordering) -> None:
        self._mind = mind
        self._ordering = ordering
        self._reattach = reattach

    def add_to(self, routes: Routes) -> None:
        """Put these endpoints into the table."""
        routes.add("GET", "/roost/v1/queue", self.queue)
        routes.add("GET", "/roost/v1/requests/{rest}", self.receipt)
        routes.add("DELETE", "/roost/v1/requests/{rest}", self.cancel)
        routes.add("POST", "/roost/v1/nodes/{rest}", refusing(self.node))
        routes.add("DELETE", "/roost/v1/nodes/{rest}", refusing(self.end_pull))

    def queue(self, call: Call) -> None:
        """GET /roost/v1/queue: who waits, in what order and for how long; a tenant sees its own."""
        mind = self._mind
        line = mind.coordinator.queue(mind.now_s)
        seen = [one for one in line if call.role == ADMIN or one.tenant == call.tenant]
        body = {"length": len(line), "requests": seen}
        call.exchange.reply(200, JSON_BODY, msgspec.json.encode(body))

    def receipt(self, call: Call) -> None:
        """GET /roost/v1/requests/{id}: where it went and why; with /stream, its events."""
        if call.rest.endswith(STREAM):
            self._reattach.stream(call)
            return
        found = self._find(call)
        if found is None:
            call.exchange.fail(NO_REQUEST)
        else:
            call.exchange.reply(200, JSON_BODY, msgspec.json.encode(found))

    def cancel(self, call: Call) -> None:
        """DELETE /roost/v1/requests/{id}: stop it wherever it is; the reply is its receipt."""
        tenant = None if call.role == ADMIN else call.tenant
        if self._mind.cancel_expected(RequestId(call.rest), tenant):
            call.exchange.reply(202, JSON_BODY, msgspec.json.encode({"request": call.rest}))
            return
        if self._find(call) is None:
            call.exchange.fail(NO_REQUEST)
            return
        self._mind.cancel(RequestId(call.rest), tenant)
        call.exchange.reply(202, JSON_BODY, msgspec.json.encode(self._find(call)))

    def node(self, call: Call) -> None:
        """POST /roost/v1/nodes/{id}/drain, …/undrain, …/pull, and orders about models."""
        name, _, verb = call.rest.rpartition("/")
        if call.role == ADMIN and verb == PULL:
            pull_onto(self._mind, call, name)
        elif call.role == ADMIN and verb in ORDERS:
            self._ordering.order(call, name, verb)
        else:
            change_node(call, self._view, self._park, self._mind.log)

    def end_pull(self, call: Call) -> None:
        """DELETE /roost/v1/nodes/{id}/pull/{job}: have a node give up what it fetches."""
        name, found, job = call.rest.rpartition(f"/{PULL}/")
        if call.role != ADMIN:
            raise RoostError(NOT_ADMIN)
        if not found:
            raise RoostError(NO_NODE)
        cancel_pull(self._mind, call, name, job)

    def _view(self, name: str) -> NodeView | None:
        return self._mind.coordinator.node(NodeId(name))

    def _park(self, name: str, verb: str) -> None:
        self._mind.park_node(NodeId(name), parked=verb == DRAIN)

    def _find(self, call: Call) -> Receipt | None:
        mind = self._mind
        receipt = mind.coordinator.receipt(RequestId(call.rest), mind.now_s)
        if receipt is None or (call.role != ADMIN and receipt.tenant != call.tenant):
            return None
        return receipt


def sees_tenants(call: Call) -> bool:
    """Whether a caller may learn who else there is: an operator, or where nobody needs a key."""
    return call.role == ADMIN or call.principal.tenant is None


def change_node(
    call: Call, view: Callable[[str], NodeView | None], park: Callable[[str, str], None], log: Log
) -> None:
    """Answer POST /roost/v1/nodes/{id}/drain and …/undrain with the node as it is after that.

    `view` shows a node, None where there is none of this id; `park` is told which of
    the two `VERBS` it is.
    """
    name, _, verb = call.rest.rpartition("/")
    if call.role != ADMIN:
        call.exchange.fail(NOT_ADMIN)
    elif verb not in VERBS or view(name) is None:
        call.exchange.fail(NO_NODE)
    else:
        log.info("operated", by=call.tenant, what=verb, node=name)
        park(name, verb)
        call.exchange.reply(200, JSON_BODY, msgspec.json.encode(view(name)))
