"""The agent under a limit: who makes room, who waits, who is told, and what the report says."""

from __future__ import annotations

import msgspec

from roost.core.events import Delta
from roost.core.ids import ModelId, RuntimeId
from roost.core.snapshots import LoadView, RuntimeView
from roost.errors import Failure
from roost.node.effects import Load, Send, Unload
from roost.node.models.ledger import RoomSettings
from roost.node.models.stays import LINGER_S
from roost.wire.messages import Refused
from tests.node.kit import (
    ANSWER,
    FINISHED,
    FIRST,
    MODEL,
    OTHER,
    SETTINGS,
    SPOILT,
    Node,
    offer,
    reason_of,
)

ROOM = RoomSettings(max_runtimes=1, min_resident_s=5.0, turn_s=20.0, wait_s=60.0)
THIRD = ModelId("third")
SECOND = RuntimeId("other#2")
AGAIN = RuntimeId("m#2")


def _node(room: RoomSettings = ROOM) -> Node:
    settings = msgspec.structs.replace(SETTINGS, room=room)
    return Node(settings, offer(), offer(OTHER), offer(THIRD))


def _view(node: Node, model: ModelId) -> RuntimeView:
    return next(view for view in node.agent.status().runtimes if view.model == model)


def test_two_models_take_turns_in_one_place() -> None:
    """The idle runtime goes, and only when it is gone the other is loaded: never both at once."""
    node = _node()
    node.serve(1)
    node.tick(10.0)
    assert Unload(FIRST) in node.open(2, model=OTHER)
    assert node.agent.status().runtimes[1].waiting == 1
    assert Load(OTHER, SECOND) in node.gone()
    node.loaded("other#2")
    node.prepared(2)
    assert node.agent.statistics().runtimes == 1


def test_a_model_that_is_spoilt_drives_nobody_out() -> None:
    """Whoever asks for it is told why, the report says so, and the others stay where they are."""
    node = _node()
    node.serve(1)
    node.tick(10.0)
    node.spoilt.add(OTHER)
    node.open(2, model=OTHER)
    assert reason_of_all(node) == ["load_failed"]
    assert not any(isinstance(effect, Unload) for effect in node.all)
    assert [one.usable for one in node.agent.status().models] == [True, False, True]
    node.serve(3)
    assert _view(node, MODEL).resident_s == 10.0


SHORT = Failure("out_of_memory", "unable to allocate")


def _short(room: RoomSettings) -> Node:
    """Two models beside each other, by what the ledger knows; the second lacks memory."""
    node = _node(room)
    node.serve(1)
    node.tick(10.0)
    assert Load(OTHER, SECOND) in node.open(2, model=OTHER)
    return node


def test_a_load_that_lacks_memory_is_tried_again_when_others_have_gone() -> None:
    """The idle model goes, whoever waits goes on waiting, and the second failure is the last."""
    node = _short(msgspec.structs.replace(ROOM, max_runtimes=0))
    assert Unload(FIRST) in node.load_failed("other#2", SHORT)
    assert reason_of_all(node) == []
    assert not any(isinstance(effect, Load) for effect in node.open(3, model=OTHER))
    again = RuntimeId("other#3")
    assert [e for e in node.gone() if isinstance(e, Load)] == [Load(OTHER, again)]
    node.serve(4, model=THIRD)
    node.load_failed(again, SHORT)
    assert reason_of_all(node) == ["load_failed"] * 2
    refused = node.said(2)[-2]
    assert isinstance(refused, Refused)
    assert "unable to allocate" in refused.failure.message
    assert not any(isinstance(effect, Load) for effect in node.tick(60.0))


def test_nobody_goes_for_a_load_that_fails_for_another_reason() -> None:
    """Nor for one that lacks memory where nobody may go: one works, one is young, one is kept."""
    free = msgspec.structs.replace(ROOM, max_runtimes=0)
    spoilt = _short(free)
    spoilt.load_failed("other#2", SPOILT)
    busy = _short(free)
    busy.run(3)
    busy.load_failed("other#2", SHORT)
    young = _node(free)
    young.serve(1)
    young.open(2, model=OTHER)
    young.load_failed("other#2", SHORT)
    kept = _short(msgspec.structs.replace(free, evict=False))
    kept.load_failed("other#2", SHORT)
    for one in (spoilt, busy, young, kept):
        assert reason_of_all(one) == ["load_failed"]
        assert not any(isinstance(effect, Unload) for effect in one.all)


