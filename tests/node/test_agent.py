"""The agent: each way in which a request can go, by the effects it asks for."""

from __future__ import annotations

import msgspec
import pytest

from roost.backends.base import SlotUse
from roost.core.events import Delta, Failed, PrefillProgress, Started, Usage
from roost.core.ids import ModelId, RequestId, RuntimeId, StreamId
from roost.core.snapshots import SlotView
from roost.errors import Failure
from roost.node.agent import Agent, AgentStatistics
from roost.node.effects import Effect, Load, Pause, Prepare, Run, Send, Stop, Unload
from roost.node.settings import AgentSettings
from roost.wire.messages import Events, FromNode, Open, Phase, Refused, Released
from tests.node.kit import (
    ANSWER,
    FINISHED,
    LINK,
    MODEL,
    OTHER,
    SETTINGS,
    Node,
    key,
    offer,
    open_message,
    prepared,
    prepares,
    request,
)

FIRST = RuntimeId("m#1")
BROKEN = Failure("load_failed", "not enough memory")
DIED = Failure("runtime_died", "the process ended")
STARTED = Started(3, 0, 0)


def _sent(*messages: FromNode) -> list[Effect]:
    return [Send(LINK, message) for message in messages]


def _reason(message: FromNode) -> str:
    assert isinstance(message, Refused)
    return message.failure.reason


# A request's ordinary life.


def test_a_first_request_loads_prepares_runs_and_is_released() -> None:
    """Every step of a life, in order, from an absent model to a free slot."""
    node = Node()
    one = StreamId(1)
    assert node.open(1) == [Load(MODEL, FIRST), *_sent(Phase(one, "loading"))]
    assert node.loaded() == [
        *_sent(Phase(one, "preparing")),
        Prepare(key(1), FIRST, request()),
    ]
    use = SlotUse(0, reuse=False)
    assert node.prepared(1) == [Run(key(1), RequestId("r1"), FIRST, prepared(), use)]
    assert node.event(1, STARTED) == _sent(Events(one, 0, (STARTED,)))
    assert node.event(1, Delta("a")) == _sent(Events(one, 1, (Delta("a"),)))
    assert node.event(1, FINISHED) == _sent(Events(one, 2, (FINISHED,)))
    assert not node.is_at_rest()
    assert node.closed(1) == _sent(Released(one, "done"))
    assert node.is_at_rest()


def test_a_ready_model_is_not_announced() -> None:
    """Where nothing is waited for, no phase is sent: one message less per request."""
    node = Node()
    node.serve(1)
    assert node.open(2) == [Prepare(key(2), FIRST, request())]


def test_requests_share_one_load() -> None:
    """Everybody who waits is served by the same load, in the order of coming."""
    node = Node()
    node.open(1)
    assert node.open(2) == _sent(Phase(StreamId(2), "loading"))
    assert prepares(node.loaded()) == [key(1), key(2)]


def test_a_conversation_finds_its_slot() -> None:
    """A second turn of the same tenant gets the slot with its KV, another tenant does not."""
    node = Node()
    assert node.serve(1, 1, 2, 3, 4, tenant="ann") == SlotUse(0, reuse=False)
    assert node.serve(2, 7, 8, 9, tenant="bob") == SlotUse(1, reuse=False)
    assert node.serve(3, 1, 2, 3, 4, 5, tenant="ann") == SlotUse(0, reuse=True)
    assert node.serve(4, 1, 2, 3, 4, 5, tenant="bob") == SlotUse(1, reuse=True)


def test_models_have_their_own_runtimes_and_limits() -> None:
    """Two models are resident at once; one being full does not refuse the other."""
    node = Node(SETTINGS, offer(MODEL, 1), offer(OTHER, 1))
    node.run(1)
    assert node.open(2, model=OTHER)[0] == Load(OTHER, RuntimeId("other#2"))
    assert [_reason(m) for m in node.said(2) if isinstance(m, Refused)] == []
    node.open(3)
    assert _reason(node.said(3)[0]) == "node_busy"


def test_preloading_is_a_load_without_a_request() -> None:
    """A model may be loaded ahead; unknown models, and a second time, ask for nothing."""
    node = Node()
    assert node.take(node.agent.on_preload(MODEL, node.now))[0] == Load(MODEL, FIRST)
    node.fresh()
    node.agent.on_preload(MODEL, node.now)
    node.agent.on_preload(ModelId("unheard of"), node.now)
    assert node.loaded() == []
    assert prepares(node.open(1)) == [key(1)]
    assert node.agent.statistics().loads == 1


