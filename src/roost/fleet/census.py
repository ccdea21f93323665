"""DECIDER: the fleet as people and clients see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from roost.core.ids import ModelId
from roost.core.snapshots import ModelOffer
from roost.fleet.books import Books
from roost.fleet.choice.leases import Leases
from roost.fleet.nodes.registry import Node
from roost.fleet.watching.views import NodeView, Statistics


def node_view(node: Node, leases: Leases) -> NodeView:
    """One node with what its leases take; figures of a dead link are not repeated."""
    status = node.status if node.linked else None
    return NodeView(
        id=node.id,
        name=node.name,
        state=node.state,
        in_flight=leases.in_flight(node.id),
        draining=node.draining,
        models=tuple(node.offers.values()),
        runtimes=status.runtimes if status is not None else (),
        max_in_flight=status.max_in_flight if status is not None else 0,
        rss_bytes=status.rss_bytes if status is not None else None,
        sessions=status.sessions if status is not None else None,
        load_1m=status.load_1m if status is not None else None,
        memory=status.memory if status is not None else None,
        kv_reserved_bytes=kv_reserved_bytes(node, leases),
        orders=status.orders if status is not None else None,
        pulls=status.pulls if status is not None else None,
        about=status.about if status is not None else None,
        reported=status is not None,
        takes_wants=status is not None and status.loads is not None,
        max_runtimes=status.max_runtimes if status is not None else 0,
        max_runtime_bytes=status.max_runtime_bytes if status is not None else 0,
    )


def kv_reserved_bytes(node: Node, leases: Leases) -> int | None:
    """How much KV the leases on a node may fill, by each model's own bytes for a token.

    None where one of them has none that are known.
    """
    total = 0
    for offer in node.offers.values():
        tokens = leases.tokens(node.id, offer.model)
        if tokens and offer.kv_token_bytes is None:
            return None
        total += tokens * (offer.kv_token_bytes or 0)
    return total


def statistics(books: Books) -> Statistics:
    """Gauges and counters as of the last event."""
    nodes = books.registry.all()
    return Statistics(
        waiting=len(books.queue),
        running=books.calls.running(),
        leases=len(books.leases),
        in_flight={node.id: books.leases.in_flight(node.id) for node in nodes},
        nodes=dict(Counter(node.state for node in nodes)),
        homes=books.prospects.homes,
        waiting_by_model=books.queue.by_model(),
        answered=dict(books.answers),
        requests=books.counts["requests"],
        finished=books.counts["finished"],
        clients_gone=books.counts["clients_gone"],
        dispatched=books.counts["dispatched"],
        retried=books.counts["retried"],
        replayed=books.counts["replayed"],
        bounced=books.counts["bounced"],
        warm=books.counts["warm"],
        breakers_opened=books.counts["breakers_opened"],
        stopped={
            name.removeprefix("stopped_"): count
            for name, count in books.counts.items()
            if name.startswith("stopped_")
        },
    )


def offers(nodes: Iterable[Node]) -> tuple[ModelOffer, ...]:
    """One offer for every model of a linked node, by name: one of which anything can be asked.

    Where there is none, one that serves less; of equals a usable one.
    """
    best: dict[ModelId, ModelOffer] = {}
    for node in nodes:
        for offer in node.offers.values() if node.linked else ():
            if offer.model not in best or _worth(offer) > _worth(best[offer.model]):
                best[offer.model] = offer
    return tuple(best[model] for model in sorted(best))


def _worth(offer: ModelOffer) -> tuple[bool, bool]:
    return offer.serves == "all", offer.usable


def can_serve(node: Node) -> bool:
    """Whether the node takes work and has a model whose last load did not fail."""
    return not node.draining and any(offer.usable for offer in node.offers.values())
