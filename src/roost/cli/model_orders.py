"""WIRING: `roost models load`, `unload`, `pin`, `unpin`: what nodes of a gateway do with models."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from roost.cli.client import ask, read_as
from roost.cli.standing import standing, state
from roost.core.ids import ModelId
from roost.core.snapshots import ModelOffer, OrderView, RuntimeView
from roost.errors import Failure, RoostError, fail
from roost.text.screen import in_one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from roost.config import Settings

ALL = "all"
POLL_S = 0.2
LOST_S = 60.0
"""Without a word of an order: its node is gone, or has started anew."""
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


class _Fleet(msgspec.Struct, frozen=True):
    nodes: tuple[_Node, ...]


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
    jobs = [_asked(settings, name, wish) for name in nodes]
    followed = [_follow(settings, job, wish) for job in jobs if job is not None]
    return 0 if all(followed) and all(jobs) else 1


def _nodes(settings: Settings, wish: Wish, wanted: str) -> list[str]:
    if wanted not in ("", ALL):
        return [wanted]
    here = [one for one in _fleet(settings).nodes if one.state != "dead"]
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


def _fleet(settings: Settings) -> _Fleet:
    return read_as(ask(settings, "/roost/v1/fleet"), _Fleet)


def _asked(settings: Settings, node: str, wish: Wish) -> _Job | None:
    """Ask one node; what is wrong with it alone does not keep others from theirs."""
    path = f"/roost/v1/nodes/{quote(node, safe='')}/{wish.what}"
    sent = msgspec.json.encode(_Sent(wish.model, wish.force, wish.wait_s))
    try:
        return read_as(ask(settings, path, "POST", sent), _Job)
    except RoostError as error:
        print(f"{in_one_line(node)}: {error.failure.message}", file=sys.stderr)
        return None


def _follow(settings: Settings, job: _Job, wish: Wish) -> bool:
    """Wait for the end of an order, and show how far a load has come; whether it was done."""
    shown, heard_s = "", time.monotonic()
    while True:
        node = next((one for one in _fleet(settings).nodes if one.id == job.node), None)
        order = next((o for o in (node.orders or () if node else ()) if o.job == job.job), None)
        if order is not None and node is not None:
            heard_s = time.monotonic()
            if order.is_over:
                return _end(job, wish, order.failure)
            line = f"{in_one_line(job.node)}: {_state(node.runtime(job.model))}"
            if line != shown:
                shown = line
                print(line, file=sys.stderr, flush=True)
        elif time.monotonic() - heard_s >= LOST_S:
            lost = Failure("node_lost", "nothing is heard of it any more")
            return _end(job, wish, lost)
        time.sleep(POLL_S)


def _end(job: _Job, wish: Wish, failure: Failure | None) -> bool:
    node, model = in_one_line(job.node), in_one_line(job.model)
    if failure is None:
        print(f"{node}: {model} is {SAID[wish.what]}", flush=True)
    else:
        print(f"{node}: {in_one_line(failure.message)}", file=sys.stderr, flush=True)
    return failure is None


def _state(view: RuntimeView | None) -> str:
    """Say in a few words what a runtime does."""
    return "waits for room" if view is None else state(msgspec.to_builtins(view))


def loaded(settings: Settings) -> dict[ModelId, str]:
    """Say how each model stands that some node has a runtime of, for lists."""
    found: dict[ModelId, str] = {}
    for node in _fleet(settings).nodes:
        for view in node.runtimes if node.state != "dead" else ():
            if view.runtime is not None:
                others = f"{found[view.model]}; " if view.model in found else ""
                found[view.model] = others + standing(msgspec.to_builtins(view))
    return found