# Refusals.


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (open_message(5, model=ModelId("unheard of")), "model_not_found"),
        (open_message(5, deadline_s=0.0), "deadline"),
        (open_message(5, deadline_s=-1.0), "deadline"),
    ],
)
def test_what_cannot_be_served_is_refused_at_once(message: Open, reason: str) -> None:
    """Refused and Released, nothing started, nothing left."""
    node = Node()
    node.take(node.agent.on_message(LINK, message, node.now))
    refused, released = node.said(5)
    assert _reason(refused) == reason
    assert released == Released(StreamId(5), "waiting")
    assert node.is_at_rest()
    assert node.agent.statistics().refused == 1


def test_the_nodes_own_limit_holds() -> None:
    """As many as there are slots, however many the gateway sends; a place freed is a place."""
    node = Node()
    node.run(1)
    node.run(2)
    node.open(3)
    refused = node.said(3)[0]
    assert isinstance(refused, Refused)
    assert (refused.failure.reason, refused.failure.retry_after_s) == ("node_busy", 1)
    node.event(1, *ANSWER)
    node.closed(1)
    assert prepares(node.open(4)) == [key(4)]


def test_streams_that_only_wait_for_credit_are_bounded_too() -> None:
    """A gateway that grants none cannot pile up answers."""
    node = Node(msgspec.structs.replace(SETTINGS, streams_max=3))
    for stream in (1, 2, 3):
        node.serve(stream, credit=0)
    assert node.agent.statistics().in_flight == 0
    node.open(4)
    assert _reason(node.said(4)[0]) == "node_busy"
    node.credit(1, 1)
    assert prepares(node.open(5)) == [key(5)]


def test_a_failed_load_refuses_all_who_wait_and_recovers() -> None:
    """Each is told why and when; too early a request is refused at once; a later one loads."""
    node = Node()
    node.open(1)
    node.open(2)
    node.load_failed("m#1", BROKEN)
    for stream in (1, 2):
        refused, released = node.said(stream)[-2:]
        assert isinstance(refused, Refused)
        assert (refused.failure.reason, refused.failure.retry_after_s) == ("load_failed", 1)
        assert released == Released(StreamId(stream), "waiting")
    assert [m.usable for m in node.agent.status().models] == [False]
    assert node.agent.status().runtimes[0].failure == "not enough memory"
    node.open(3)
    assert _reason(node.said(3)[0]) == "load_failed"
    node.now += 1.0
    assert node.open(4)[0] == Load(MODEL, RuntimeId("m#2"))
    node.loaded("m#2")
    assert [m.usable for m in node.agent.status().models] == [True]


@pytest.mark.parametrize("reason", ["context_length_exceeded", "unsupported", "bad_request"])
def test_a_callers_mistake_passes_through(reason: str) -> None:
    """What `prepare` refuses is refused in its own words, and takes no slot."""
    node = Node()
    node.open(1)
    node.loaded()
    mistake = Failure(reason, "in words", param="messages")
    node.take(node.agent.on_prepare_failed(key(1), mistake, node.now))
    assert node.said(1)[-2:] == [Refused(StreamId(1), mistake), Released(StreamId(1), "waiting")]
    assert node.is_at_rest()
    assert [e for e in node.all if isinstance(e, (Run, Unload))] == []


# Waiting for a slot.


def test_who_finds_every_slot_taken_waits_in_line() -> None:
    """With more streams than slots, the prepared wait in order and run as slots come free."""
    node = Node(msgspec.structs.replace(SETTINGS, max_in_flight=4), offer(MODEL, 1))
    node.run(1)
    for stream in (2, 3):
        node.open(stream)
        assert node.prepared(stream) == []
    node.event(1, *ANSWER)
    assert [e.key for e in node.closed(1) if isinstance(e, Run)] == [key(2)]
    assert node.cancel(3) == _sent(Released(StreamId(3), "waiting", 0.0))
    node.event(2, *ANSWER)
    assert [e for e in node.closed(2) if isinstance(e, Run)] == []
    assert node.is_at_rest()


