"""WIRING: `roost models load`, `unload`, `pin`, `unpin`: what nodes of a gateway do with models."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec

from roost.cli.client import ask, fleet_as, read_as
from roost.cli.following import ALL, Job, Seen, follow, told
from roost.cli.standing import standing, state
from roost.core.ids import ModelId
from roost.core.snapshots import ModelOffer, OrderView, RuntimeView
from roost.errors import fail
from roost.text.screen import in_one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from roost.config import Settings

SAID = {"load": "loaded", "unload": "unloaded", "pin": "pinned", "unpin": "not pinned any more"}


class Wish(msgspec.Struct, frozen=True):
    """What is wanted of a model; `wait_s` is how long an unload may wait for an idle moment."""

    what: str
    model: str
    force: bool = False
    wait_s: float = 0.0


class _Node(msgspec.Struct, frozen=True):
    id: str
    state: str
    models: tuple[ModelOffer, ...] = ()
    runtimes: tuple[RuntimeView, ...] = ()
    orders: tuple[OrderView, ...] | None = None

    def runtime(self, model: str) -> RuntimeView | None:
        """What it says of this model's runtime, if it has one."""
        found = (one for one in self.runtimes if one.model == model and one.runtime is not None)
        return next(found, None)


class _Site(msgspec.Struct, frozen=True):
    node: str
    price_s: float | None


class _Place(msgspec.Struct, frozen=True):
    model: str
    nodes: tuple[_Site, ...]


class _Placement(msgspec.Struct, frozen=True):
    models: tuple[_Place, ...]


class _Job(msgspec.Struct, frozen=True):
    node: str
    job: str
    model: str


class _Sent(msgspec.Struct, frozen=True):
    model: str
    force: bool
    wait_s: float
    answer_s: float = 0.0


def carry_out(settings: Settings, wish: Wish, node: str) -> int:
    """Have one node, all of them, or those that it is about do it; 1 where one of them did not.

    Leaving does not stop them: what was ordered is theirs to finish.
    """
    nodes = _nodes(settings, wish, node)
    if not nodes:
        print(f"{in_one_line(wish.model)} is not loaded anywhere")
        return 0
    sent = _Sent(wish.model, wish.force, wish.wait_s)
    jobs = [told(settings, name, wish.what, sent, _Job) for name in nodes]
    models = {(job.node, job.job): job.model for job in jobs if job}
    done = follow(models, partial(_orders, settings, wish, models))
    return 0 if done and all(jobs) else 1


def _nodes(settings: Settings, wish: Wish, wanted: str) -> list[str]:
    if wanted not in ("", ALL):
        return [wanted]
    here = [one for one in fleet_as(settings, _Node) if one.state != "dead"]
    able = [one for one in here if any(offer.model == wish.model for offer in one.models)]
    if not able:
        name = in_one_line(wish.model)
        message = f"No node that is here has a model {name}. See: roost fleet"
        raise fail("model_not_found", message)
    if wanted == ALL or len(able) == 1:
        return [one.id for one in able]
    having = [one.id for one in able if one.runtime(wish.model)]
    if wish.what == "load" and not having:
        return [_cheapest(settings, wish.model, able)]
    if wish.what == "pin" and not having:
        message = "No node has it loaded: load it first, or name the node with --node."
        raise fail("bad_request", message, param="node")
    return having


def _cheapest(settings: Settings, model: str, able: Sequence[_Node]) -> str:
    """Name the node where a runtime costs least; any where no price is known."""
    found = read_as(ask(settings, "/roost/v1/placement"), _Placement).models
    sites = (site for place in found if place.model == model for site in place.nodes)
    prices = {site.node: site.price_s for site in sites}

    def price(node: _Node) -> tuple[bool, float]:
        price_s = prices.get(node.id)
        return price_s is None, price_s or 0.0

    return min(able, key=price).id


def _orders(settings: Settings, wish: Wish, models: Mapping[Job, str]) -> dict[Job, Seen]:
    return {
        job: _seen(node, order, wish.what, models[job])
        for node in fleet_as(settings, _Node)
        for order in node.orders or ()
        if (job := (node.id, order.job)) in models
    }


def _seen(node: _Node, order: OrderView, what: str, model: str) -> Seen:
    if not order.is_over:
        return Seen(_state(node.runtime(model)))
    if order.failure is not None:
        return Seen(in_one_line(order.failure.message), over=True, failed=True)
    return Seen(f"{in_one_line(model)} is {SAID[what]}", over=True)


def _state(view: RuntimeView | None) -> str:
    """Say in a few words what a runtime does."""
    return "waits for room" if view is None else state(msgspec.to_builtins(view))


def loaded(settings: Settings) -> dict[ModelId, str]:
    """Say how each model stands that some node has a runtime of, for lists."""
    found: dict[ModelId, str] = {}
    for node in fleet_as(settings, _Node):
        for view in node.runtimes if node.state != "dead" else ():
            if view.runtime is not None:
                others = f"{found[view.model]}; " if view.model in found else ""
                found[view.model] = others + standing(msgspec.to_builtins(view))
    return found