def test_a_busy_runtime_is_not_touched() -> None:
    """While a stream runs the other model waits; when it has ended, the runtime goes."""
    node = _node()
    node.run(1)
    node.tick(10.0)
    assert Unload(FIRST) not in node.open(2, model=OTHER)
    assert Unload(FIRST) not in node.tick(5.0)
    assert Unload(FIRST) in node.closed(1)


def test_a_busy_runtime_gets_no_new_work_after_a_turn() -> None:
    """A model that is always in use lets another in: what runs ends by itself, what comes waits."""
    node = _node()
    node.run(1)
    node.open(2, model=OTHER)
    for _ in range(20):
        node.event(1, Delta("a"))
        node.tick(1.0)
    assert _view(node, MODEL).state == "stopping"
    assert {type(effect) for effect in node.open(3)} == {Send}
    node.event(1, FINISHED)
    assert Unload(FIRST) in node.closed(1)
    assert Load(OTHER, SECOND) in node.gone()
    assert reason_of_all(node) == []


def test_who_waits_in_vain_is_told_and_what_to_change() -> None:
    """The refusal is one for lack of room, and names the setting."""
    node = _node(msgspec.structs.replace(ROOM, turn_s=90.0))
    node.run(1)
    node.open(2, model=OTHER)
    for _ in range(60):
        node.event(1, Delta("a"))
        node.tick(1.0)
    assert reason_of_all(node) == ["node_busy"]
    refused = node.said(2)[-2]
    assert isinstance(refused, Refused)
    assert "`max_runtimes` (1)" in refused.failure.message
    assert node.agent.statistics().live == 1


def test_a_model_that_is_removed_and_comes_back_is_not_in_the_line() -> None:
    """It had been asked for ahead, behind another: that wish went with it, and the node goes on."""
    node = _node()
    node.serve(1)
    node.take(node.agent.on_preload(OTHER, node.now))
    node.take(node.agent.on_preload(THIRD, node.now))
    node.take(node.agent.on_models([offer(), offer(OTHER)], node.now))
    node.take(node.agent.on_models([offer(), offer(OTHER), offer(THIRD)], node.now))
    assert Unload(FIRST) in node.tick(5.0)
    assert Load(OTHER, SECOND) in node.gone()
    node.loaded("other#2")
    assert not any(isinstance(effect, Unload) for effect in node.tick(60.0))
    assert Unload(SECOND) in node.open(2, model=THIRD)
    assert Load(THIRD, RuntimeId("third#3")) in node.gone("other#2")


def test_what_can_never_fit_is_not_usable() -> None:
    """A model over the limit is refused at once, and the report says that nobody need ask."""
    room = RoomSettings(max_bytes=1000)
    small = msgspec.structs.replace(offer(), size_bytes=900)
    large = msgspec.structs.replace(offer(OTHER), size_bytes=900, kv_bytes=101)
    node = Node(msgspec.structs.replace(SETTINGS, room=room), small, large)
    node.open(1, model=OTHER)
    assert reason_of_all(node) == ["load_failed"]
    status = node.agent.status()
    assert [one.usable for one in status.models] == [True, False]
    assert status.loads == (LoadView(OTHER, (), "too_large"),)
    assert (status.max_runtimes, status.max_runtime_bytes) == (0, 1000)


def test_the_report_says_who_would_have_to_go() -> None:
    """A gateway can price a load: since when others are there, how long unused, and who goes."""
    node = _node()
    node.open(1)
    node.take(node.agent.on_load_progress(FIRST, 0.4, node.now))
    assert _view(node, MODEL).progress == 0.4
    assert node.agent.status().loads == (LoadView(OTHER, (), "busy"), LoadView(THIRD, (), "busy"))
    node.loaded()
    node.prepared(1)
    assert _view(node, MODEL).evict_in_s is None
    node.event(1, *ANSWER)
    node.closed(1)
    node.tick(2.0)
    view = _view(node, MODEL)
    assert (view.progress, view.resident_s, view.idle_s, view.evict_in_s) == (None, 2.0, 2.0, 3.0)
    assert node.agent.status().loads == (
        LoadView(OTHER, (MODEL,), "young", 3.0),
        LoadView(THIRD, (MODEL,), "young", 3.0),
    )
    node.tick(3.0)
    loads = node.agent.status().loads
    assert loads is not None
    assert loads[0] == LoadView(OTHER, (MODEL,))


def test_without_limits_there_is_nothing_to_say_of_room() -> None:
    """Every model fits."""
    node = _node(RoomSettings())
    node.serve(1)
    node.serve(2, model=OTHER)
    assert node.agent.status().loads == ()