def test_a_cancelled_streams_slot_is_given_when_it_is_free() -> None:
    """Not when the stop was asked for: the next in line waits for the acknowledgement."""
    node = Node(msgspec.structs.replace(SETTINGS, max_in_flight=2), offer(MODEL, 1))
    node.run(1)
    node.open(2)
    assert node.prepared(2) == []
    assert node.cancel(1) == [Stop(key(1))]
    assert node.tick(0.5) == []
    effects = node.closed(1)
    assert effects[0] == _sent(Released(StreamId(1), "prefill", 0.5))[0]
    assert [e.key for e in effects if isinstance(e, Run)] == [key(2)]


# Cancellation.


def test_cancel_while_loading() -> None:
    """Released at once; the load goes on for the next, and tells nobody."""
    node = Node()
    node.open(1)
    assert node.cancel(1) == _sent(Released(StreamId(1), "waiting", 0.0))
    assert node.loaded() == []
    assert node.is_at_rest()


def test_cancel_while_preparing() -> None:
    """The work is stopped and released when it has been left; a late result is ignored."""
    node = Node()
    node.open(1)
    node.loaded()
    assert node.cancel(1) == [Stop(key(1))]
    assert node.cancel(1) == []
    assert node.prepared(1) == []
    node.now += 0.25
    assert node.closed(1) == _sent(Released(StreamId(1), "waiting", 0.25))
    assert node.closed(1) == []
    assert node.is_at_rest()


@pytest.mark.parametrize(
    ("events", "phase", "kept"),
    [
        ((), "prefill", 0),
        ((STARTED, PrefillProgress(2, 3)), "prefill", 2),
        ((STARTED, Delta("a", 2)), "decode", 5),
    ],
)
def test_cancel_while_running(events: tuple[Started, ...], phase: str, kept: int) -> None:
    """Stopped, released with the time it took, and the slot's content known as far as it went."""
    node = Node()
    node.run(1)
    node.event(1, *events)
    assert node.cancel(1) == [Stop(key(1))]
    assert node.event(1, Delta("late")) == []
    node.now += 0.25
    (send,) = node.closed(1)
    assert isinstance(send, Send)
    assert send.message == msgspec.structs.replace(Released(StreamId(1), "done", 0.25), phase=phase)
    assert node.agent.status().runtimes[0].slots[0] == SlotView(0, busy=False, tokens=kept)


def test_cancel_after_the_answer_was_complete() -> None:
    """Between the last event and the free slot it stops; while only credit is missing it ends."""
    node = Node()
    node.run(1)
    node.event(1, *ANSWER)
    assert node.cancel(1) == [Stop(key(1))]
    assert node.closed(1) == _sent(Released(StreamId(1), "done", 0.0))
    node.serve(2, credit=0)
    assert node.cancel(2) == _sent(Released(StreamId(2), "done"))
    assert node.is_at_rest()


def test_cancel_and_credit_for_a_released_stream_are_ignored() -> None:
    """They crossed the Released on the wire."""
    node = Node()
    node.serve(1)
    assert node.cancel(1) == node.credit(1, 5) == []


def test_a_lost_link_cancels_its_streams_and_only_its_own() -> None:
    """In every phase; nothing is said to a link that is gone, and the other link goes on."""
    node = Node(msgspec.structs.replace(SETTINGS, max_in_flight=9), offer(MODEL, 2))
    node.run(1)
    node.take(node.agent.on_link_up(2, node.now))
    for stream in (1, 2, 3):
        node.take(node.agent.on_message(2, open_message(stream), node.now))
    for stream in (1, 2):
        node.take(node.agent.on_prepared(key(stream, 2), prepared(), node.now))
    node.fresh()
    node.take(node.agent.on_link_down(2, node.now))
    assert node.fresh() == [Stop(key(1, 2)), Stop(key(3, 2))]
    for stream in (1, 3):
        node.take(node.agent.on_closed(key(stream, 2), None, node.now))
    assert node.fresh() == []
    assert node.event(1, *ANSWER)
    node.closed(1)
    assert node.is_at_rest()
    assert node.said(link=2) == []
    assert node.agent.statistics().links == 1
    assert node.agent.on_link_down(2, node.now) == []


# Deadlines.


def test_a_deadline_before_the_start_is_a_refusal() -> None:
    """Nothing had been started, so that is what is said; loading and waiting end at once."""
    node = Node(msgspec.structs.replace(SETTINGS, max_in_flight=2), offer(MODEL, 1))
    node.open(1, deadline_s=1.0)
    assert node.agent.next_tick() is not None
    assert node.tick(0.99) == []
    refused, released = node.tick(0.01)
    assert isinstance(refused, Send)
    assert _reason(refused.message) == "deadline"
    assert released == _sent(Released(StreamId(1), "waiting"))[0]
    node.loaded()
    node.run(2)
    node.open(3, deadline_s=1.0)
    node.prepared(3)
    assert node.tick(1.0) == _sent(*node.said(3))


