"""SHELL: operators have a node load, unload, pin or unpin a model, and hear what came of it.

The node says that in its reports. Whoever asks waits `answer_s` for it at most: then he is told the
order's job, by which `/roost/v1/fleet` goes on telling of it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, cast, get_args

import msgspec

from roost.core.ids import ModelId
from roost.core.snapshots import OrderKind, OrderView
from roost.errors import Failure, RoostError, fail
from roost.gateway.desk.api_types import OrderAsked, OrderTold
from roost.gateway.desk.bodies import read_json
from roost.gateway.desk.endpoints import linked
from roost.gateway.front.rendering import JSON_BODY
from roost.wire.messages import Order

if TYPE_CHECKING:
    from roost.core.ids import NodeId
    from roost.gateway.front.exchange import Exchange
    from roost.gateway.mind import Mind
    from roost.gateway.routes import Call

ORDERS: tuple[str, ...] = get_args(OrderKind)
WAIT_MAX_S = 600.0
NAME_MAX_CHARACTERS = 512
NO_ORDERS = Failure("unsupported", "This node takes no orders: its roost is an older one.")
LEFT = Failure("node_lost", "The node has left before it said what came of the order.")


class _Waiting(NamedTuple):
    node: NodeId
    exchange: Exchange
    timer: asyncio.TimerHandle


class Ordering:
    """Passes orders on and waits for what nodes say of them; `close` stops the clock.

    `aliases` are other names of models.
    """

    def __init__(self, mind: Mind, aliases: Mapping[str, str]) -> None:
        self._mind = mind
        self.aliases = aliases
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[str, _Waiting] = {}
        mind.on_report.append(self._look)

    def close(self) -> None:
        """Wait for nothing more."""
        for waiting in self._waiting.values():
            waiting.timer.cancel()
        self._waiting.clear()

    def order(self, call: Call, name: str, verb: str) -> None:
        """Answer POST /roost/v1/nodes/{id}/load, …/unload, …/pin and …/unpin.

        200 once it is done, 202 where that takes longer than `answer_s`, or why it is not done;
        raises why it is not even begun.
        """
        what = cast("OrderKind", verb)
        link, node = linked(self._mind, name)
        if node.orders is None:
            raise RoostError(NO_ORDERS)
        asked = _read(call.exchange.take_body())
        model = ModelId(self.aliases.get(asked.model, asked.model))
        job = secrets.token_hex(6)
        timer = self._loop.call_later(asked.answer_s, self._tell, OrderView(job, model, what))
        self._waiting[job] = _Waiting(node.id, call.exchange, timer)
        facts = {"model": model, "what": what, "job": job, "by": call.tenant}
        self._mind.log.info("order_sent", node=node.id, **facts)
        link.order(Order(job, model, what, asked.force, asked.wait_s))

    def _look(self, node: NodeId) -> None:
        """See what a node has said, or that it is gone."""
        mine = {job for job, one in self._waiting.items() if one.node == node}
        if not mine:
            return
        view = self._mind.coordinator.node(node)
        if node not in self._mind.links or view is None:
            for job in mine:
                waiting = self._waiting.pop(job)
                waiting.timer.cancel()
                waiting.exchange.fail(LEFT)
            return
        for order in view.orders or ():
            if order.job in mine and order.is_over:
                self._tell(order)

    def _tell(self, order: OrderView) -> None:
        """Tell who waits what is known of an order."""
        waiting = self._waiting.pop(order.job)
        waiting.timer.cancel()
        if order.failure is not None:
            waiting.exchange.fail(order.failure)
            return
        body = OrderTold(waiting.node, order.job, order.model, order.what, order.done)
        status = 200 if order.done else 202
        waiting.exchange.reply(status, JSON_BODY, msgspec.json.encode(body))


def _read(body: bytes) -> OrderAsked:
    example = '{"model": …}, with "force", "wait_s" and "answer_s" if need be'
    asked = read_json(body, OrderAsked, example)
    if not 0 < len(asked.model) <= NAME_MAX_CHARACTERS or not asked.model.isprintable():
        raise fail("bad_request", "This is no name of a model.", param="model")
    for name, wait_s in (("wait_s", asked.wait_s), ("answer_s", asked.answer_s)):
        if not 0 <= wait_s <= WAIT_MAX_S:
            message = f"`{name}` is from 0 to {WAIT_MAX_S:g} seconds."
            raise fail("bad_request", message, param=name)
    return asked