def test_a_drained_node_preloads_nothing_and_a_stopped_one_lets_nobody_in() -> None:
    """The end of a node takes the line with it."""
    node = _node()
    node.serve(1)
    node.open(2, model=OTHER)
    node.take(node.agent.on_shutdown(node.now))
    assert Unload(FIRST) in node.fresh()
    assert node.gone() == []
    node.take(node.agent.on_preload(OTHER, node.now))
    assert node.fresh() == []


def reason_of_all(node: Node) -> list[str]:
    """Why streams were refused, in order."""
    return [reason_of(message) for message in node.said() if isinstance(message, Refused)]


RETAINED = msgspec.structs.replace(ROOM, max_runtimes=2, evict=False)


def test_a_node_that_retains_refuses_the_next_model_and_keeps_what_it_has() -> None:
    """Idle or not, nobody goes; who comes too late is told at once, and which setting to raise."""
    node = _node(RETAINED)
    node.serve(1)
    node.serve(2, model=OTHER)
    node.tick(600.0)
    node.open(3, model=THIRD)
    refused = next(message for message in node.said(3) if isinstance(message, Refused))
    assert reason_of(refused) == "node_busy"
    assert "`max_runtimes` (2)" in refused.failure.message
    assert "`runtime.evict`" in refused.failure.message
    assert not any(isinstance(effect, Unload) for effect in node.all)
    assert node.serve(4).slot == node.serve(5, model=OTHER).slot == 0


def test_a_place_that_is_retained_can_be_had_again_once_it_is_free() -> None:
    """A runtime that died has left its place, and one on its way out is waited for."""
    node = _node(RETAINED)
    node.serve(1)
    node.serve(2, model=OTHER)
    node.take(node.agent.on_models([offer(OTHER), offer(THIRD)], node.now))
    assert not any(isinstance(effect, Load) for effect in node.open(3, model=THIRD))
    assert [e.model for e in node.gone("m#1") if isinstance(e, Load)] == [THIRD]
    node.loaded("third#3")
    node.gone("other#2")
    assert [e.model for e in node.open(4, model=OTHER) if isinstance(e, Load)] == [OTHER]


def _hosted(kept: int, room: RoomSettings = ROOM) -> Node:
    """Three models of one backend, which keeps so many of them."""
    limits = msgspec.structs.replace(room, max_runtimes=0, kept={"hosted": kept})
    settings = msgspec.structs.replace(SETTINGS, room=limits)
    offers = (offer(), offer(OTHER), offer(THIRD))
    return Node(settings, *(msgspec.structs.replace(one, backend="hosted") for one in offers))


def test_a_backend_keeps_so_many_models() -> None:
    """The idle one goes for the next; a model of another backend is not concerned."""
    node = _hosted(1)
    node.serve(1)
    node.tick(10.0)
    assert Unload(FIRST) in node.open(2, model=OTHER)
    assert Load(OTHER, SECOND) in node.gone()
    two = _hosted(2)
    two.serve(1)
    assert Load(OTHER, SECOND) in two.open(2, model=OTHER)


def test_a_full_backend_names_its_setting() -> None:
    """Whoever waits for too long is told which number to raise."""
    node = _hosted(1)
    node.run(1)
    node.open(2, model=OTHER)
    node.event(1, Delta("a"))
    node.tick(ROOM.wait_s + 1.0)
    (refused,) = [said for said in node.said(2) if isinstance(said, Refused)]
    assert "`hosted_model_cache_size` (1)" in refused.failure.message
    retained = _hosted(1, msgspec.structs.replace(ROOM, evict=False))
    retained.serve(1)
    retained.tick(10.0)
    retained.open(2, model=OTHER)
    (refused,) = [said for said in retained.said(2) if isinstance(said, Refused)]
    assert "raise `hosted_model_cache_size` (1)" in refused.failure.message


def test_what_is_not_kept_goes_with_its_last_answer() -> None:
    """At once, however long its load took, and another one does not wait for that."""
    node = _hosted(0, msgspec.structs.replace(ROOM, min_resident_s=60.0))
    node.serve(1)
    assert not any(isinstance(effect, Unload) for effect in node.all)
    assert node.agent.status().runtimes[0].unload_in_s == LINGER_S
    node.tick(LINGER_S)
    assert Unload(FIRST) in node.all
    node.gone()
    node.run(2)
    node.open(3, model=OTHER)
    assert Unload(AGAIN) not in node.all
    node.event(2, *ANSWER)
    assert Unload(AGAIN) in node.closed(2)
