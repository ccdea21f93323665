"""MACHINE: the fleet as one request sees it: registry, leases, homes and back-off seen together."""

from __future__ import annotations

from dataclasses import dataclass

from roost.core.ids import ModelId, NodeId
from roost.core.snapshots import RuntimeView
from roost.fleet.affinity import Affinity, Home, extend
from roost.fleet.calls import Call
from roost.fleet.leases import Leases
from roost.fleet.registry import Node, Registry
from roost.fleet.routing import Ask, Candidate
from roost.fleet.settings import FleetSettings


@dataclass(slots=True)
class _Backoff:
    until_s: float
    in_a_row: int


class Prospects:
    """Turns what is known into candidates and wishes; decides nothing."""

    def __init__(self, settings: FleetSettings, registry: Registry, leases: Leases) -> None:
        self._settings = settings
        self._registry = registry
        self._leases = leases
        self._homes = Affinity(settings.affinity_entries, settings.affinity_ttl_s)
        self._backoffs: dict[tuple[NodeId, ModelId], _Backoff] = {}

    @property
    def homes(self) -> int:
        """How many histories have a known home."""
        return len(self._homes)

    def candidates(self, model: ModelId, now: float) -> list[Candidate]:
        """Linked nodes that offer the model.

        A node whose last load failed counts only where nobody else offers the model: then another
        try, or the node's own reason, helps the client more than a refusal from here.
        """
        serving = self._registry.serving(model)
        choosy = any(node.offers[model].usable and not node.draining for node in serving)
        return [self._candidate(node, model, now, choosy=choosy) for node in serving]

    def ask(self, call: Call, now: float) -> Ask:
        """What this request wants: its home, if it has one that is still of use."""
        tried = frozenset(call.tried)
        home = self._homes.lookup(call.terms.chain, now)
        if home is None:
            return Ask(tried=tried)
        node = self._registry.get(home.node)
        if node is None or not node.linked:
            return Ask(lost="home_gone", tried=tried)
        runtime = node.runtime(call.model)
        if home.runtime is not None and runtime is not None and runtime != home.runtime:
            return Ask(lost="runtime_replaced", tried=tried)
        return Ask(home=home.node, tried=tried)

    def settled(self, call: Call, node: NodeId, now: float) -> None:
        """The request's whole prompt is in this node's KV."""
        if call.terms.chain:
            self._homes.remember(call.terms.chain[-1], self._home(call.model, node), now)

    def answered(self, call: Call, node: NodeId, answer: str, now: float) -> None:
        """So is its answer: the next turn will begin with both."""
        if call.terms.chain:
            key = extend(call.terms.chain[-1], "assistant", answer)
            self._homes.remember(key, self._home(call.model, node), now)

    def no_room(self, node: NodeId, model: ModelId, now: float) -> None:
        """The node refused although it should have had room: leave it alone for a while.

        Its other models are still asked for: a node's limits are per model.
        """
        backoff = self._backoffs.setdefault((node, model), _Backoff(now, 0))
        longest = self._settings.busy_backoff_max_s
        backoff.until_s = now + min(longest, self._settings.busy_backoff_s * 2**backoff.in_a_row)
        backoff.in_a_row = min(backoff.in_a_row + 1, 16)

    def room(self, node: NodeId, model: ModelId) -> None:
        """The node took a request for this model."""
        self._backoffs.pop((node, model), None)

    def joined(self, node: NodeId) -> None:
        """The node is a new one: nothing is held against it."""
        self._backoffs = {key: wait for key, wait in self._backoffs.items() if key[0] != node}

    def next_room_s(self, now: float) -> float | None:
        """When the next node may be asked again."""
        return min((b.until_s for b in self._backoffs.values() if b.until_s > now), default=None)

    def _home(self, model: ModelId, node: NodeId) -> Home:
        record = self._registry.get(node)
        return Home(node, record.runtime(model) if record is not None else None)

    def _candidate(self, node: Node, model: ModelId, now: float, *, choosy: bool) -> Candidate:
        backoff = self._backoffs.get((node.id, model))
        return Candidate(
            node=node.id,
            state=self._registry.state(node, now),
            usable=node.offers[model].usable or not choosy,
            draining=node.draining,
            held=self._leases.held(node.id, model),
            capacity=capacity(node, model, self._settings.max_in_flight),
            in_flight=self._leases.in_flight(node.id) + node.others,
            kv_share=kv_share(node.runtimes.get(model)),
            backing_off=backoff is not None and now < backoff.until_s,
        )


def capacity(node: Node, model: ModelId, max_in_flight: int) -> int:
    """How many streams of this model the node may have from here: the smallest of all limits."""
    if node.status is None:
        return 0
    limit = min(node.offers[model].slots, node.status.max_in_flight)
    return max(0, min(limit, max_in_flight) if max_in_flight > 0 else limit)


def kv_share(view: RuntimeView | None) -> float | None:
    """Used part of the runtime's KV cells, 0..1; None while there is no runtime to ask."""
    if view is None or not view.slots or view.ctx <= 0:
        return None
    return min(1.0, sum(slot.tokens for slot in view.slots) / (view.ctx * len(view.slots)))
