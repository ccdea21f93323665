"""Limits that change while a node runs: they count from now on, and undo nothing."""

from __future__ import annotations

import msgspec
import pytest

from roost.backends.base import Prepared
from roost.core.events import Delta
from roost.core.footprint import HOST
from roost.core.ids import RuntimeId
from roost.core.snapshots import NodeStatus
from roost.node.desk import Desk, Outgoing
from roost.node.effects import Load, Run, Unload
from roost.node.floor.pace import PaceSettings
from roost.node.following import follow
from roost.node.models.ledger import RoomSettings
from roost.node.models.pressure import PressureSettings, Reading
from roost.node.models.stays import StaySettings
from roost.node.relief import Relief, Weights
from roost.node.settings import AgentSettings
from roost.node.states.session_settings import SessionSettings
from roost.node.workshop import Workshop
from roost.wire.messages import Refused
from tests.node.kit import FIRST, LINK, OTHER, SETTINGS, Node, key, offer, request


def told(node: Node, settings: AgentSettings) -> NodeStatus:
    """Change the limits of a node; what it says of itself then."""
    node.take(node.agent.on_settings(settings, node.now))
    return node.agent.status()


def changed(**what: object) -> AgentSettings:
    """The usual limits, but for these."""
    return msgspec.structs.replace(SETTINGS, **what)


def refusals(node: Node) -> list[str]:
    """Why streams were refused."""
    return [m.failure.reason for m in node.said(link=LINK) if isinstance(m, Refused)]


def test_how_many_run_at_once() -> None:
    """The next one is refused, those that run are not, and the report says the new number."""
    node = Node(changed(max_in_flight=2))
    node.run(1)
    assert told(node, changed(max_in_flight=1)).max_in_flight == 1
    node.open(2)
    assert refusals(node) == ["node_busy"]
    node.event(1, Delta("a"))
    assert node.events(1)[-1] == Delta("a")
    assert told(node, changed(max_in_flight=2)).max_in_flight == 2
    node.open(3)
    assert refusals(node) == ["node_busy"]


def test_room_for_runtimes() -> None:
    """More of it lets one in that waits; with less of it those that are here stay."""
    narrow = changed(room=RoomSettings(max_runtimes=1, min_resident_s=0.0, turn_s=60.0))
    node = Node(narrow, offer(), offer(OTHER))
    node.run(1)
    node.open(2, model=OTHER)
    assert node.agent.statistics().runtimes == 1
    status = told(node, changed(room=RoomSettings(max_runtimes=2)))
    assert status.max_runtimes == 2
    assert Load(OTHER, RuntimeId("other#2")) in node.fresh()
    node.loaded("other#2")
    assert told(node, narrow).max_runtimes == 1
    assert node.agent.statistics().runtimes == 2
    assert not any(isinstance(effect, Unload) for effect in node.all)


def test_a_model_that_became_too_large_is_not_offered() -> None:
    """What may be taken is part of what is usable."""
    node = Node(SETTINGS, msgspec.structs.replace(offer(), size_bytes=1000))
    assert node.agent.status().models[0].usable
    small = changed(room=RoomSettings(max_bytes=10))
    assert not told(node, small).models[0].usable
    assert told(node, SETTINGS).models[0].usable


def test_how_long_idle_runtimes_stay() -> None:
    """One that has been idle for longer than it may be now goes with the next look."""
    node = Node(changed(room=RoomSettings(min_resident_s=0.0)))
    node.serve(1)
    node.tick(100.0)
    assert Unload(FIRST) not in node.all
    stay = StaySettings(50.0, {})
    told(node, changed(stay=stay, room=RoomSettings(min_resident_s=0.0)))
    assert (node.agent.next_tick() or 0.0) <= node.now
    node.tick()
    assert Unload(FIRST) in node.all


def test_when_silence_is_a_hang() -> None:
    """Runtimes that are up follow, and so do loads."""
    node = Node()
    node.run(1)
    node.tick(20.0)
    assert node.agent.statistics().stalls == 0
    told(node, changed(pace=PaceSettings(stall_s=10.0, load_stall_s=5.0)))
    node.tick()
    assert node.agent.statistics().stalls == 1
    other = Node()
    other.open(1)
    told(other, changed(pace=PaceSettings(load_stall_s=5.0)))
    other.tick(6.0)
    assert other.agent.statistics().stalls == 1


def test_how_full_a_memory_may_be() -> None:
    """The next measurement is judged by the new shares."""
    node = Node()
    half = Weights((Reading(HOST, 1000, 500),))

    def level() -> str:
        node.take(node.agent.on_weighed(half, node.now))
        report = node.agent.status().memory
        assert report is not None
        return report.devices[0].pressure

    assert level() == "normal"
    told(node, changed(pressure=PressureSettings(0.1, 0.2, 0.3)))
    assert level() == "emergency"
    told(node, SETTINGS)
    assert level() == "normal"


def test_what_is_put_aside_stays_where_it_was_agreed_to() -> None:
    """How many there are and how long they stay follows; where and how large is of the start."""
    old = SessionSettings(ram_bytes=1000, disk_bytes=2000, persistence="disk", parked_max=5)
    outgoing = Outgoing()
    workshop = Workshop(changed(sessions=old), Desk(outgoing, 1), outgoing)
    relief = Relief(SETTINGS.pressure, workshop, outgoing)
    other = SessionSettings(ram_bytes=1, disk_bytes=2, persistence="memory", idle_s=7.0)
    assert follow(changed(sessions=other), workshop, relief, 0.0) == []
    expected = msgspec.structs.replace(old, parked_max=1000, idle_s=7.0)
    assert workshop.sessions.settings == expected


@pytest.mark.parametrize(("before_s", "after_s"), [(60.0, 0.0), (0.0, 60.0)])
def test_whether_prompts_wait_for_each_other(before_s: float, after_s: float) -> None:
    """A runtime that is up follows: whoever comes from now on waits, or does not."""

    def limits(wait_s: float) -> AgentSettings:
        return changed(sessions=SessionSettings(shared_tokens_min=8, shared_wait_s=wait_s))

    node = Node(limits(before_s))
    node.run(1, *range(20))
    told(node, limits(after_s))
    node.open(2)
    runs = [effect for effect in node.prepared(2, *range(20)) if isinstance(effect, Run)]
    assert bool(runs) == (after_s == 0.0)


def test_tokens_of_all_inputs() -> None:
    """A request that was let in is judged once its tokens are counted."""
    node = Node()
    for effect in node.open(1):
        if isinstance(effect, Load):
            node.loaded(effect.runtime)
    told(node, changed(vectors_tokens_max=1))
    ready = Prepared(request(), (), limit=0, inputs=((1,), (2, 3)))
    node.take(node.agent.on_prepared(key(1), ready, node.now))
    assert refusals(node) == ["context_length_exceeded"]
