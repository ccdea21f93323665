"""The agent: drain, shutdown, models that come and go, and what is reported when."""

from __future__ import annotations

import msgspec
import pytest

from roost.backends.base import SlotUse
from roost.core.events import Delta, Failed
from roost.core.ids import RuntimeId, StreamId, TenantId
from roost.core.snapshots import SlotView
from roost.errors import Failure
from roost.node.agent import Agent
from roost.node.effects import Load, Prepare, Stop, Unload
from roost.node.settings import AgentSettings
from roost.node.statistics import AgentStatistics
from roost.wire.messages import Phase, Released
from tests.node.kit import (
    ANSWER,
    FINISHED,
    FIRST,
    MODEL,
    OTHER,
    SETTINGS,
    STARTED,
    Node,
    key,
    offer,
    reason_of,
    request,
    sent,
)

DIED = Failure("runtime_died", "the process ended")


# Drain, shutdown, models.


def test_drain_refuses_the_new_and_finishes_the_old() -> None:
    """What was accepted is served, from whatever phase it is in."""
    node = Node()
    node.open(1)
    node.take(node.agent.on_drain(node.now))
    node.open(2)
    assert reason_of(node.said(2)[0]) == "draining"
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
    assert [reason_of(node.said(s)[-2]) for s in (3,)] == ["draining"]
    assert isinstance(node.events(1)[-1], Failed)
    node.take(node.agent.on_loaded(RuntimeId("other#2"), node.now))
    for stream in (1, 2):
        node.closed(stream)
    for runtime in unloads:
        node.gone(runtime)
    assert node.is_at_rest()
    assert node.agent.statistics().runtimes == 0


def test_shutdown_leaves_last_words_to_their_reader() -> None:
    """A stream that only waits for credit may still be read to its end."""
    node = Node()
    node.serve(1, credit=0)
    node.take(node.agent.on_shutdown(node.now))
    assert node.agent.statistics().live == 1
    node.credit(1, 1)
    assert node.events(1)[-1] == FINISHED
    assert node.said(1)[-1] == Released(StreamId(1), "done")


def test_removed_models_stop_when_their_streams_have_ended() -> None:
    """A removed model is refused from then on; what runs is finished; new models are served."""
    node = Node()
    node.run(1)
    node.take(node.agent.on_models([offer(OTHER)], node.now))
    assert node.fresh() == []
    node.open(2)
    assert reason_of(node.said(2)[0]) == "model_not_found"
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


def test_another_model_under_the_same_name_gets_a_runtime_of_its_own() -> None:
    """What runs is finished on the old one, what waits goes to the new one, also while loading."""
    node = Node(msgspec.structs.replace(SETTINGS, max_in_flight=4), offer(MODEL, 1))
    node.run(1)
    node.open(2)
    node.prepared(2)
    node.take(node.agent.on_models([offer(MODEL, 2)], node.now))
    node.event(1, *ANSWER)
    assert node.closed(1)[-1] == Unload(FIRST)
    assert node.gone() == [Load(MODEL, RuntimeId("m#2"))]
    node.take(node.agent.on_models([offer(MODEL, 3)], node.now))
    node.loaded("m#2")
    assert node.closed(2)[-1] == Unload(RuntimeId("m#2"))
    assert node.gone("m#2") == []
    assert reason_of(node.said(2)[-2]) == "runtime_died"
    node.open(3)
    node.take(node.agent.on_models([offer(MODEL, 3)], node.now))
    assert node.loaded("m#3")[-1] == Prepare(key(3), RuntimeId("m#3"), request(), TenantId("t"))


def test_reports_name_the_backend_of_each_model() -> None:
    """One node may run models by several backends."""
    other = msgspec.structs.replace(offer(OTHER), backend="another")
    node = Node(SETTINGS, offer(), other)
    node.open(1)
    node.open(2, model=OTHER)
    views = {view.model: view.backend for view in node.agent.status().runtimes}
    assert views == {MODEL: "tiny", OTHER: "another"}


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
    node.run(1)
    told = len(node.statuses())
    node.event(1, *ANSWER)
    node.closed(1)
    assert len(node.statuses()) == told
    assert node.agent.next_tick() == pytest.approx(100.1)
    node.tick(0.1)
    assert len(node.statuses()) == told + 1
    node.tick(0.5)
    assert len(node.statuses()) == told + 1
    assert node.agent.next_tick() == pytest.approx(101.1)
    node.tick(0.5)
    assert len(node.statuses()) == told + 2


def test_where_models_are_is_told_at_once() -> None:
    """Whoever asks next, however soon, decides by what is loaded and not by what was."""
    node = Node()
    node.open(1)
    node.loaded()
    node.gone()
    states = [[view.state for view in status.runtimes] for status in node.statuses()]
    assert states == [[], ["loading"], ["ready"], ["absent"]]


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


def test_reports_that_a_stream_is_not_waiting_for_are_ignored() -> None:
    """Events while preparing, a close while loading, a failed preparation after a stop."""
    node = Node()
    node.open(1)
    assert node.closed(1) == []
    node.loaded()
    assert node.event(1, Delta("a")) == node.closed(1) == []
    node.cancel(1)
    node.take(node.agent.on_prepare_failed(key(1), DIED, node.now))
    assert node.fresh() == []
    assert node.closed(1) == sent(Released(StreamId(1), "waiting", 0.0))


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
