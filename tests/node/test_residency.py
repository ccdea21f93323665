"""Residency: one load for all who want it, honest failures, growing back-off, life after death."""

from __future__ import annotations

import pytest

from roost.core.ids import ModelId, RuntimeId
from roost.core.snapshots import ModelOffer
from roost.errors import Failure
from roost.node.effects import Load, Look
from roost.node.models.boarding import Clear
from roost.node.models.ledger import RoomSettings
from roost.node.models.residency import (
    BackoffSettings,
    Ready,
    Residence,
    Residency,
    TellAll,
    Unavailable,
    Wait,
)
from tests.node.kit import MODEL, OTHER, SPOILT, key, offer

FIRST, SECOND = RuntimeId("m#1"), RuntimeId("m#2")
BROKEN = Failure("load_failed", "not enough memory")


OFFERS: dict[ModelId, ModelOffer] = {MODEL: offer(MODEL), OTHER: offer(OTHER)}


def _residency(room: RoomSettings | None = None) -> Residency:
    return Residency(BackoffSettings(first_s=1.0, max_s=30.0), room or RoomSettings())


def _started(lanes: Residency, now: float, *pinned: RuntimeId) -> list[RuntimeId]:
    """Everything that is loaded now because there is room for it."""
    started = []
    while isinstance(step := lanes.step(OFFERS, pinned, now), Load):
        started.append(step.runtime)
    assert step is None
    return started


def test_many_wants_make_one_load() -> None:
    """The first want starts a runtime, the others wait for it, and all are told in order."""
    lanes = _residency()
    assert lanes.want(MODEL, key(1), 0.0) == Wait()
    assert _started(lanes, 0.0) == [FIRST]
    assert lanes.want(MODEL, key(2), 1.0) == Wait()
    assert lanes.want(MODEL, key(3), 1.0) == Wait()
    assert _started(lanes, 1.0) == []
    assert lanes.waiting(MODEL) == (key(1), key(2), key(3))
    assert lanes.is_loading(FIRST)
    assert lanes.on_loaded(FIRST, 4.0) == (key(1), key(2), key(3))
    assert lanes.want(MODEL, key(4), 5.0) == Ready(FIRST)
    assert lanes.residences() == (Residence(MODEL, "ready", FIRST, 4.0, None, 0),)


def test_models_do_not_wait_for_each_other() -> None:
    """Each model has its own lane, and many are resident at once."""
    lanes = _residency()
    lanes.want(MODEL, None, 0.0)
    lanes.want(OTHER, None, 0.0)
    assert _started(lanes, 0.0) == [FIRST, RuntimeId("other#2")]
    assert lanes.on_loaded(RuntimeId("other#2"), 1.0) == ()
    assert lanes.want(OTHER, None, 2.0) == Ready(RuntimeId("other#2"))
    assert lanes.runtime_of(MODEL) == FIRST
    assert lanes.runtime_of(ModelId("unheard of")) is None


def test_who_leaves_is_not_told() -> None:
    """A waiter that is gone is not answered; the load goes on for the next to come."""
    lanes = _residency()
    lanes.want(MODEL, key(1), 0.0)
    lanes.want(MODEL, key(2), 0.0)
    assert _started(lanes, 0.0) == [FIRST]
    lanes.leave(MODEL, key(1))
    lanes.leave(MODEL, key(1))
    assert lanes.on_loaded(FIRST, 1.0) == (key(2),)


def test_a_failed_load_answers_all_and_waits_before_the_next() -> None:
    """Everybody who waited is told; within the back-off the answer is at once, with a time."""
    lanes = _residency()
    lanes.want(MODEL, key(1), 0.0)
    lanes.want(MODEL, key(2), 0.0)
    assert _started(lanes, 0.0) == [FIRST]
    assert lanes.on_load_failed(FIRST, BROKEN, 10.0) == (key(1), key(2))
    assert not lanes.is_usable(MODEL)
    said = Failure(
        "load_failed", "the model could not be loaded: not enough memory", retry_after_s=1
    )
    assert lanes.why_not(MODEL, 10.0) == said
    assert lanes.want(MODEL, key(3), 10.5) == Unavailable(said)
    assert lanes.waiting(MODEL) == ()
    assert lanes.want(MODEL, key(4), 11.0) == Wait()
    assert _started(lanes, 11.0) == [SECOND]


def test_the_back_off_doubles_up_to_its_limit_and_ends_with_success() -> None:
    """1, 2, 4, 8, 16, 30, 30 … seconds, and from the start again once a load has worked."""
    lanes = _residency()
    now, waits = 0.0, []
    for _ in range(80):
        assert lanes.want(MODEL, None, now) == Wait()
        (started,) = _started(lanes, now)
        lanes.on_load_failed(started, BROKEN, now)
        retry_after_s = lanes.why_not(MODEL, now).retry_after_s
        assert retry_after_s is not None
        waits.append(retry_after_s)
        assert isinstance(lanes.want(MODEL, None, now + retry_after_s - 0.01), Unavailable)
        now += retry_after_s
    assert waits[:7] == [1, 2, 4, 8, 16, 30, 30]
    assert set(waits[7:]) == {30}
    lanes.want(MODEL, None, now)
    (last,) = _started(lanes, now)
    lanes.on_loaded(last, now)
    assert lanes.is_usable(MODEL)
    assert lanes.residences()[0].failure is None


