"""The agent: runtimes that die, hang, keep their slots or end too early."""

from __future__ import annotations

import msgspec
import pytest

from roost.backends.base import SlotUse
from roost.core.events import Delta, Failed, PrefillProgress, Usage
from roost.core.ids import RuntimeId, StreamId
from roost.errors import Failure
from roost.node.effects import Load, Pause, Stop, Unload
from roost.node.floor.pace import PaceSettings
from roost.wire.messages import Phase, Refused, Released
from tests.node.kit import (
    ANSWER,
    FINISHED,
    FIRST,
    MODEL,
    SETTINGS,
    STARTED,
    Node,
    key,
    offer,
    prepares,
    reason_of,
    sent,
)

QUICK = PaceSettings(stall_s=5.0, stall_floor_s=1.0)
DIED = Failure("runtime_died", "the process ended")
DIED_HERE = Failure("runtime_died", "the runtime that served the request ended unexpectedly")


def test_death_fails_what_runs_and_puts_back_what_has_not_begun() -> None:
    """Who has heard something gets an error event, who ran may be tried elsewhere, others wait."""
    node = Node(msgspec.structs.replace(SETTINGS, max_in_flight=4))
    node.run(1)
    node.event(1, STARTED, Delta("a"))
    node.run(2)
    node.open(3)
    node.prepared(3)
    node.open(4)
    stops = [e.key for e in node.gone() if isinstance(e, Stop)]
    assert stops == [key(1), key(2), key(4)]
    failed = node.events(1)[-1]
    assert isinstance(failed, Failed)
    assert failed.failure.reason == "runtime_died"
    refused = node.said(2)[0]
    assert isinstance(refused, Refused)
    assert (refused.failure.reason, refused.failure.retryable) == ("runtime_died", True)
    assert [e for e in node.all if isinstance(e, Load)][1:] == [Load(MODEL, RuntimeId("m#2"))]
    assert node.said(3) == [Phase(StreamId(3), "loading")]
    for stream in (1, 2, 4):
        node.closed(stream, DIED)
    assert node.said(4) == [Phase(StreamId(4), "loading")]
    assert prepares(node.loaded("m#2")) == [key(3), key(4)]
    for stream in (3, 4):
        node.prepared(stream)
        node.event(stream, *ANSWER)
        node.closed(stream)
    assert node.is_at_rest()
    assert [m for m in node.said() if isinstance(m, Released)] == [
        Released(StreamId(1), "decode"),
        Released(StreamId(2), "prefill"),
        Released(StreamId(3), "done"),
        Released(StreamId(4), "done"),
    ]


@pytest.mark.parametrize("phase", ["preparing", "seating"])
def test_a_request_is_put_back_once(phase: str) -> None:
    """What two runtimes did not survive may be its own doing: it is refused, and goes elsewhere."""
    node = Node(msgspec.structs.replace(SETTINGS, max_in_flight=3), offer(MODEL, 1))
    node.run(1)
    node.open(2)
    if phase == "seating":
        node.prepared(2)
    node.gone()
    node.closed(1)
    node.closed(2)
    node.open(3)
    assert prepares(node.loaded("m#2")) == [key(2), key(3)]
    node.prepared(3)
    if phase == "seating":
        node.prepared(2)
    node.gone("m#2")
    node.closed(3)
    node.closed(2)
    assert [type(m) for m in node.said(2)][-2:] == [Refused, Released]
    assert node.is_at_rest()


def test_a_preparation_that_finds_its_runtime_dead_is_put_back() -> None:
    """Its own report of the death comes first: it waits for the next runtime."""
    node = Node()
    node.open(1)
    node.loaded()
    node.take(node.agent.on_prepare_failed(key(1), DIED, node.now))
    assert node.fresh() == [Unload(FIRST), *sent(Phase(StreamId(1), "loading"))]
    assert node.gone() == [Load(MODEL, RuntimeId("m#2"))]
    assert prepares(node.loaded("m#2")) == [key(1)]
    node.take(node.agent.on_prepare_failed(key(1), DIED, node.now))
    assert reason_of(node.said(1)[-2]) == "runtime_died"
    node.gone("m#2")
    assert node.is_at_rest()


def test_who_leaves_while_being_put_back_is_stopped_once() -> None:
    """The stop that put it back is the one that is answered; then it is released."""
    node = Node()
    node.open(1)
    node.loaded()
    node.gone()
    assert node.cancel(1) == []
    assert node.closed(1) == sent(Released(StreamId(1), "waiting", 0.0))
    assert node.is_at_rest()


def test_the_streams_own_report_of_death_is_passed_on_once() -> None:
    """Failed from the backend, the close and the runtime's end make one terminal event."""
    node = Node()
    node.run(1)
    node.event(1, STARTED, Delta("a"))
    assert node.event(1, Failed(DIED, Usage(3, 0, 1)))[-1] == Unload(FIRST)
    node.closed(1)
    node.gone()
    assert node.events(1)[-1] == Failed(DIED, Usage(3, 0, 1))
    assert len([e for e in node.events(1) if isinstance(e, Failed)]) == 1
    assert node.is_at_rest()