def test_a_deadline_while_preparing_stops_the_work() -> None:
    """The refusal is sent at once and the release when the work has been left."""
    node = Node()
    node.open(1, deadline_s=1.0)
    node.loaded()
    refused, stop = node.tick(1.0)
    assert isinstance(refused, Send)
    assert _reason(refused.message) == "deadline"
    assert stop == Stop(key(1))
    assert node.closed(1) == _sent(Released(StreamId(1), "waiting"))


def test_a_deadline_while_running_is_a_failed_end() -> None:
    """One terminal event with what was spent, then the release; no tick does it twice."""
    node = Node()
    node.run(1, deadline_s=1.0)
    node.event(1, STARTED, Delta("ab", 2))
    event, stop = node.tick(1.0)
    assert isinstance(event, Send)
    assert isinstance(event.message, Events)
    (failed,) = event.message.events
    assert isinstance(failed, Failed)
    assert (failed.failure.reason, failed.usage) == ("deadline", Usage(3, 0, 2))
    assert stop == Stop(key(1))
    assert node.tick(1.0) == node.event(1, Delta("late")) == []
    assert node.closed(1) == _sent(Released(StreamId(1), "decode"))


# Trouble with a runtime.


def test_death_fails_what_runs_and_refuses_what_has_not_begun() -> None:
    """Who has heard something gets an error event; who has not may be tried elsewhere."""
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
    for stream in (2, 3, 4):
        refused = node.said(stream)[0]
        assert isinstance(refused, Refused)
        assert (refused.failure.reason, refused.failure.retryable) == ("runtime_died", True)
    for stream in (1, 2, 4):
        node.closed(stream, DIED)
    assert node.is_at_rest()
    assert [m for m in node.said() if isinstance(m, Released)] == [
        Released(StreamId(3), "waiting"),
        Released(StreamId(1), "decode"),
        Released(StreamId(2), "prefill"),
        Released(StreamId(4), "waiting"),
    ]
    assert node.open(5)[0] == Load(MODEL, RuntimeId("m#2"))


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
    assert node.event(1, Failed(trouble)) == _sent(Refused(StreamId(1), trouble))
    assert node.closed(1) == _sent(Released(StreamId(1), "prefill"))
    assert [e for e in node.all if isinstance(e, Unload)] == []


def test_nothing_is_sent_to_a_dead_runtime_while_its_end_is_not_reported() -> None:
    """Whoever learns of the death first says so; the next request waits for the next runtime."""
    node = Node()
    node.open(1)
    node.loaded()
    node.take(node.agent.on_prepare_failed(key(1), DIED, node.now))
    assert node.fresh()[-1] == Unload(FIRST)
    assert node.open(2) == _sent(Phase(StreamId(2), "loading"))
    assert node.gone() == [Load(MODEL, RuntimeId("m#2"))]
    assert prepares(node.loaded("m#2")) == [key(2)]


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
    assert _reason(node.said(2)[0]) == "bad_request"
    assert [e for e in node.all if isinstance(e, Unload)] == []
    assert node.serve(3) == SlotUse(0, reuse=True)


def test_a_slot_that_cannot_be_freed_costs_the_runtime_but_no_neighbour() -> None:
    """The runtime takes no more work, lets its other stream end, and is replaced."""
    node = Node()
    node.run(1)
    node.run(2)
    node.event(2, STARTED)
    node.cancel(1)
    assert node.closed(1, Failure("runtime_error", "not released in time")) == _sent(
        Released(StreamId(1), "prefill", 0.0)
    )
    assert node.agent.status().runtimes[0].state == "stopping"
    assert node.open(3) == _sent(Phase(StreamId(3), "loading"))
    node.event(2, Delta("a"), FINISHED)
    assert node.closed(2)[-1] == Unload(FIRST)
    assert node.gone() == [Load(MODEL, RuntimeId("m#2"))]
    node.loaded("m#2")
    node.prepared(3)
    node.event(3, *ANSWER)
    node.closed(3)
    assert node.is_at_rest()


