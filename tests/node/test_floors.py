"""The node's ready runtimes: when they stop, and that each is told so once."""

from __future__ import annotations

from roost.core.ids import ModelId, RuntimeId
from roost.node.desk import Outgoing
from roost.node.effects import Unload
from roost.node.floor.floor import Floor
from roost.node.floor.floors import Floors
from roost.node.floor.pace import PaceSettings
from roost.node.floor.seating import Seating
from roost.node.states.session_settings import SessionSettings
from roost.node.states.sessions import Sessions

ONE, TWO = RuntimeId("m/1"), RuntimeId("m/2")


def made() -> tuple[Floors, Outgoing]:
    """Two runtimes that are ready, with nobody on them."""
    outgoing = Outgoing()
    floors = Floors(outgoing)
    for runtime in (ONE, TWO):
        seating = Seating(runtime, 1, Sessions(SessionSettings()))
        floors.add(Floor(runtime, ModelId("m"), seating, PaceSettings(), 0.0))
    return floors, outgoing


def test_an_idle_runtime_that_retires_stops_once() -> None:
    """Retiring stops it at once where nobody is on it; asking again says nothing more."""
    floors, outgoing = made()
    floors.retire(floors[ONE], 1.0)
    floors.unload_if_idle(floors[ONE], 1.0)
    floors.unload(ONE)
    assert outgoing.take() == [Unload(ONE)]
    floors.unload_if_idle(floors[TWO], 1.0)
    assert outgoing.take() == [], "who does not retire stays, idle or not"


def test_a_runtime_that_has_ended_is_not_there_and_may_come_again() -> None:
    """What was told to stop and has stopped is forgotten, so that its next life can be told so."""
    floors, outgoing = made()
    floors.unload(ONE)
    floors.on_gone(ONE)
    floors.remove(floors[ONE])
    assert floors.get(ONE) is None
    assert floors.get(None) is None
    assert [floor.runtime for floor in floors] == [TWO]
    floors.unload(ONE)
    assert outgoing.take() == [Unload(ONE), Unload(ONE)]


def test_nobody_on_it_means_no_pin_and_no_stall() -> None:
    """A runtime without streams may make room, and owes nothing that could be late."""
    floors, _ = made()
    assert floors.pinned() == frozenset()
    assert floors.next_tick() is None