def test_a_failed_event_before_any_other_is_a_refusal() -> None:
    """The gateway has heard nothing, so it may try elsewhere."""
    node = Node()
    node.run(1)
    trouble = Failure("runtime_error", "no")
    assert node.event(1, Failed(trouble)) == sent(Refused(StreamId(1), trouble))
    assert node.closed(1) == sent(Released(StreamId(1), "prefill"))
    assert [e for e in node.all if isinstance(e, Unload)] == []


def test_nothing_is_sent_to_a_dead_runtime_while_its_end_is_not_reported() -> None:
    """Whoever learns of the death first says so; the next request waits for the next runtime."""
    node = Node()
    node.open(1)
    node.loaded()
    node.take(node.agent.on_prepare_failed(key(1), DIED, node.now))
    assert Unload(FIRST) in node.fresh()
    assert node.open(2) == sent(Phase(StreamId(2), "loading"))
    assert node.gone() == [Load(MODEL, RuntimeId("m#2"))]
    assert prepares(node.loaded("m#2")) == [key(1), key(2)]


def test_a_stream_that_ends_without_a_result_has_failed() -> None:
    """A backend that just stops, or raises, still gives one terminal event; neighbours live on."""
    node = Node()
    node.run(1)
    node.event(1, STARTED, Delta("a"))
    node.closed(1)
    failed = node.events(1)[-1]
    assert isinstance(failed, Failed)
    assert failed.failure.reason == "runtime_error"
    assert node.said(1)[-1] == Released(StreamId(1), "decode")
    node.run(2)
    node.closed(2, Failure("bad_request", "a number out of range"))
    assert reason_of(node.said(2)[0]) == "bad_request"
    assert [e for e in node.all if isinstance(e, Unload)] == []
    assert node.serve(3) == SlotUse(0, reuse=False)


def test_a_slot_that_cannot_be_freed_costs_the_runtime_but_no_neighbour() -> None:
    """The runtime takes no more work, lets its other stream end, and is replaced."""
    node = Node()
    node.run(1)
    node.run(2)
    node.event(2, STARTED)
    node.cancel(1)
    assert node.closed(1, Failure("runtime_error", "not released in time")) == sent(
        Released(StreamId(1), "prefill", 0.0)
    )
    assert node.agent.status().runtimes[0].state == "stopping"
    assert node.open(3) == sent(Phase(StreamId(3), "loading"))
    node.event(2, Delta("a"), FINISHED)
    assert node.closed(2)[-1] == Unload(FIRST)
    assert node.gone() == [Load(MODEL, RuntimeId("m#2"))]
    node.loaded("m#2")
    node.prepared(3)
    node.event(3, *ANSWER)
    node.closed(3)
    assert node.is_at_rest()


def test_a_runtime_being_replaced_starts_nothing() -> None:
    """Who was preparing on it waits for the next one, and nobody is left behind."""
    node = Node(msgspec.structs.replace(SETTINGS, max_in_flight=3), offer(MODEL, 1))
    node.run(1)
    node.open(2)
    node.prepared(2)
    node.open(3)
    node.cancel(1)
    effects = node.closed(1, Failure("runtime_error", "not released in time"))
    assert [e.key for e in effects if isinstance(e, Stop)] == [key(3)]
    assert node.said(2) == [Phase(StreamId(2), "loading")]
    assert node.closed(3) == [*sent(Phase(StreamId(3), "loading")), Unload(FIRST)]
    assert node.gone() == [Load(MODEL, RuntimeId("m#2"))]
    assert prepares(node.loaded("m#2")) == [key(2), key(3)]


def test_a_runtime_that_makes_no_progress_is_replaced() -> None:
    """Silence of everybody for `stall_s` while work runs ends the runtime and its streams."""
    node = Node(msgspec.structs.replace(SETTINGS, pace=QUICK))
    node.run(1)
    node.run(2)
    node.event(1, STARTED)
    node.tick(4.0)
    node.event(2, STARTED)
    assert node.tick(4.9) == []
    assert node.agent.statistics().stalls == 0
    effects = node.tick(0.1)
    assert [e.key for e in effects if isinstance(e, Stop)] == [key(1), key(2)]
    assert effects[-1] == Unload(FIRST)
    assert node.agent.statistics().stalls == 1
    for stream in (1, 2):
        failed = node.events(stream)[-1]
        assert isinstance(failed, Failed)
        assert failed.failure.reason == "runtime_died"
    assert node.tick(60.0) == []
    node.gone()
    node.closed(1, DIED)
    node.closed(2, DIED)
    assert node.is_at_rest()