def test_a_dead_runtime_is_loaded_again_by_the_next_want() -> None:
    """Death leaves the lane absent and starts nothing; the next want does, at once."""
    lanes = _residency()
    lanes.want(MODEL, None, 0.0)
    assert _started(lanes, 0.0) == [FIRST]
    lanes.on_loaded(FIRST, 1.0)
    lanes.on_gone(FIRST, 2.0)
    assert _started(lanes, 2.0) == []
    assert lanes.residences()[0].state == "absent"
    assert lanes.is_usable(MODEL)
    assert lanes.model_of(FIRST) is None
    assert lanes.want(MODEL, key(1), 2.0) == Wait()
    assert _started(lanes, 2.0) == [SECOND]


def test_who_comes_while_a_runtime_stops_gets_the_next_one() -> None:
    """A stopping runtime takes no work; its successor starts when it is gone, if it is wanted."""
    lanes = _residency()
    lanes.want(MODEL, None, 0.0)
    assert _started(lanes, 0.0) == [FIRST]
    lanes.on_loaded(FIRST, 1.0)
    assert lanes.retire(FIRST)
    assert not lanes.retire(FIRST)
    assert not lanes.retire(RuntimeId("unheard of"))
    assert lanes.want(MODEL, key(1), 2.0) == Wait()
    assert _started(lanes, 2.0) == []
    lanes.on_gone(FIRST, 3.0)
    assert _started(lanes, 3.0) == [SECOND]
    assert lanes.on_loaded(SECOND, 4.0) == (key(1),)


def test_reports_that_come_too_late_change_nothing() -> None:
    """A load that ends after it was called off, and runtimes nobody knows, are ignored."""
    lanes = _residency()
    lanes.want(MODEL, None, 0.0)
    assert _started(lanes, 0.0) == [FIRST]
    lanes.retire(FIRST)
    assert lanes.on_loaded(FIRST, 1.0) == ()
    assert lanes.on_load_failed(FIRST, BROKEN, 1.0) == ()
    assert lanes.residences()[0].state == "stopping"
    lanes.on_gone(FIRST, 2.0)
    lanes.on_gone(FIRST, 2.0)
    assert lanes.on_loaded(FIRST, 2.0) == ()
    assert not lanes.is_loading(FIRST)


def test_a_runtime_that_dies_while_loading_is_a_failed_load() -> None:
    """Whoever treats it as a death would restart it without end, so that is asserted."""
    lanes = _residency()
    lanes.want(MODEL, key(1), 0.0)
    assert _started(lanes, 0.0) == [FIRST]
    with pytest.raises(AssertionError):
        lanes.on_gone(FIRST, 1.0)


def test_a_removed_model_is_forgotten_once_it_has_no_runtime() -> None:
    """A lane outlives its model only as long as a runtime is alive in it."""
    lanes = _residency()
    lanes.want(MODEL, None, 0.0)
    assert _started(lanes, 0.0) == [FIRST]
    lanes.drop(MODEL)
    assert len(lanes.residences()) == 1
    lanes.on_load_failed(FIRST, BROKEN, 1.0)
    lanes.drop(MODEL)
    assert lanes.residences() == ()
    lanes.drop(MODEL)
    assert lanes.waiting(MODEL) == ()
    assert lanes.is_usable(MODEL)
    assert lanes.want(MODEL, None, 1.0) == Wait()
    assert _started(lanes, 1.0) == [SECOND]


# Room.


def _crowded() -> Residency:
    """Room for one, and one is ready since second 1."""
    lanes = _residency(RoomSettings(max_runtimes=1, min_resident_s=5.0, turn_s=20.0, wait_s=60.0))
    lanes.want(MODEL, None, 0.0)
    assert _started(lanes, 0.0) == [FIRST]
    lanes.on_loaded(FIRST, 1.0)
    return lanes


def test_the_idle_one_makes_room_after_its_while_and_not_before() -> None:
    """A second model waits until the first has been resident long enough, then takes its room."""
    lanes = _crowded()
    assert lanes.want(OTHER, key(1), 2.0) == Wait()
    assert lanes.step(OFFERS, (), 2.0) is None
    assert lanes.next_s() == 6.0
    assert lanes.step(OFFERS, (), 6.0) == Look(OTHER)
    assert lanes.step(OFFERS, (), 6.0) is None
    assert lanes.on_looked(OTHER, None, 6.0) == ()
    assert lanes.step(OFFERS, (), 6.0) == Clear((FIRST,))
    lanes.retire(FIRST)
    assert lanes.step(OFFERS, (), 6.0) is None
    lanes.on_gone(FIRST, 7.0)
    assert _started(lanes, 7.0) == [RuntimeId("other#2")]
    assert lanes.on_loaded(RuntimeId("other#2"), 8.0) == (key(1),)


