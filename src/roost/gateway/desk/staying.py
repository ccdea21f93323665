"""SHELL: how long a model stays loaded, as a request for it may say in Ollama's API.

Nodes are their operators', and so is what they keep: a wish counts where the caller has a key of
the role admin, or where nobody needs one. It is passed on as operators' orders are, to every node
that has the model loaded, once its answer is complete, so that the runtime is there by then.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from roost.dialects.openai.errors import model_not_found
from roost.errors import Failure
from roost.fleet.line.allowances import not_allowed
from roost.gateway.desk.endpoints import ADMIN
from roost.wire.messages import Order

if TYPE_CHECKING:
    from roost.core.ids import ModelId, NodeId
    from roost.core.snapshots import OrderKind
    from roost.dialects.stay import Stay
    from roost.gateway.mind import Mind
    from roost.gateway.node_link import NodeLink
    from roost.gateway.routes import Call
    from roost.gateway.turns.turn import Turn

UNLOAD_WAIT_S = 10.0
"""A model that is to go may be in use for so much longer; then it stays."""
NOT_YOURS = Failure(
    "forbidden",
    "Unloading a model needs a key of the role admin: `roost keys add NAME --role admin`.",
    "keep_alive",
)


class Staying:
    """Passes wishes on to nodes; one that a node has heard already is not said again."""

    def __init__(self, mind: Mind) -> None:
        self._mind = mind
        self._told: dict[tuple[NodeId, ModelId], tuple[NodeLink, float]] = {}

    def heeds(self, call: Call) -> bool:
        """Whether this caller's wishes count."""
        return call.role == ADMIN

    def keeper(self, stay: Stay) -> Wish | None:
        """Make what carries a wish out at a turn's end; None where there is none."""
        return None if stay.keep_s is None else Wish(self, stay.keep_s)

    def unload(self, call: Call, model: ModelId) -> Failure | None:
        """Have a model go that is asked for nothing else; or say why not."""
        if not self._mind.limiter.may_use(call.principal.account, model):
            return not_allowed(model)
        # Who may not unload anything learns nothing of what there is either.
        if not self.heeds(call):
            return NOT_YOURS
        if not any(offer.model == model for offer in self._mind.coordinator.models()):
            return model_not_found(model)
        self.apply(model, 0.0)
        return None

    def apply(self, model: ModelId, keep_s: float) -> None:
        """Tell every node that has the model loaded: 0 is to unload it, less than 0 for ever."""
        links = self._mind.links
        self._told = {key: told for key, told in self._told.items() if key[0] in links}
        for node in self._mind.coordinator.fleet():
            link = links.get(node.id)
            # A node tells of every model that was ever wanted there, loaded or not.
            ready = (one for one in node.runtimes if one.state == "ready")
            view = next((one for one in ready if one.model == model), None)
            if link is None or node.orders is None or view is None:
                continue
            told = self._told.get((node.id, model))
            self._told[node.id, model] = link, keep_s
            # An operator may have had another word since.
            if keep_s and told == (link, keep_s) and view.pinned == (keep_s < 0):
                continue
            for order in _orders(model, keep_s):
                self._mind.log.info("order_sent", node=node.id, model=model, what=order.what)
                link.order(order)


class Wish:
    """The keeper of a turn whose request says how long its model stays."""

    def __init__(self, staying: Staying, keep_s: float) -> None:
        self._staying = staying
        self._keep_s = keep_s

    def over(self, turn: Turn) -> None:
        """Carry the wish out, unless nothing came of the request."""
        if turn.finished is not None:
            self._staying.apply(turn.request.model, self._keep_s)


def _orders(model: ModelId, keep_s: float) -> list[Order]:
    """Put a wish into orders; a report may be older than the last pin, so all of it is said."""
    if keep_s < 0:
        return [_order(model, "pin")]
    unpin = _order(model, "unpin", keep_s=keep_s or None)
    return [unpin] if keep_s else [unpin, _order(model, "unload", wait_s=UNLOAD_WAIT_S)]


def _order(
    model: ModelId, what: OrderKind, *, wait_s: float = 0.0, keep_s: float | None = None
) -> Order:
    return Order(secrets.token_hex(6), model, what, wait_s=wait_s, keep_s=keep_s)
