"""WIRING: machines that are defective about room and loads, and where each of them shows."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from roost.core.ids import ModelId, RuntimeId
from roost.core.snapshots import ModelOffer
from roost.fleet.assigning import Assigner
from roost.fleet.choice.routing import Dice
from roost.fleet.coordinator import Coordinator
from roost.fleet.mishaps import Mishaps
from roost.fleet.models.placement import Evicted
from roost.fleet.nodes.registry import Node
from roost.fleet.placing import Placer
from roost.fleet.settings import FleetSettings
from roost.node.agent import Agent
from roost.node.floor.floor import Floor
from roost.node.floor.floors import Floors
from roost.node.models.ledger import RoomSettings
from roost.node.settings import AgentSettings
from roost.sim.mutants import fittings
from roost.sim.mutants.fittings import Case
from roost.sim.play import Parts


class _Ruthless(Floors):
    def pinned(self) -> frozenset[RuntimeId]:
        return frozenset()

    def unload_if_idle(self, floor: Floor, now: float) -> None:
        if floor.is_retiring:
            self.unload(floor.runtime)


class EvictsTheBusy(Agent):
    """A node that stops whatever was used longest ago, with the streams on it."""

    def __init__(self, settings: AgentSettings, offers: Sequence[ModelOffer]) -> None:
        super().__init__(settings, offers)
        self._workshop.floors = _Ruthless(self._outgoing)


def _agent(room: RoomSettings | None = None, **changes: float) -> Parts:
    """A node that ignores some, or all, limits of its room."""

    def make(given: AgentSettings, offers: Sequence[ModelOffer]) -> Agent:
        narrow = room or msgspec.structs.replace(given.room, **changes)
        return Agent(msgspec.structs.replace(given, room=narrow), offers)

    return Parts(agent=make)


def _patient(given: AgentSettings, offers: Sequence[ModelOffer]) -> Agent:
    """A node that waits for a load as long as its process lives."""
    pace = msgspec.structs.replace(given.pace, load_stall_s=1e9)
    return Agent(msgspec.structs.replace(given, pace=pace), offers)


class _PaysNothing(Placer):
    def _evicted(self, model: ModelId, node: Node) -> Evicted:
        return Evicted(model, 0.0, 0.0)


class _Eager(Placer):
    def look(self, now: float) -> None:
        for node in self._books.registry.all():
            for model in node.offers if node.linked else ():
                if model not in node.runtimes:
                    self._ask(node.id, model, now)


class _WithPlacer(Coordinator):
    placer: type[Placer] = Placer

    def __init__(self, settings: FleetSettings, dice: Dice) -> None:
        super().__init__(settings, dice)
        self._placer = self.placer(self._books)
        self._assigner = Assigner(self._books, self._placer)
        self._mishaps = Mishaps(self._books, self._assigner.hope)


class EvictsForNothing(_WithPlacer):
    """What a load drives out costs nothing."""

    placer = _PaysNothing


class WantsEverything(_WithPlacer):
    """Every node is asked for every model that it does not run."""

    placer = _Eager


CASES: tuple[Case, ...] = (
    (
        "every idle node loads",
        fittings.settings(replicas=0),
        "cold_burst",
        "one_load_for_all",
    ),
    (
        "busy runtimes evicted",
        fittings.agent(EvictsTheBusy),
        "one_place",
        "busy_runtimes_stay",
    ),
    (
        "runtimes leave at once",
        _agent(min_resident_s=0.0),
        "one_place",
        "runtimes_stay_a_while",
    ),
    ("room not counted", _agent(RoomSettings()), "one_place", "nodes_keep_to_their_room"),
    ("hung loads waited for", Parts(agent=_patient), "hanging_loads", "one_ending"),
    (
        "eviction costs nothing",
        fittings.coordinator(EvictsForNothing),
        "narrow_shelf",
        "room_before_eviction",
    ),
    (
        "wishes for nobody",
        fittings.coordinator(WantsEverything),
        "narrow_shelf",
        "wishes_have_reasons",
    ),
)