def test_a_runtime_being_replaced_starts_nothing() -> None:
    """Who was preparing on it is refused, to be tried elsewhere, and nobody is left behind."""
    node = Node(msgspec.structs.replace(SETTINGS, max_in_flight=3), offer(MODEL, 1))
    node.run(1)
    node.open(2)
    node.prepared(2)
    node.open(3)
    node.cancel(1)
    effects = node.closed(1, Failure("runtime_error", "not released in time"))
    assert [e.key for e in effects if isinstance(e, Stop)] == [key(3)]
    assert [_reason(node.said(s)[0]) for s in (2, 3)] == ["runtime_died"] * 2
    assert node.closed(3)[-1] == Unload(FIRST)


def test_a_runtime_that_makes_no_progress_is_replaced() -> None:
    """Silence of everybody for `stall_s` while work runs ends the runtime and its streams."""
    node = Node(msgspec.structs.replace(SETTINGS, stall_s=5.0))
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
        assert failed.failure.reason == "runtime_error"
    assert node.tick(60.0) == []
    node.gone()
    node.closed(1, DIED)
    node.closed(2, DIED)
    assert node.is_at_rest()


def test_silence_is_no_stall_without_work_or_behind_a_pause() -> None:
    """An idle runtime may be silent, and so may one whose stream was told to pause."""
    node = Node(msgspec.structs.replace(SETTINGS, stall_s=5.0, outbox_events_max=2))
    node.serve(1)
    node.tick(60.0)
    node.run(2, credit=1)
    effects = node.event(2, STARTED, Delta("a"), Delta("b"))
    assert effects[-1] == Pause(key(2), paused=True)
    node.tick(60.0)
    assert node.agent.statistics().stalls == 0
    assert node.credit(2, 1)[-1] == Pause(key(2), paused=False)
    assert node.events(2) == [STARTED, Delta("ab", 2)]


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


# Credit.


def test_a_stream_that_leaves_is_neither_paused_nor_resumed() -> None:
    """Credit for the last words of a stream that was stopped says nothing to its backend."""
    node = Node(msgspec.structs.replace(SETTINGS, outbox_events_max=1))
    node.run(1, credit=0, deadline_s=1.0)
    assert node.event(1, STARTED) == [Pause(key(1), paused=True)]
    assert node.tick(1.0) == [Stop(key(1))]
    assert [type(e) for e in node.credit(1, 1)] == [Send]


def test_without_credit_a_finished_stream_frees_its_slot_and_keeps_its_words() -> None:
    """The slot does not wait for the reader; Released does."""
    node = Node()
    node.run(1, credit=0)
    node.event(1, *ANSWER)
    assert node.closed(1) == []
    assert node.agent.status().in_flight == 0
    assert [s.busy for s in node.agent.status().runtimes[0].slots] == [False, False]
    assert node.credit(1, 1) == _sent(
        Events(StreamId(1), 0, (STARTED, Delta("ab", 2), FINISHED)), Released(StreamId(1), "done")
    )


# Drain, shutdown, models.


def test_drain_refuses_the_new_and_finishes_the_old() -> None:
    """What was accepted is served, from whatever phase it is in."""
    node = Node()
    node.open(1)
    node.take(node.agent.on_drain(node.now))
    node.open(2)
    assert _reason(node.said(2)[0]) == "draining"
    node.loaded()
    node.prepared(1)
    node.event(1, *ANSWER)
    node.closed(1)
    assert node.said(1)[-1] == Released(StreamId(1), "done")
    assert node.agent.status().draining
    assert node.agent.on_preload(OTHER, node.now) == []


def test_shutdown_ends_everything() -> None:
    """Streams fail or are refused, ready and loading runtimes stop, nothing is left."""
    node = Node(SETTINGS, offer(), offer(OTHER))
    node.run(1)
    node.event(1, STARTED)
    node.open(2)
    node.open(3, model=OTHER)
    node.take(node.agent.on_shutdown(node.now))
    effects = node.fresh()
    assert [e.key for e in effects if isinstance(e, Stop)] == [key(1), key(2)]
    unloads = [e.runtime for e in effects if isinstance(e, Unload)]
    assert unloads == [FIRST, RuntimeId("other#2")]
    assert [_reason(node.said(s)[-2]) for s in (3,)] == ["draining"]
    assert isinstance(node.events(1)[-1], Failed)
    node.take(node.agent.on_loaded(RuntimeId("other#2"), node.now))
    for stream in (1, 2):
        node.closed(stream)
    for runtime in unloads:
        node.gone(runtime)
    assert node.is_at_rest()
    assert node.agent.statistics().runtimes == 0