def test_a_busy_one_gets_no_new_work_after_a_turn() -> None:
    """Who is in use is not touched for a turn; then it is told to finish what it has."""
    lanes = _crowded()
    lanes.want(OTHER, key(1), 10.0)
    assert lanes.step(OFFERS, (FIRST,), 29.9) is None
    assert lanes.next_s() == 30.0
    assert lanes.step(OFFERS, (FIRST,), 30.0) == Look(OTHER)
    assert lanes.step(OFFERS, (FIRST,), 30.0) is None
    assert lanes.next_s() == 70.0, "time changes nothing while it is looked at, but for the wait"
    lanes.on_looked(OTHER, None, 30.0)
    assert lanes.step(OFFERS, (FIRST,), 30.0) == Clear((FIRST,))


def test_nobody_goes_for_what_cannot_be_loaded() -> None:
    """Files that are gone or spoilt are a failed load, which costs nobody its place."""
    lanes = _crowded()
    lanes.want(OTHER, key(1), 10.0)
    assert lanes.step(OFFERS, (), 10.0) == Look(OTHER)
    assert lanes.on_looked(OTHER, SPOILT, 10.0) == (key(1),)
    assert lanes.step(OFFERS, (), 10.0) is None
    assert not lanes.is_usable(OTHER)
    assert isinstance(lanes.want(OTHER, key(2), 10.9), Unavailable)
    assert lanes.want(OTHER, key(2), 11.0) == Wait()
    assert lanes.step(OFFERS, (), 11.0) == Look(OTHER)
    assert lanes.on_looked(OTHER, SPOILT, 11.0) == (key(2),)
    assert isinstance(lanes.want(OTHER, key(3), 12.9), Unavailable)


def test_a_look_that_takes_for_ever_is_waited_for_like_room() -> None:
    """Who waits is told in time; an answer that comes after that changes nothing."""
    lanes = _crowded()
    lanes.want(OTHER, key(1), 10.0)
    assert lanes.step(OFFERS, (), 10.0) == Look(OTHER)
    assert lanes.step(OFFERS, (), 69.9) is None
    assert isinstance(lanes.step(OFFERS, (), 70.0), TellAll)
    assert lanes.on_looked(OTHER, SPOILT, 71.0) == ()
    lanes.want(OTHER, key(2), 72.0)
    assert lanes.on_looked(OTHER, SPOILT, 72.0) == (), "that was about an earlier wait"
    assert lanes.step(OFFERS, (), 72.0) == Look(OTHER)


def test_who_waits_for_room_is_told_in_time() -> None:
    """After the longest wait all who wait for the model are refused, and it has left the line."""
    lanes = _crowded()
    lanes.want(OTHER, key(1), 10.0)
    lanes.want(OTHER, key(2), 40.0)
    lanes.retire(FIRST)
    assert lanes.step(OFFERS, (FIRST,), 69.9) is None
    told = lanes.step(OFFERS, (FIRST,), 70.0)
    assert isinstance(told, TellAll)
    assert told.waiting == (key(1), key(2))
    assert told.failure.reason == "node_busy"
    assert "`max_runtimes` (1)" in told.failure.message
    assert not lanes.is_crowded
    assert lanes.next_s() is None


def test_a_model_that_is_removed_while_it_waits_has_left_the_line() -> None:
    """Were it installed again, its turn would be that of a lane that is not there any more."""
    lanes = _crowded()
    lanes.want(OTHER, None, 10.0)
    assert lanes.step(OFFERS, (), 10.0) == Look(OTHER)
    lanes.drop(OTHER)
    assert lanes.on_looked(OTHER, SPOILT, 10.0) == ()
    assert not lanes.is_crowded
    assert lanes.want(OTHER, None, 11.0) == Wait()
    assert lanes.step(OFFERS, (), 11.0) == Look(OTHER)


def test_nobody_waits_for_a_model_that_everybody_has_left() -> None:
    """The last to leave takes the model out of the line, unless it was asked for by itself."""
    lanes = _crowded()
    lanes.want(OTHER, key(1), 2.0)
    lanes.leave(OTHER, key(1))
    assert not lanes.is_crowded
    lanes.want(OTHER, None, 2.0)
    lanes.want(OTHER, key(1), 2.0)
    lanes.leave(OTHER, key(1))
    assert lanes.is_crowded
    lanes.give_up()
    assert not lanes.is_crowded


def test_a_model_that_is_removed_while_it_waits_is_said_to_be_gone() -> None:
    """Those who wait for it hear that it does not exist."""
    lanes = _crowded()
    lanes.want(ModelId("gone"), key(1), 2.0)
    told = lanes.step(OFFERS, (), 2.0)
    assert isinstance(told, TellAll)
    assert (told.waiting, told.failure.reason) == ((key(1),), "model_not_found")
