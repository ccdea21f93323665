"""MACHINE: which nodes exist, what each last said, and how alive each is.

The state of a link follows from the age of the last thing heard on it: alive, suspect (no new
work), stale (what runs there is lost), dead (the link is closed). Each change is reported once. A
node without a link is dead and remembered for a while, so that "its nodes are down" can be told
from "nobody ever had it".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from roost.core.engine import Mode
from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.request import Scope
from roost.core.snapshots import LinkState, LoadView, ModelOffer, NodeStatus, RuntimeView
from roost.fleet.settings import FleetSettings

SCOPES: tuple[Scope, ...] = ("plain_turns", "turns", "all")


@dataclass(slots=True)
class Node:
    """One node; `seq` is the number of its last status on this link, -1 before the first.

    `others` is how much it does for other gateways, by its last status. `salt` is its own number
    for hashing. `crowded` has the models for which there is no room just so. `parked` means that an
    operator wants it to get no new work, `vacated` that it was told on this link that nobody comes
    back to what it holds.
    """

    id: NodeId
    name: str
    instance: str
    heard_s: float
    state: LinkState = "alive"
    seq: int = -1
    others: int = 0
    salt: int = 0
    parked: bool = False
    vacated: bool = False
    status: NodeStatus | None = None
    offers: dict[ModelId, ModelOffer] = field(default_factory=dict)
    runtimes: dict[ModelId, RuntimeView] = field(default_factory=dict)
    crowded: dict[ModelId, LoadView] = field(default_factory=dict)

    @property
    def linked(self) -> bool:
        """Whether there is a link to it, however silent."""
        return self.state != "dead"

    @property
    def reported(self) -> bool:
        """Whether it has said on this link what it has."""
        return self.status is not None

    @property
    def draining(self) -> bool:
        """Whether it, or an operator, asked for no new work."""
        return self.parked or (self.status is not None and self.status.draining)

    def runtime(self, model: ModelId) -> RuntimeId | None:
        """The runtime it last reported ready for this model."""
        view = self.runtimes.get(model)
        return view.runtime if view is not None and view.state == "ready" else None

    def running(self, model: ModelId) -> RuntimeId | None:
        """The same, by a name that no runtime has after the node was started again."""
        runtime = self.runtime(model)
        return None if runtime is None else RuntimeId(f"{self.instance} {runtime}")


def modes_of(offers: Mapping[ModelId, ModelOffer]) -> dict[ModelId, Mode]:
    """What each model is for."""
    return {model: offer.mode for model, offer in offers.items()}


def number(name: bytes) -> int:
    """A fixed 64-bit number for a name: the same in every process (FNV-1a)."""
    state = 0xCBF29CE484222325
    for byte in name:
        state = ((state ^ byte) * 0x100000001B3) % 2**64
    return state


class Registry:
    """All nodes, linked and remembered."""

    def __init__(self, settings: FleetSettings) -> None:
        self._settings = settings
        self._nodes: dict[NodeId, Node] = {}
        self._narrow: set[NodeId] = set()
        self._kinds: dict[ModelId, frozenset[Mode]] = {}
        self._forgotten: list[NodeId] = []
        # Counts the changes of what linked nodes offer.
        self.offered = 0
        # How old the last sign of life may get until a node is no longer what it is.
        self._waits_s: dict[LinkState, float] = {
            "alive": settings.link_suspect_s,
            "suspect": settings.link_stale_s,
            "stale": settings.link_dead_s,
        }

    def get(self, node: NodeId) -> Node | None:
        """The node's record, also of a dead one."""
        return self._nodes.get(node)

    def digest(self, node: NodeId, model: ModelId) -> str:
        """What this node has under the model's name; "" where nobody knows."""
        record = self._nodes.get(node)
        offer = None if record is None else record.offers.get(model)
        return "" if offer is None else offer.digest

    def mode(self, node: NodeId, model: ModelId) -> Mode | None:
        """What this node's model is for; None where it has none of that name."""
        record = self._nodes.get(node)
        offer = None if record is None else record.offers.get(model)
        return None if offer is None else offer.mode

    def modes(self, model: ModelId) -> frozenset[Mode]:
        """What the model is for, on any node that is remembered; empty where none has it.

        Two nodes may have different models under one name, or the same one for different things.
        """
        return self._kinds.get(model, frozenset())

    @property
    def narrow(self) -> bool:
        """Whether some node does not serve everything that can be asked of its models."""
        return bool(self._narrow)

    def serves(self, node: NodeId, model: ModelId, needs: Scope) -> bool:
        """Whether this can be asked of this node."""
        record = self._nodes.get(node)
        offer = None if record is None else record.offers.get(model)
        return offer is not None and SCOPES.index(needs) <= SCOPES.index(offer.serves)

    def all(self) -> tuple[Node, ...]:
        """Every record, in order of first arrival."""
        return tuple(self._nodes.values())

    def joined(self, node: NodeId, name: str, instance: str, now: float) -> bool:
        """A link was welcomed; True if it replaces one that was still open."""
        old = self._nodes.get(node)
        fresh = Node(node, name, instance, heard_s=now, salt=number(node.encode()))
        if old is not None:
            # Until the first report of the new link, what it was known to have is still the best
            # guess of what it has: a request meanwhile must not hear "no such model".
            fresh.offers, fresh.parked = old.offers, old.parked
        self._nodes[node] = fresh
        self.offered += 1
        return old is not None and old.linked

    def reported(self, node: NodeId, seq: int, status: NodeStatus, own: int) -> bool:
        """A status came; False if it is older than one already seen, or from no known link.

        `own` is this gateway's share of what the node does.
        """
        record = self._nodes.get(node)
        if record is None or not record.linked or seq <= record.seq:
            return False
        record.seq = seq
        record.others = max(0, status.in_flight - own)
        record.status = status
        offers = {offer.model: offer for offer in status.models}
        before, record.offers = record.offers, offers
        if offers != before:
            self.offered += 1
            if modes_of(offers) != modes_of(before):
                self._note_kinds()
        record.runtimes = {view.model: view for view in status.runtimes}
        record.crowded = {load.model: load for load in status.loads or ()}
        if any(offer.serves != "all" for offer in status.models):
            self._narrow.add(node)
        else:
            self._narrow.discard(node)
        return True

    def _note_kinds(self) -> None:
        """Sum up all offers: `modes` is asked for every request, and they hardly ever change."""
        kinds: dict[ModelId, set[Mode]] = {}
        for record in self._nodes.values():
            for model, mode in modes_of(record.offers).items():
                kinds.setdefault(model, set()).add(mode)
        self._kinds = {model: frozenset(modes) for model, modes in kinds.items()}

    def heard(self, node: NodeId, now: float) -> bool:
        """Anything came; True if the node had been silent for too long and is thereby usable again.

        Called for every frame, so it does next to nothing in the common case.
        """
        record = self._nodes.get(node)
        if record is None or not record.linked:
            return False
        back = self.state(record, now) != "alive"
        record.heard_s = now
        record.state = "alive"
        return back

    def park(self, node: NodeId, *, parked: bool) -> bool:
        """Let a node get no new work, or let it again; False if that is so already, or unknown.

        It holds across the node's reconnections, for as long as it is remembered.
        """
        record = self._nodes.get(node)
        if record is None or record.parked == parked:
            return False
        record.parked = parked
        return True

    def state(self, record: Node, now: float) -> LinkState:
        """How alive the node is at this very moment, whether or not a tick has announced it yet."""
        if record.state == "alive" and now >= record.heard_s + self._settings.link_suspect_s:
            return "suspect"
        return record.state

    def left(self, node: NodeId) -> bool:
        """Its link ended; False if there was none."""
        record = self._nodes.get(node)
        if record is None or not record.linked:
            return False
        record.state = "dead"
        self.offered += 1
        self._forget_oldest()
        return True

    def advance(self, now: float) -> list[tuple[NodeId, LinkState]]:
        """The changes of state that are due, oldest silence first."""
        self._forgive_own_stall(now)
        changed: list[tuple[NodeId, LinkState]] = []
        for record in sorted(self._linked(), key=lambda node: node.heard_s):
            state = self._state_at(record.heard_s, now)
            if state != record.state:
                record.state = state
                changed.append((record.id, state))
        if changed:
            self.offered += 1
            self._forget_oldest()
        return changed

    def forgotten(self) -> list[NodeId]:
        """Who has been forgotten since this was last asked, for whoever remembers more."""
        gone, self._forgotten = self._forgotten, []
        return gone

    def next_change_s(self) -> float | None:
        """When the next change of state is due if nobody says anything; None without links."""
        # In one pass and without a list: it is asked after every event.
        due = None
        for record in self._nodes.values():
            wait_s = self._waits_s.get(record.state)
            if wait_s is not None and (due is None or record.heard_s + wait_s < due):
                due = record.heard_s + wait_s
        return due

    def serving(self, model: ModelId) -> list[Node]:
        """Linked nodes that offer this model, whatever their state."""
        return [node for node in self._nodes.values() if node.linked and model in node.offers]

    def knows(self, model: ModelId) -> bool:
        """Whether any node, dead or alive, was ever seen to offer this model."""
        return any(model in node.offers for node in self._nodes.values())

    def settled(self) -> bool:
        """Whether there is a linked node and every one has reported at least once."""
        linked = self._linked()
        return bool(linked) and all(node.status is not None for node in linked)

    def _linked(self) -> list[Node]:
        return [node for node in self._nodes.values() if node.linked]

    def _state_at(self, heard_s: float, now: float) -> LinkState:
        if now >= heard_s + self._settings.link_dead_s:
            return "dead"
        if now >= heard_s + self._settings.link_stale_s:
            return "stale"
        return "suspect" if now >= heard_s + self._settings.link_suspect_s else "alive"

    def _forgive_own_stall(self, now: float) -> None:
        """Add the gateway's own sleep to everybody's clock.

        A tick far behind its time means that this process did not run, so nothing could be heard.
        What was said meanwhile lies unread in the sockets; judging before reading it would declare
        a healthy fleet dead. The price is a detection that is late by the length of the stall.
        """
        due = self.next_change_s()
        late = 0.0 if due is None else now - due
        if late > self._settings.stall_s:
            for record in self._linked():
                record.heard_s = min(now, record.heard_s + late)

    def _forget_oldest(self) -> None:
        dead = [node for node in self._nodes.values() if not node.linked]
        dead.sort(key=lambda node: node.heard_s)
        gone = dead[: max(0, len(dead) - self._settings.remembered_nodes)]
        for record in gone:
            del self._nodes[record.id]
            self._narrow.discard(record.id)
            self._forgotten.append(record.id)
        if any(record.offers for record in gone):
            self._note_kinds()