def test_removed_models_stop_when_their_streams_have_ended() -> None:
    """A removed model is refused from then on; what runs is finished; new models are served."""
    node = Node()
    node.run(1)
    node.take(node.agent.on_models([offer(OTHER)], node.now))
    assert node.fresh() == []
    node.open(2)
    assert _reason(node.said(2)[0]) == "model_not_found"
    node.event(1, *ANSWER)
    assert node.closed(1)[-1] == Unload(FIRST)
    node.gone()
    node.take(node.agent.on_models([offer(OTHER)], node.now))
    assert node.agent.status().runtimes == ()
    assert node.run(3, model=OTHER) == SlotUse(0, reuse=False)


def test_a_model_removed_while_it_loads_is_not_kept() -> None:
    """The load cannot be called back, but nothing runs on it."""
    node = Node()
    node.open(1)
    node.take(node.agent.on_models([], node.now))
    effects = node.loaded()
    assert [e.key for e in effects if isinstance(e, Stop)] == [key(1)]
    assert node.closed(1)[-1] == Unload(FIRST)
    node.gone()
    assert node.is_at_rest()


# Reports.


def test_load_progress_is_passed_on_at_a_bearable_rate() -> None:
    """The first report at once, then one per interval, always within 0 to 1."""
    node = Node()
    node.open(1)
    for progress in (0.1, 0.2, float("nan"), 0.3):
        node.take(node.agent.on_load_progress(FIRST, progress, node.now))
    node.now += 0.25
    node.take(node.agent.on_load_progress(FIRST, 7.0, node.now))
    node.open(2)
    node.take(node.agent.on_load_progress(RuntimeId("unheard of"), 0.5, node.now))
    phases = [(m.stream, m.progress) for m in node.said() if isinstance(m, Phase)]
    assert phases == [(1, None), (1, 0.1), (1, 1.0), (2, 1.0)]


def test_status_is_sent_on_change_at_most_so_often_and_at_least_so_often() -> None:
    """At once on a new link; then changes are gathered for 0.1 s; an idle node reports each 1 s."""
    node = Node()
    assert len(node.statuses()) == 1
    node.run(1)
    node.event(1, *ANSWER)
    node.closed(1)
    assert len(node.statuses()) == 1
    assert node.agent.next_tick() == pytest.approx(100.1)
    node.tick(0.1)
    assert len(node.statuses()) == 2
    node.tick(0.5)
    assert len(node.statuses()) == 2
    assert node.agent.next_tick() == pytest.approx(101.1)
    node.tick(0.5)
    assert len(node.statuses()) == 3


def test_a_status_tells_slots_telemetry_and_limits() -> None:
    """A report holds what a gateway decides by, and what people want to see."""
    node = Node()
    node.run(1)
    node.event(1, STARTED, Delta("a", 4))
    node.now += 0.2
    node.take(node.agent.on_telemetry(123, 0.5, node.now))
    status = node.statuses()[-1]
    assert (status.in_flight, status.max_in_flight, status.draining) == (1, 2, False)
    assert (status.rss_bytes, status.load_1m) == (123, 0.5)
    (runtime,) = status.runtimes
    assert (runtime.model, runtime.backend, runtime.state) == (MODEL, "tiny", "ready")
    assert (runtime.runtime, runtime.ctx, runtime.load_s) == (FIRST, 4096, 0.0)
    assert runtime.slots == (
        SlotView(0, busy=True, tokens=7),
        SlotView(1, busy=False, tokens=0),
    )


def test_without_links_nothing_is_reported_or_awaited() -> None:
    """A node that no gateway listens to does not tick."""
    agent = Agent(AgentSettings(backend="tiny"), [])
    assert agent.on_tick(1.0) == []
    assert agent.next_tick() is None
    assert agent.status().max_in_flight == 0
    assert agent.statistics() == AgentStatistics(0, 0, 0, 0, 0, 0, 0, 0, 0, draining=False)


def test_late_reports_about_released_streams_are_ignored() -> None:
    """Whatever the shell still says about a stream that is gone changes nothing."""
    node = Node()
    node.serve(1)
    assert node.prepared(1) == node.event(1, Delta("a")) == node.closed(1) == []
    node.take(node.agent.on_prepare_failed(key(1), DIED, node.now))
    assert node.fresh() == []


def test_a_stream_number_used_twice_is_a_defect_of_the_link() -> None:
    """The link end refuses it before the agent sees it."""
    node = Node()
    node.run(1)
    with pytest.raises(AssertionError):
        node.open(1)
