"""MACHINE: where models are to be loaded: it asks nodes, and says what every load would cost.

Requests start loads as well, by being sent to a node without a runtime, which `board` allows only
where nobody runs or loads their model. Whatever more the fleet wants, it gets from here.
"""

from __future__ import annotations

from roost.core.engine import Mode
from roost.core.ids import ModelId, NodeId
from roost.core.snapshots import RuntimeView
from roost.fleet.books import Books
from roost.fleet.choice.scoring import Ask
from roost.fleet.effects import Want
from roost.fleet.field import Candidate, Field
from roost.fleet.models import placement
from roost.fleet.models.placement import Aim, Demand, Evicted, Site, SiteState
from roost.fleet.nodes.registry import Node
from roost.fleet.watching.views import PlacementView, SiteView

_TAKES_WORK = frozenset({"", "busy", "cold", "loading", "no_room"})
_STATES: dict[str, SiteState] = {"ready": "ready", "coming": "loading", "cold": "cold"}


class Placer:
    """Looks at every model that somebody waits for or runs, or that is to be kept."""

    def __init__(self, books: Books) -> None:
        self._books = books
        self._waiting_since_s: dict[ModelId, float] = {}
        self._look_s = 0.0

    def look(self, now: float) -> None:
        """Ask for what is missing; cheap enough for every report, and seldom more than that."""
        if now < self._look_s:
            return
        self._look_s = now + self._books.settings.placement_s
        self._forget_asked(now)
        waiting = self._books.queue.by_model()
        since_s = self._waiting_since_s
        self._waiting_since_s = {model: since_s.get(model, now) for model in waiting}
        kept = map(ModelId, self._books.settings.keep)
        for model in sorted({*waiting, *kept, *self._books.leases.models()}):
            for sites, demand in self._kinds(model, self.sites(model, now), now):
                site = placement.to_ask(self._aim(model), sites, demand)
                if site is not None:
                    self._ask(site.node, model, now)

    def cheapest(self, ask: Ask, model: ModelId, field: Field, now: float) -> Field:
        """Of the nodes that a request could go to, those where its model is loaded for least."""
        out = ask.tried | ask.resting
        able = {one.node for one in field.candidates if not one.closed and one.node not in out}
        sites = [site for site in self.sites(model, now) if site.node in able]
        best = placement.cheapest(sites)
        return field.only(lambda one: one.node in best) if best else field

    def sites(self, model: ModelId, now: float) -> list[Site]:
        """Every linked node that offers the model, as a place for it."""
        field = self._books.prospects.candidates(model, now)
        nodes = ((one, self._books.registry.get(one.node)) for one in field.candidates)
        return [self._site(one, node, model) for one, node in nodes if node is not None]

    def views(self, now: float) -> tuple[PlacementView, ...]:
        """Every model that a linked node offers, by name."""
        nodes = [node for node in self._books.registry.all() if node.linked]
        models = sorted({model for node in nodes for model in node.offers})
        return tuple(self._view(model, now) for model in models)

    def _view(self, model: ModelId, now: float) -> PlacementView:
        sites, aim = self.sites(model, now), self._aim(model)
        kinds = self._kinds(model, sites, now)
        demands = [demand for _, demand in kinds]
        waiting = sum(demand.waiting for demand in demands)
        ready, loading = placement.count(sites)
        return PlacementView(
            model=model,
            wanted=sum(placement.wanted(aim, *kind) for kind in kinds),
            ready=ready,
            loading=loading,
            waiting=waiting,
            queue_s=max(demand.queue_s for demand in demands) if waiting else None,
            nodes=tuple(self._site_view(site, model) for site in sites),
        )

    def _site_view(self, site: Site, model: ModelId) -> SiteView:
        node = self._books.registry.get(site.node)
        return site_view(site, node.runtimes.get(model) if node is not None else None)

    def _site(self, one: Candidate, node: Node, model: ModelId) -> Site:
        view, load = node.runtimes.get(model), node.crowded.get(model)
        loads, size_bytes = self._books.prospects.board.loads, node.offers[model].size_bytes
        cold = one.stage == "cold"
        usable = one.closed in _TAKES_WORK
        stuck = cold and load is not None
        why = one.closed
        if usable:
            why = load.why if cold and load is not None else ""
            if one.closed == "no_room" and not why:
                why = "leaving"
        wait_s: float | None = 0.0
        if stuck and load is not None and load.why:
            wait_s = load.in_s
        elif one.closed == "no_room":
            wait_s = None
        return Site(
            node=node.id,
            state=_STATES[one.stage] if usable else "closed",
            load_s=loads.predict_s(node.id, model, size_bytes),
            why=why,
            wait_s=wait_s,
            ahead_s=self._books.leases.ahead(node.id, model) * one.prefill_s,
            evicts=tuple(self._evicted(m, node) for m in load.evicts) if stuck and load else (),
            progress=view.progress if view is not None and one.stage == "coming" else None,
            hears=node.status is not None and node.status.loads is not None,
            asked=(node.id, model) in self._books.prospects.board.asked,
            streams=one.in_flight,
        )

    def _evicted(self, model: ModelId, node: Node) -> Evicted:
        books = self._books
        view, offer = node.runtimes.get(model), node.offers.get(model)
        size_bytes = offer.size_bytes if offer is not None else 0
        others = (n for n in books.registry.all() if n.linked and n is not node)
        return Evicted(
            model,
            books.prospects.board.loads.predict_s(node.id, model, size_bytes),
            (view.idle_s if view is not None else None) or 0.0,
            sum(other.runtime(model) is not None for other in others),
        )

    def _aim(self, model: ModelId) -> Aim:
        settings = self._books.settings
        return Aim(settings.keep.get(model, 0), settings.replicas)

    def _kinds(
        self, model: ModelId, sites: list[Site], now: float
    ) -> list[tuple[list[Site], Demand]]:
        """For each thing that the model does somewhere: where that is, and who waits for it."""
        kinds: dict[Mode, list[Site]] = {}
        for site in sites:
            mode = self._books.registry.mode(site.node, model)
            if mode is not None:
                kinds.setdefault(mode, []).append(site)
        return [(kinds[mode], self._demand(model, mode, now)) for mode in sorted(kinds)]

    def _demand(self, model: ModelId, mode: Mode, now: float) -> Demand:
        """Who waits for a runtime of this model; a cap on the whole fleet is another matter."""
        books = self._books
        if 0 < books.settings.max_decodes <= len(books.leases):
            return Demand()
        waiting = books.queue.by_model().get(model, 0)
        field = books.prospects.candidates(model, now)
        if books.is_mixed(model):
            calls = (books.waiting(one.request) for one in books.queue.entries())
            waiting = sum(call.model == model and call.terms.mode == mode for call in calls)
            field = field.only(lambda one: books.registry.mode(one.node, model) == mode)
        full = _is_full(field)
        if not waiting:
            return Demand(full=full)
        waited_s = now - self._waiting_since_s.get(model, now)
        return Demand(waiting, waited_s, books.eta_s(model, waiting - 1, now), full)

    def _ask(self, node: NodeId, model: ModelId, now: float) -> None:
        board = self._books.prospects.board
        board.asked[node, model] = now + self._books.settings.want_s
        board.touch(node)
        self._books.out.append(Want(node, model))

    def _forget_asked(self, now: float) -> None:
        board = self._books.prospects.board
        for key in [key for key, until_s in board.asked.items() if until_s <= now]:
            del board.asked[key]
            board.touch(key[0])


def _is_full(field: Field) -> bool:
    """Whether the model has runtimes that take work, and not a place is left on any."""
    ready = [one.closed for one in field.candidates if one.stage == "ready"]
    return "busy" in ready and "" not in ready


def site_view(site: Site, runtime: RuntimeView | None) -> SiteView:
    """What people see of it; `runtime` is what the node reports of the model there."""
    there = runtime if site.state in ("ready", "loading") else None
    return SiteView(
        node=site.node,
        state=site.state,
        progress=site.progress,
        load_s=site.load_s,
        price_s=placement.price_s(site),
        wait_s=site.wait_s,
        evicts=tuple(one.model for one in site.evicts),
        evict_s=sum(map(placement.eviction_s, site.evicts), 0.0),
        why=site.why,
        pinned=there is not None and there.pinned,
        idle_s=there.idle_s if there is not None else None,
        unload_in_s=there.unload_in_s if there is not None else None,
    )
