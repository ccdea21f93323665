"""DECIDER: what a runtime of a model would cost on each node, and how many of them the fleet wants.

Everything is in seconds, so that a load can be held against a queue:

    price = wait for room + load + prefill that is ahead there + what each evicted model would cost
    what an evicted model would cost = its own load × the chance that it is missed

It is missed if it is asked for again within `HORIZON_S` and no other runtime of it is left. Of
something that has not been used for t seconds, with nothing else known about it, the chance to be
used within the next h is h / (t + h): what has been idle for long will probably stay so. With k
others to go to, 1 in k + 1 of its requests would have come here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from roost.core.ids import ModelId, NodeId

HORIZON_S = 60.0
ALIKE = 0.1
"""Prices that differ by less than this share are equal: they are not known any better."""

SiteState = Literal["ready", "loading", "cold", "closed"]


class Evicted(msgspec.Struct, frozen=True):
    """A runtime that would have to go: its load takes `load_s`, nobody has used it for `idle_s`."""

    model: ModelId
    load_s: float
    idle_s: float
    others: int = 0


class Site(msgspec.Struct, frozen=True):
    """One node as a place for a model.

    `closed` nodes take no work for it, `why` says for what reason; of a `cold` one `why` says what
    keeps it from making room now. `wait_s` is until room can be made, None where nobody knows.
    `load_s` is the whole load, `progress` how far it has come. `hears` is whether it can be asked
    to load, `asked` that it has been lately. `streams` run there, of all models.
    """

    node: NodeId
    state: SiteState
    load_s: float
    why: str = ""
    wait_s: float | None = 0.0
    ahead_s: float = 0.0
    evicts: tuple[Evicted, ...] = ()
    progress: float | None = None
    hears: bool = True
    asked: bool = False
    streams: int = 0


class Demand(msgspec.Struct, frozen=True):
    """Who waits at the gateway: how many, since when there is a line, how long the last waits yet.

    `eta_s` is None before there is a measured rate. `full` is whether every place of the runtimes
    that there are is taken: the next to come will wait, or be refused where there is no line.
    """

    waiting: int = 0
    waited_s: float = 0.0
    eta_s: float | None = None
    full: bool = False

    @property
    def queue_s(self) -> float:
        """How long the line takes, as far as anybody can tell."""
        return self.waited_s if self.eta_s is None else self.eta_s


class Aim(msgspec.Struct, frozen=True):
    """How many runtimes the settings ask for.

    `keep` are loaded before anybody asks, where that costs no other model its runtime. Requests may
    start `replicas` at a time while there is none; 0 lets every node load.
    """

    keep: int = 0
    replicas: int = 1


def eviction_s(evicted: Evicted) -> float:
    """What the loss of this runtime will probably cost, in seconds."""
    missed = HORIZON_S / (HORIZON_S + evicted.idle_s)
    return evicted.load_s * missed / (1 + evicted.others)


def price_s(site: Site) -> float | None:
    """Seconds that a runtime there costs; None where none can be had, or nobody knows when.

    One that is ready costs nothing but the wait in front of it, one that loads the rest of its
    load.
    """
    if site.state == "closed" or site.wait_s is None:
        return None
    if site.state == "ready":
        return site.ahead_s
    load_s = site.load_s * (1.0 - (site.progress or 0.0))
    if site.state == "loading":
        return load_s + site.ahead_s
    return site.wait_s + load_s + site.ahead_s + sum(map(eviction_s, site.evicts))


def wanted(aim: Aim, sites: Sequence[Site], demand: Demand) -> int:
    """How many runtimes of a model there should be, loads under way included.

    One more than there are if the line in front of them takes longer than the cheapest load, or if
    they are full and a node has room that nobody uses. One at a time, since a load under way may be
    all that was missing.
    """
    ready, loading = count(sites)
    least = max(aim.keep, 1 if demand.waiting else 0)
    if not ready or loading or not aim.replicas:
        return least
    more = _pays(sites, demand) or (demand.full and any(map(_has_room, sites)))
    return max(least, ready + 1) if more else least


def count(sites: Sequence[Site]) -> tuple[int, int]:
    """How many are ready, and how many loads are under way."""
    states = [site.state for site in sites]
    return states.count("ready"), states.count("loading")


def cheapest_s(sites: Sequence[Site]) -> float | None:
    """The price of the cheapest load that could begin."""
    prices = [price_s(site) for site in sites if site.state == "cold"]
    return min((price for price in prices if price is not None), default=None)


def cheapest(sites: Sequence[Site]) -> frozenset[NodeId]:
    """Where a load is cheapest, ties included; nowhere if no price is known."""
    best = cheapest_s(sites)
    if best is None:
        return frozenset()
    limit = best * (1 + ALIKE)
    prices = {site.node: price_s(site) for site in sites if site.state == "cold"}
    return frozenset(node for node, price in prices.items() if price is not None and price <= limit)


def to_ask(aim: Aim, sites: Sequence[Site], demand: Demand) -> Site | None:
    """Which node to ask for one more runtime, if the fleet wants one; the least busy of equals.

    Where no node can make room while its runtimes are in use, a model that nobody runs is still
    asked for: nodes let models take turns, and only who waits there gets one.
    """
    ready, loading = count(sites)
    if ready + loading >= wanted(aim, sites, demand):
        return None
    able = [site for site in sites if site.state == "cold" and site.hears]
    if not demand.waiting or (ready and not _pays(sites, demand)):
        # Nobody loses a runtime for what is merely good to have. Two models that are kept, and room
        # for one: they would evict each other for ever.
        able = [site for site in able if _has_room(site)]
    best = cheapest(able)
    if not best and not ready and not loading:
        best = frozenset(site.node for site in able if site.why != "too_large")
    return min((site for site in able if site.node in best), key=_busy, default=None)


def _pays(sites: Sequence[Site], demand: Demand) -> bool:
    price = cheapest_s(sites)
    return bool(demand.waiting) and price is not None and demand.queue_s > price


def _has_room(site: Site) -> bool:
    return site.state == "cold" and not site.why and not site.evicts


def _busy(site: Site) -> tuple[bool, int]:
    """Who was asked before is asked again: one node that makes room is enough."""
    return not site.asked, site.streams
