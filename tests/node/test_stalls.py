"""Loads that hang: called off, told, tried again, and never two in one place."""

from __future__ import annotations

import pytest

from roost.core.ids import RuntimeId
from roost.errors import Failure
from roost.node.effects import Load, Unload
from roost.node.floor.pace import PaceSettings
from roost.node.models.ledger import RoomSettings
from roost.node.settings import AgentSettings
from roost.wire.messages import Refused
from tests.node.kit import FIRST, LINK, MODEL, OTHER, Node, offer, reason_of

HANG = PaceSettings(load_stall_s=20.0)
SETTINGS = AgentSettings("tiny", pace=HANG, room=RoomSettings(max_runtimes=1))


def _loading(*, progress: float = 0.5) -> Node:
    """A node on which a first request waits for a load that has come this far."""
    node = Node(SETTINGS, offer(MODEL), offer(OTHER))
    node.open(1)
    node.take(node.agent.on_load_progress(FIRST, progress, node.now))
    return node


def test_a_load_that_gets_no_further_is_called_off() -> None:
    """Who waits for it is told what to look at, once, and it is told to stop, once."""
    node = _loading()
    node.tick(19.0)
    assert node.agent.statistics().stalls == 0
    node.fresh()
    effects = node.tick(1.5)
    assert [e for e in effects if isinstance(e, Unload)] == [Unload(FIRST)]
    refused = next(message for message in node.said(1) if isinstance(message, Refused))
    assert reason_of(refused) == "load_failed"
    assert "runtime.load_stall_s" in refused.failure.message
    assert node.agent.statistics().stalls == 1
    assert not any(isinstance(e, Unload) for e in node.tick(60.0))
    assert node.is_at_rest()


@pytest.mark.parametrize("is_linked", [True, False])
def test_a_load_that_nobody_hears_of_is_called_off_as_well(is_linked: bool) -> None:
    """Without a link too: between two measurements of the machine the node is not asleep."""
    node = Node(SETTINGS, offer(MODEL))
    began_s = node.now
    if not is_linked:
        node.take(node.agent.on_link_down(LINK, node.now))
    node.take(node.agent.on_preload(MODEL, node.now))
    measured_s = node.now
    while node.now < began_s + 30.0 and Unload(FIRST) not in node.all:
        due = node.agent.next_tick()
        assert due is not None
        node.now = max(node.now, min(due, measured_s + 5.0))
        if node.now >= measured_s + 5.0:
            measured_s = node.now
            node.take(node.agent.on_telemetry(1, 1.0, node.now))
        node.take(node.agent.on_tick(node.now))
    assert Unload(FIRST) in node.all
    assert node.now == began_s + 20.0


@pytest.mark.parametrize("is_linked", [True, False])
def test_what_the_node_slept_is_no_silence_of_a_load(is_linked: bool) -> None:
    """Whatever became of its links meanwhile."""
    node = Node(SETTINGS, offer(MODEL))
    node.take(node.agent.on_preload(MODEL, node.now))
    if not is_linked:
        node.take(node.agent.on_link_down(LINK, node.now))
    node.tick(5.0)
    node.sleep(600.0)
    node.tick(14.0)
    assert node.agent.statistics().stalls == 0
    node.tick(1.5)
    assert node.agent.statistics().stalls == 1


def test_a_load_that_gets_on_is_given_its_time() -> None:
    """However slow it is: every bit of the way starts the wait anew, repeating itself does not."""
    node = _loading(progress=0.0)
    for step in range(1, 20):
        node.tick(15.0)
        node.take(node.agent.on_load_progress(FIRST, step / 1000, node.now))
    assert node.agent.statistics().stalls == 0
    for _ in range(19):
        node.tick(1.0)
        node.take(node.agent.on_load_progress(FIRST, 0.019, node.now))
    assert node.agent.statistics().stalls == 0
    node.tick(1.0)
    assert node.agent.statistics().stalls == 1


def test_until_it_is_gone_it_takes_its_room_and_then_the_key_loads_again() -> None:
    """Neither its successor nor another model begins beside it; afterwards both can be had."""
    node = _loading()
    node.tick(20.0)
    node.open(2)
    early = [m for m in node.said(2) if isinstance(m, Refused)]
    assert [reason_of(message) for message in early] == ["load_failed"]
    node.tick(5.0)
    assert not any(isinstance(e, Load) for e in node.open(3, model=OTHER))
    assert not any(isinstance(e, Load) for e in node.open(4))
    loads = [e for e in node.gone() if isinstance(e, Load)]
    assert [load.model for load in loads] == [OTHER]
    node.load_failed(loads[0].runtime, Failure("load_failed", "no"))
    assert [load.model for load in node.all if isinstance(load, Load)] == [MODEL, OTHER, MODEL]
    node.loaded("m#3")
    assert [runtime.state for runtime in node.agent.status().runtimes] == ["ready", "failed"]


def test_nothing_of_a_load_that_was_called_off_is_believed() -> None:
    """It comes through after all, or fails in its own words: too late, the lane has failed."""
    node = _loading()
    node.tick(21.0)
    node.loaded("m#1")
    node.load_failed("m#1", Failure("load_failed", "another reason"))
    (view,) = (one for one in node.agent.status().runtimes if one.model == MODEL)
    assert (view.state, view.slots) == ("stopping", ())
    node.gone()
    (view,) = (one for one in node.agent.status().runtimes if one.model == MODEL)
    assert view.state == "failed"
    assert view.failure is not None
    assert "got no further" in view.failure
    node.tick(5.0)
    assert [e.runtime for e in node.open(2) if isinstance(e, Load)] == [RuntimeId("m#2")]


def test_a_load_under_way_is_in_the_report_with_its_age_and_progress() -> None:
    """A report waits for no load, and tells of those who wait for it."""
    node = _loading(progress=0.25)
    node.tick(3.0)
    (view,) = (one for one in node.agent.status().runtimes if one.model == MODEL)
    assert (view.state, view.progress, view.loading_s, view.waiting) == ("loading", 0.25, 3.0, 1)
    node.loaded("m#1")
    (view,) = (one for one in node.agent.status().runtimes if one.model == MODEL)
    assert (view.state, view.progress, view.loading_s, view.load_s) == ("ready", None, None, 3.0)
