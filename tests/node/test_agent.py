"""The agent: how a request is served, refused, or waits, by the effects it asks for."""

from __future__ import annotations

import msgspec
import pytest

from roost.backends.base import Prepared, SlotUse
from roost.core.events import Delta, Finished, Usage
from roost.core.ids import ModelId, RequestId, RuntimeId, StreamId, TenantId
from roost.errors import Failure
from roost.node.cold import VOCABULARY
from roost.node.effects import Effect, Load, Prepare, Run, Send, Stop, Unload
from roost.node.refusals import DIED
from roost.wire.messages import Events, Open, Phase, Refused, Released
from tests.node.kit import (
    ANSWER,
    FINISHED,
    FIRST,
    LINK,
    MODEL,
    OTHER,
    SETTINGS,
    STARTED,
    Node,
    key,
    offer,
    open_message,
    prepared,
    prepares,
    reason_of,
    request,
    sent,
)

BROKEN = Failure("load_failed", "not enough memory")


# A request's ordinary life.


def test_a_first_request_loads_prepares_runs_and_is_released() -> None:
    """Every step of a life, in order, from an absent model to a free slot."""
    node = Node()
    one = StreamId(1)
    assert node.open(1) == [Load(MODEL, FIRST), *sent(Phase(one, "loading"))]
    assert node.loaded() == [
        *sent(Phase(one, "preparing")),
        Prepare(key(1), FIRST, request(), TenantId("t")),
    ]
    use = SlotUse(0, reuse=False)
    assert node.prepared(1) == [Run(key(1), RequestId("r1"), FIRST, prepared(), use)]
    assert node.event(1, STARTED) == sent(Events(one, 0, (STARTED,)))
    assert node.event(1, Delta("a")) == sent(Events(one, 1, (Delta("a"),)))
    assert node.event(1, FINISHED) == sent(Events(one, 2, (FINISHED,)))
    assert not node.is_at_rest()
    assert node.closed(1) == sent(Released(one, "done"))
    assert node.is_at_rest()


def test_a_prompt_that_is_only_counted_takes_no_slot() -> None:
    """Its end comes as soon as it is prepared, and the slot beside it is free as before."""
    node = Node(SETTINGS, offer(slots=2))
    node.open(1)
    node.loaded()
    node.prepared(1)
    asked = msgspec.structs.replace(request(), counts=True)
    message = msgspec.structs.replace(open_message(2), request=asked)
    two = StreamId(2)
    assert prepares(node.take(node.agent.on_message(LINK, message, node.now))) == [key(2)]
    told = node.take(node.agent.on_prepared(key(2), Prepared(asked, (1, 2, 3, 4), 0), node.now))
    end = Finished("stop", Usage(4, 4))
    assert told == sent(Events(two, 0, (end,)), Released(two, "waiting"))
    node.open(3)
    assert [type(effect) for effect in node.prepared(3)] == [Run]


def test_a_prompt_that_is_only_told_takes_no_slot() -> None:
    """Its tokens and its text come as soon as it is prepared."""
    node = Node(SETTINGS, offer(slots=2))
    node.open(1)
    node.loaded()
    node.prepared(1)
    asked = msgspec.structs.replace(request(), counts=True, return_tokens=True)
    message = msgspec.structs.replace(open_message(2), request=asked)
    node.take(node.agent.on_message(LINK, message, node.now))
    ready = Prepared(asked, (1, 2, 3), 0, text="abc")
    told = node.take(node.agent.on_prepared(key(2), ready, node.now))
    end = Finished("stop", Usage(3, 3))
    two = StreamId(2)
    assert told == sent(
        Events(two, 0, (Delta("abc", 0, ids=(1, 2, 3)),)),
        Events(two, 1, (end,)),
        Released(two, "waiting"),
    )


def cold_node() -> Node:
    """A node whose model's prompts can be counted without its weights."""
    known = msgspec.structs.replace(offer(), backend="tiny")
    settings = msgspec.structs.replace(SETTINGS, cold_counts=frozenset({"tiny"}))
    return Node(settings, known)


def count(node: Node, stream: int) -> list[Effect]:
    """Have a prompt counted."""
    asked = msgspec.structs.replace(request(), counts=True)
    message = msgspec.structs.replace(open_message(stream), request=asked)
    node.take(node.agent.on_message(LINK, message, node.now))
    return node.fresh()


def test_a_count_loads_nothing() -> None:
    """A model that is not loaded is counted by its vocabulary, also beside a load."""
    node = cold_node()
    assert [effect.runtime for effect in count(node, 1) if isinstance(effect, Prepare)] == [
        VOCABULARY
    ]
    asked = msgspec.structs.replace(request(), counts=True)
    told = node.take(node.agent.on_prepared(key(1), Prepared(asked, (1, 2, 3), 0), node.now))
    assert Released(StreamId(1), "waiting") in [e.message for e in told if isinstance(e, Send)]
    assert node.agent.statistics().loads == 0
    node.open(2)
    assert prepares(count(node, 3)) == [key(3)]
    node.take(node.agent.on_prepared(key(3), Prepared(asked, (1,), 0), node.now))
    node.loaded()
    (effect,) = [one for one in count(node, 4) if isinstance(one, Prepare)]
    assert effect.runtime == FIRST, "what is loaded counts as well"


def test_where_the_vocabulary_is_no_help_the_model_is_loaded() -> None:
    """Once: a caller's mistake is told at once, and a prompt that cannot be counted waits."""
    node = cold_node()
    count(node, 1)
    node.take(node.agent.on_prepare_failed(key(1), DIED, node.now))
    assert [type(effect) for effect in node.fresh() if not isinstance(effect, Send)] == [Load]
    assert prepares(node.loaded()) == [key(1)]
    other = cold_node()
    count(other, 1)
    mistake = Failure("context_length_exceeded", "too long")
    told = other.take(other.agent.on_prepare_failed(key(1), mistake, other.now))
    assert Refused(StreamId(1), mistake) in [e.message for e in told if isinstance(e, Send)]
    assert other.agent.statistics().loads == 0


def test_who_leaves_a_cold_count_stops_it() -> None:
    """Its work is told to stop, and nothing of it is left."""
    node = cold_node()
    count(node, 1)
    assert Stop(key(1)) in node.cancel(1)
    node.take(node.agent.on_closed(key(1), None, node.now))
    assert (node.agent.statistics().live, node.agent.statistics().in_flight) == (0, 0)


def test_a_ready_model_is_not_announced() -> None:
    """Where nothing is waited for, no phase is sent: one message less per request."""
    node = Node()
    node.serve(1)
    assert node.open(2) == [Prepare(key(2), FIRST, request(), TenantId("t"))]


def test_requests_share_one_load() -> None:
    """Everybody who waits is served by the same load, in the order of coming."""
    node = Node()
    node.open(1)
    assert node.open(2) == sent(Phase(StreamId(2), "loading"))
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
    assert [reason_of(m) for m in node.said(2) if isinstance(m, Refused)] == []
    node.open(3)
    assert reason_of(node.said(3)[0]) == "node_busy"


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
    assert reason_of(refused) == reason
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
    assert reason_of(node.said(4)[0]) == "node_busy"
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
    assert reason_of(node.said(3)[0]) == "load_failed"
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
    assert node.cancel(3) == sent(Released(StreamId(3), "waiting", 0.0))
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
    assert effects[0] == sent(Released(StreamId(1), "prefill", 0.5))[0]
    assert [e.key for e in effects if isinstance(e, Run)] == [key(2)]
