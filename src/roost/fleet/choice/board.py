"""MACHINE: the candidates for each model, kept up to date by events and not made anew per request.

A record is remade when something about its node has changed: a report, a lease, a back-off, its
link. Silence is no event: a record may say that its node is open although it has just gone silent,
so whoever has chosen asks `confirm` before anything is sent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field

from roost.core.engine import Mode
from roost.core.ids import ModelId, NodeId
from roost.core.snapshots import ModelOffer, RuntimeView
from roost.fleet.choice.breakers import Breakers
from roost.fleet.choice.leases import Leases
from roost.fleet.field import Candidate, Field, Stage, field_of
from roost.fleet.models.loads import Loads
from roost.fleet.models.stages import Stages, has_no_room, stage_of
from roost.fleet.nodes.registry import Node, Registry, modes_of
from roost.fleet.pace import Pace
from roost.fleet.settings import FleetSettings

MODELS = 1024
"""Most models with a board; the one made longest ago is made anew when it is asked for again."""


@dataclass(slots=True)
class _Backoff:
    until_s: float
    in_a_row: int


@dataclass(slots=True)
class _Board:
    """One model's records, in order of the nodes' arrival.

    A model may be for different things on different nodes, and whoever is of no use for one thing
    says nothing about another: `choosy` names those for which there is a node to count on.
    """

    field: Field
    choosy: frozenset[Mode]
    stages: dict[Mode, Stages]
    stale: set[NodeId] = dataclass_field(default_factory=set)
    doubtful: bool = False


class Board:
    """Every model's candidates."""

    def __init__(self, settings: FleetSettings, registry: Registry, leases: Leases) -> None:
        self._settings = settings
        self._registry = registry
        self._leases = leases
        self.pace = Pace(settings)
        self.loads = Loads()
        self.asked: dict[tuple[NodeId, ModelId], float] = {}
        self.breakers = Breakers(settings)
        self._boards: dict[ModelId, _Board] = {}
        self._backoffs: dict[tuple[NodeId, ModelId], _Backoff] = {}
        self._silent: set[NodeId] = set()
        self._picked: dict[tuple[NodeId, ModelId], int] = {}
        self._picks = 0
        self._again_s = 0.0

    def candidates(self, model: ModelId, now: float) -> Field:
        """Linked nodes that offer the model.

        A node whose last load failed counts only where nobody else offers the model: then another
        try, or the node's own reason, helps the client more than a refusal from here.
        """
        self._catch_up(now)
        board = self._boards.get(model)
        if board is None:
            board = self._make(model, now)
        elif board.stale:
            self._refresh(board, model, now)
        return board.field

    def refresh(self, now: float) -> None:
        """Remake what has changed; done after an event, so that no request has to wait for it."""
        self._catch_up(now)
        for model, board in self._boards.items():
            if board.stale:
                self._refresh(board, model, now)

    def confirm(self, node: NodeId, now: float) -> bool:
        """Whether the node is alive at this very moment; if not, its records will say so."""
        if self._is_alive(node, now):
            return True
        self._silent.add(node)
        self.touch(node)
        return False

    def _is_alive(self, node: NodeId, now: float) -> bool:
        record = self._registry.get(node)
        return record is not None and self._registry.state(record, now) == "alive"

    def touch(self, node: NodeId) -> None:
        """Something about the node has changed; whom it has not as a candidate has no record."""
        for board in self._boards.values():
            if node in board.field.places:
                board.stale.add(node)

    def reported(self, node: NodeId, before: Mapping[ModelId, ModelOffer]) -> None:
        """A node reported; `before` are the models that it had until now."""
        record = self._registry.get(node)
        if record is None or modes_of(record.offers) != modes_of(before):
            self.reshape()
        else:
            self.touch(node)
            for board in self._boards.values():
                board.doubtful = board.doubtful or node in board.stale
        if record is not None and record.status is not None:
            self.loads.reported(node, record.status)

    def reshape(self) -> None:
        """Nodes or what they offer have changed: begin anew."""
        self._boards.clear()
        known = self._registry.get
        self._picked = {key: turn for key, turn in self._picked.items() if known(key[0])}

    def heard(self, node: NodeId) -> None:
        """The node is not silent any more."""
        self._silent.discard(node)
        self.touch(node)

    def picked(self, node: NodeId, model: ModelId) -> None:
        """The node was chosen."""
        self._picks += 1
        self._picked[node, model] = self._picks

    def no_room(self, node: NodeId, model: ModelId, now: float) -> None:
        """The node refused although it should have had room: leave it alone for a while.

        Its other models are still asked for: a node's limits are per model.
        """
        backoff = self._backoffs.setdefault((node, model), _Backoff(now, 0))
        if now < backoff.until_s:
            # It was sent before the first refusal came: that says nothing new.
            return
        longest = self._settings.busy_backoff_max_s
        backoff.until_s = now + min(longest, self._settings.busy_backoff_s * 2**backoff.in_a_row)
        backoff.in_a_row = min(backoff.in_a_row + 1, 16)
        self._again_s = min(self._again_s, backoff.until_s)
        self.touch(node)

    def room(self, node: NodeId, model: ModelId) -> None:
        """The node took a request for this model."""
        if self._backoffs.pop((node, model), None) is not None:
            self.touch(node)

    def joined(self, node: NodeId) -> None:
        """The node is a new one: nothing is held against it, nothing is known of it."""
        self._forget(node)
        self.reshape()

    def _forget(self, node: NodeId) -> None:
        self._backoffs = {key: wait for key, wait in self._backoffs.items() if key[0] != node}
        self._picked = {key: turn for key, turn in self._picked.items() if key[0] != node}
        self._silent.discard(node)
        self.breakers.joined(node)
        self.pace.joined(node)
        self.loads.joined(node)
        self.asked = {key: until_s for key, until_s in self.asked.items() if key[0] != node}

    def next_room_s(self, now: float) -> float | None:
        """When the next node may be asked again."""
        times = [b.until_s for b in self._backoffs.values() if b.until_s > now]
        half_open_s = self.breakers.next_s(now)
        if half_open_s is not None:
            times.append(half_open_s)
        return min(times, default=None)

    def _catch_up(self, now: float) -> None:
        for node in self._registry.forgotten():
            self._forget(node)
        for node in self._leases.changed():
            self.touch(node)
        if self._silent:
            for node in [node for node in self._silent if self._is_alive(node, now)]:
                self.heard(node)
        if now >= self._again_s:
            for (node, _), backoff in self._backoffs.items():
                if backoff.until_s <= now:
                    self.touch(node)
            for node in self.breakers.due(now):
                self.touch(node)
            again_s = self.next_room_s(now)
            self._again_s = float("inf") if again_s is None else again_s

    def failed(self, node: NodeId, model: ModelId, now: float) -> bool:
        """The node failed a request; True if its breaker has opened by that."""
        opened = self.breakers.failed(node, model, now)
        self._again_s = 0.0
        self.touch(node)
        return opened

    def succeeded(self, node: NodeId, model: ModelId, now: float) -> bool:
        """The node served a request; True if its breaker has closed by that."""
        closed = self.breakers.succeeded(node, model, now)
        if closed:
            self.touch(node)
        return closed

    def _make(self, model: ModelId, now: float) -> _Board:
        serving = self._registry.serving(model)
        choosy = self._choosy((node.id for node in serving), model)
        board = _Board(Field(), choosy, {})
        self._stage(board, model, serving, now)
        board.field = field_of(self._record(node, model, now, board) for node in serving)
        if serving:
            # A name that nobody serves gets no board, or strangers could fill the memory with them.
            self._boards[model] = board
        if len(self._boards) > MODELS:
            del self._boards[next(iter(self._boards))]
        return board

    def _refresh(self, board: _Board, model: ModelId, now: float) -> None:
        stale: Collection[NodeId] = board.stale
        choosy = self._choosy(board.field.places, model) if board.doubtful else board.choosy
        if choosy != board.choosy:
            board.choosy, stale = choosy, [*board.field.places]
        board.doubtful = False
        nodes = self._nodes(name for name in stale if name in board.field.places)
        if self._stage(board, model, nodes, now):
            nodes = self._nodes(board.field.places)
        board.field = board.field.updated(self._record(n, model, now, board) for n in nodes)
        board.stale.clear()

    def _nodes(self, names: Iterable[NodeId]) -> list[Node]:
        nodes = (self._registry.get(name) for name in names)
        return [node for node in nodes if node is not None]

    def _stage(self, board: _Board, model: ModelId, nodes: Iterable[Node], now: float) -> bool:
        """Note how far these nodes' runtimes are; True if that opens or shuts others."""
        changed = False
        for node in nodes if self._settings.replicas else ():
            closed = self._closed(node, model, now, board.choosy)
            stage = self._stage_of(node, model) if closed in ("", "busy") else None
            changed = (
                self._stages(board.stages, node.offers[model].mode).note(node.id, stage) or changed
            )
        return changed

    def _stage_of(self, node: Node, model: ModelId) -> Stage:
        key = node.id, model
        return stage_of(node, model, asked=key in self.asked or self._leases.held(*key) > 0)

    def _stages(self, known: dict[Mode, Stages], mode: Mode) -> Stages:
        if mode not in known:
            known[mode] = Stages(self._settings.replicas)
        return known[mode]

    def _choosy(self, names: Iterable[NodeId], model: ModelId) -> frozenset[Mode]:
        """For what one of these can be counted on, so that broken ones need not be asked."""
        nodes = self._nodes(names)
        offers = (node.offers[model] for node in nodes if not node.draining)
        return frozenset(offer.mode for offer in offers if offer.usable)

    def nobody(self, model: ModelId, mode: Mode) -> bool:
        """Whether no node that takes work runs or loads it for this, as of the last look."""
        board = self._boards.get(model)
        return board is not None and self._stages(board.stages, mode).empty

    def _record(self, node: Node, model: ModelId, now: float, board: _Board) -> Candidate:
        offer, key = node.offers[model], (node.id, model)
        held, room = self._leases.held(*key), capacity(node, model, self._settings.max_in_flight)
        mine = self._leases.in_flight(node.id)
        pace = self.pace.sure(node.id, model, now)
        closed = self._closed(node, model, now, board.choosy)
        if not closed and (held >= room or not self._may_decode(node, mine)):
            closed = "busy"
        stage = self._stage_of(node, model)
        if not closed and stage != "ready":
            closed = self._stages(board.stages, offer.mode).gate.get(stage, "")
            if not closed and stage == "cold" and has_no_room(node, model):
                closed = "no_room"
        prefill_s = pace.prefill.value if pace is not None else 0.0
        return Candidate(
            node=node.id,
            closed=closed,
            stage=stage,
            held=held,
            capacity=room,
            in_flight=mine + node.others,
            kv_share=self._kv_share(node, model),
            picked=self._picked.get(key, 0),
            salt=node.salt,
            sure=pace is not None,
            ahead_s=self._load_s(node, model) + self._leases.ahead(*key) * prefill_s,
            prefill_s=prefill_s,
            decode_s=pace.decode_s(mine + node.others + 1) if pace is not None else 0.0,
            ctx=offer.ctx,
            token_bytes=offer.max_token_bytes,
        )

    def _closed(self, node: Node, model: ModelId, now: float, choosy: frozenset[Mode]) -> str:
        offer = node.offers[model]
        if offer.mode in choosy and not offer.usable:
            return "unusable"
        if node.id in self._silent or node.state != "alive":
            return "suspect"
        if node.draining:
            return "draining"
        if self.breakers.open(node.id, model, now, self._leases.held(node.id, model)):
            return "broken"
        backoff = self._backoffs.get((node.id, model))
        return "busy" if backoff is not None and now < backoff.until_s else ""

    def _may_decode(self, node: Node, mine: int) -> bool:
        most = self._settings.max_decodes_per_node
        if not most or mine < most:
            return True
        if self._settings.decodes_by_slots:
            most = max(most, max((offer.slots for offer in node.offers.values()), default=0))
            if mine < most:
                return True
        # Who waits for a load decodes nothing; a load that holds on holds up no other model.
        held = self._leases.held
        waiting = sum(min(held(node.id, m), view.waiting) for m, view in node.runtimes.items())
        return mine - waiting < most

    def _load_s(self, node: Node, model: ModelId) -> float:
        if node.runtime(model) is not None:
            return 0.0
        return self.loads.predict_s(node.id, model, node.offers[model].size_bytes)

    def _kv_share(self, node: Node, model: ModelId) -> float | None:
        reserved = self._leases.tokens(node.id, model)
        room = node.offers[model].ctx * node.offers[model].slots
        reported = kv_share(node.runtimes.get(model))
        if not reserved or room <= 0:
            return reported
        # A report is up to a second old, a reservation is of this moment: the larger one holds.
        return max(reported or 0.0, min(1.0, reserved / room))


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