def test_a_slow_runtime_is_given_the_time_it_needs() -> None:
    """Four times the slowest step that it has shown, once it has shown enough of them."""
    node = Node(msgspec.structs.replace(SETTINGS, pace=QUICK))
    node.run(1)
    node.event(1, STARTED)
    for done in range(1, 10):
        node.tick(4.0)
        node.event(1, PrefillProgress(done, 10))
    assert node.tick(15.9) == []
    assert isinstance(node.tick(0.2)[-1], Unload)
    assert node.agent.statistics().stalls == 1


def test_a_quick_runtime_is_found_out_early() -> None:
    """Prefill and decode have each their own pace, and a new prefill is not judged by decoding."""
    node = Node(msgspec.structs.replace(SETTINGS, pace=QUICK))
    node.run(1)
    node.event(1, STARTED)
    for _ in range(12):
        node.tick(0.05)
        node.event(1, Delta("a"))
    node.run(2)
    assert node.tick(4.0) == []
    node.cancel(2)
    node.closed(2)
    node.event(1, Delta("a"))
    assert node.tick(0.9) == []
    assert isinstance(node.tick(0.2)[-1], Unload)


def test_a_preparation_that_hangs_costs_the_runtime_and_not_the_request() -> None:
    """The tokeniser is the runtime's: if that hangs, the next runtime prepares the request."""
    node = Node(msgspec.structs.replace(SETTINGS, pace=QUICK))
    node.open(1)
    node.loaded()
    node.tick(60.0)
    node.closed(1)
    node.gone()
    assert node.agent.statistics().stalls == 1
    assert prepares(node.loaded("m#2")) == [key(1)]


def test_the_nodes_own_sleep_is_no_stall_of_its_runtimes() -> None:
    """After a pause of the whole process the runtime has its time again, and no more than that."""
    node = Node(msgspec.structs.replace(SETTINGS, pace=QUICK))
    node.run(1)
    node.event(1, STARTED)
    node.sleep(600.0)
    assert node.agent.statistics().stalls == 0
    node.tick(4.9)
    assert node.agent.statistics().stalls == 0
    node.tick(0.2)
    assert node.agent.statistics().stalls == 1


def test_the_time_of_a_pause_is_not_counted() -> None:
    """When the reader is back, or has gone, the silence begins anew."""
    node = Node(msgspec.structs.replace(SETTINGS, pace=QUICK, outbox_events_max=2))
    node.run(1, credit=1)
    node.run(2)
    node.event(1, STARTED, Delta("a"), Delta("b"))
    node.tick(60.0)
    node.credit(1, 1)
    node.tick(4.0)
    node.event(1, Delta("c"), Delta("d"), Delta("e"))
    node.tick(60.0)
    node.cancel(1)
    node.tick(4.0)
    assert node.agent.statistics().stalls == 0
    node.tick(1.1)
    assert node.agent.statistics().stalls == 1


def test_silence_is_no_stall_without_work_or_behind_a_pause() -> None:
    """An idle runtime may be silent, and so may one whose stream was told to pause."""
    node = Node(msgspec.structs.replace(SETTINGS, pace=QUICK, outbox_events_max=2))
    node.serve(1)
    node.tick(60.0)
    node.run(2, credit=1)
    effects = node.event(2, STARTED, Delta("a"), Delta("b"))
    assert effects[-1] == Pause(key(2), paused=True)
    node.tick(60.0)
    assert node.agent.statistics().stalls == 0
    assert node.credit(2, 1)[-1] == Pause(key(2), paused=False)
    assert node.events(2) == [STARTED, Delta("ab", 2)]


def test_a_runtime_that_dies_while_loading_is_a_failed_load() -> None:
    """Who waits is told at once, and the back-off holds: no loop of crashes."""
    node = Node()
    node.open(1)
    node.gone()
    assert reason_of(node.said(1)[1]) == "load_failed"
    node.open(2)
    assert reason_of(node.said(2)[0]) == "load_failed"
    assert node.agent.statistics().loads == 1


def test_events_after_the_runtimes_end_are_not_passed_on() -> None:
    """The stream has been told of the death; what was still under way is dropped."""
    node = Node()
    node.run(1)
    node.event(1, Delta("a", 2))
    node.gone()
    assert node.events(1)[-1] == Failed(DIED_HERE, Usage(completion_tokens=2))
    assert node.event(1, Delta("late")) == []
    assert node.closed(1) == sent(Released(StreamId(1), "decode"))


def test_a_runtime_is_told_to_stop_once() -> None:
    """Two streams that report the same death make one Unload."""
    node = Node()
    for stream in (1, 2):
        node.run(stream)
        node.event(stream, STARTED)
    for stream in (1, 2):
        node.event(stream, Failed(DIED))
        node.closed(stream, DIED)
    assert [e for e in node.all if isinstance(e, Unload)] == [Unload(FIRST)]
