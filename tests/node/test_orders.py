"""Orders of operators: what is loaded, unloaded, pinned at once, and when that is refused."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from roost.core.events import Delta
from roost.core.ids import ModelId, RuntimeId
from roost.core.snapshots import OrderKind, OrderView, RuntimeView
from roost.errors import Failure
from roost.node.effects import Load, Unload
from roost.node.models.ledger import RoomSettings
from roost.node.orders import OPEN_MAX, VIEWS_MAX
from roost.wire.messages import Order, Refused
from tests.node.kit import ANSWER, FIRST, MODEL, OTHER, SETTINGS, Node, offer

BROKEN = Failure("load_failed", "the file is no model")
ROOM = RoomSettings(max_runtimes=1, min_resident_s=5.0, turn_s=20.0, wait_s=60.0)
_jobs = itertools.count()


def crowded() -> Node:
    """A node with room for one of two models."""
    return Node(msgspec.structs.replace(SETTINGS, room=ROOM), offer(), offer(OTHER))


def order(
    node: Node,
    what: OrderKind,
    model: ModelId = MODEL,
    *,
    force: bool = False,
    wait_s: float = 0.0,
    keep_s: float | None = None,
) -> str:
    """Give a node an order and return its job."""
    job = f"job-{next(_jobs)}"
    node.take(node.agent.on_order(Order(job, model, what, force, wait_s, keep_s), node.now))
    return job


def seen(node: Node, job: str) -> OrderView:
    """What the node says of an order."""
    return next(view for view in node.agent.status().orders or () if view.job == job)


def reason(node: Node, job: str) -> str:
    """Why an order was not carried out."""
    failure = seen(node, job).failure
    assert failure is not None
    return failure.reason


def runtime(node: Node, model: ModelId = MODEL) -> RuntimeView:
    """What the node says of a model's runtime."""
    return next(view for view in node.agent.status().runtimes if view.model == model)


def test_a_load_is_done_when_the_runtime_is_ready() -> None:
    """It is asked for once, told as under way, and done with the load; told at once, as news."""
    node = Node()
    job = order(node, "load")
    assert node.fresh() == [Load(MODEL, FIRST)]
    assert not seen(node, job).is_over
    again = order(node, "load")
    node.loaded()
    assert seen(node, job).done
    assert seen(node, again).done
    assert (node.statuses()[-1].orders or ())[0].done
    assert node.fresh() == []
    assert seen(node, order(node, "load")).done
    assert node.agent.statistics().loads == 1


def test_a_failed_load_says_why_and_is_not_tried_again_by_itself() -> None:
    """Nor is it while it is too early for the next try: then the order fails at once."""
    node = Node()
    job = order(node, "load")
    node.load_failed("m#1", BROKEN)
    assert seen(node, job).failure == BROKEN
    early = order(node, "load")
    assert reason(node, early) == "load_failed"
    node.tick(60.0)
    assert node.agent.statistics().loads == 1
    later = order(node, "load")
    node.loaded("m#2")
    assert seen(node, later).done


def test_a_load_that_gets_no_room_says_which_setting_to_raise() -> None:
    """The model in the way is in use for longer than anybody waits, and it is not touched."""
    node = crowded()
    node.run(1)
    job = order(node, "load", OTHER)
    room = msgspec.structs.replace(ROOM, turn_s=90.0)
    patient = Node(msgspec.structs.replace(SETTINGS, room=room), offer(), offer(OTHER))
    patient.run(1)
    late = order(patient, "load", OTHER)
    for _ in range(62):
        patient.event(1, Delta("a"))
        patient.tick(1.0)
    failure = seen(patient, late).failure
    assert failure is not None
    assert (failure.reason, "`max_runtimes` (1)" in failure.message) == ("node_busy", True)
    # With a shorter turn the busy one goes when its answer has ended, and not before.
    for _ in range(25):
        node.event(1, Delta("a"))
        node.tick(1.0)
    assert Unload(FIRST) not in node.all
    node.event(1, *ANSWER[-1:])
    assert Unload(FIRST) in node.closed(1)
    node.gone()
    node.loaded("other#2")
    assert seen(node, job).done


def test_an_idle_model_is_unloaded_and_loaded_again_by_the_next_request() -> None:
    """Done is said when the runtime is gone, not when it was told to go."""
    node = Node()
    node.serve(1)
    job = order(node, "unload")
    assert node.fresh() == [Unload(FIRST)]
    assert not seen(node, job).is_over
    node.gone()
    assert seen(node, job).done
    assert runtime(node).state == "absent"
    assert seen(node, order(node, "unload")).done
    node.serve(2)
    assert node.agent.statistics().loads == 2


def test_a_model_in_use_is_not_unloaded() -> None:
    """The refusal says what runs; the stream ends as if nobody had asked."""
    node = Node()
    node.run(1)
    job = order(node, "unload")
    failure = seen(node, job).failure
    assert failure is not None
    assert (failure.reason, "1 request runs" in failure.message) == ("model_in_use", True)
    node.event(1, *ANSWER)
    node.closed(1)
    assert not any(isinstance(effect, Unload) for effect in node.all)


def test_an_unload_may_wait_for_an_idle_moment() -> None:
    """It takes the first one, and is refused when there was none in its time."""
    node = Node()
    node.run(1)
    job = order(node, "unload", wait_s=10.0)
    node.tick(5.0)
    assert not seen(node, job).is_over
    node.event(1, *ANSWER)
    assert Unload(FIRST) in node.closed(1)
    node.gone()
    assert seen(node, job).done
    node.run(2)
    late = order(node, "unload", wait_s=10.0)
    for _ in range(11):
        node.event(2, Delta("a"))
        node.tick(1.0)
    assert reason(node, late) == "model_in_use"
    assert runtime(node).state == "ready"


def test_force_ends_what_runs() -> None:
    """Every stream gets one terminal event that says whose doing it was, and nothing is held."""
    node = Node()
    node.run(1)
    node.open(2)
    node.event(1, Delta("a"))
    job = order(node, "unload", force=True)
    assert Unload(FIRST) in node.all
    node.closed(1)
    node.closed(2)
    node.gone()
    assert seen(node, job).done
    assert node.is_at_rest()
    assert "operator" in node.events(1)[-1].failure.message  # type: ignore[union-attr]
    assert node.agent.statistics().loads == 1


def test_who_has_got_nothing_is_not_sent_here_again() -> None:
    """A death would be tried once more on the node, and load what an operator has just unloaded."""
    node = Node()
    node.run(1)
    order(node, "unload", force=True)
    (refused,) = (m for m in node.said(1) if isinstance(m, Refused))
    assert refused.failure.reason == "load_failed"
    assert "operator" in refused.failure.message


def test_a_load_under_way_is_called_off_by_force_alone() -> None:
    """Who waited for it is told; an order to load it is told as well."""
    node = Node()
    node.open(1)
    load = order(node, "load")
    assert reason(node, order(node, "unload")) == "model_in_use"
    job = order(node, "unload", force=True)
    assert Unload(FIRST) in node.all
    node.gone()
    assert seen(node, job).done
    assert reason(node, load) == "load_failed"
    assert node.is_at_rest()
    assert node.agent.statistics().loads == 1


def test_a_load_that_waits_for_room_is_given_up_for_an_unload() -> None:
    """Unless a stream waits for it too."""
    node = crowded()
    node.run(1)
    load = order(node, "load", OTHER)
    assert seen(node, order(node, "unload", OTHER)).done
    assert reason(node, load) == "load_failed"
    node.open(2, model=OTHER)
    waiting = order(node, "unload", OTHER, wait_s=1.0)
    assert not seen(node, waiting).is_over
    node.tick(1.0)
    assert reason(node, waiting) == "model_in_use"
    assert (node.agent.next_tick() or 0.0) > node.now


def test_a_load_of_what_is_on_its_way_out_follows_it() -> None:
    """The runtime goes first, then the model is loaded anew."""
    node = Node()
    node.serve(1)
    order(node, "unload")
    job = order(node, "load")
    assert not seen(node, job).is_over
    assert Load(MODEL, RuntimeId("m#2")) in node.gone()
    node.loaded("m#2")
    assert seen(node, job).done


def test_a_pinned_model_makes_room_for_nobody() -> None:
    """Nor after the time in which busy ones have to; the refusal says that it is pinned."""
    node = crowded()
    node.serve(1)
    assert seen(node, order(node, "pin")).done
    node.tick(10.0)
    assert runtime(node).pinned
    assert runtime(node).evict_in_s is None
    node.open(2, model=OTHER)
    node.tick(61.0)
    refused = [m for m in node.said(2) if hasattr(m, "failure")]
    assert "unpin one of the 1" in refused[0].failure.message
    assert not any(isinstance(effect, Unload) for effect in node.all)
    assert seen(node, order(node, "unpin")).done
    node.open(3, model=OTHER)
    assert Unload(FIRST) in node.all


def test_a_pin_is_of_the_model_whatever_becomes_of_its_runtime() -> None:
    """It may be set before there is one, and holds for the next one after a death."""
    node = crowded()
    order(node, "pin")
    node.serve(1)
    assert runtime(node).pinned
    node.gone()
    assert not runtime(node).pinned
    node.run(2)
    assert runtime(node).pinned


def test_a_pinned_model_is_unloaded_by_force_alone() -> None:
    """And is not pinned any more then."""
    node = Node()
    node.serve(1)
    order(node, "pin")
    refused = order(node, "unload", wait_s=5.0)
    failure = seen(node, refused).failure
    assert failure is not None
    assert (failure.reason, "unpin" in failure.message) == ("model_in_use", True)
    job = order(node, "unload", force=True)
    node.gone()
    assert seen(node, job).done
    node.serve(2)
    assert not runtime(node).pinned


def test_a_pin_ends_an_unload_that_waits() -> None:
    """The newer word counts; nobody is stopped who was pinned in time."""
    node = Node()
    node.run(1)
    waiting = order(node, "unload", wait_s=10.0)
    order(node, "pin")
    assert reason(node, waiting) == "model_in_use"
    node.event(1, *ANSWER)
    node.closed(1)
    assert not any(isinstance(effect, Unload) for effect in node.all)


@pytest.mark.parametrize("what", ["load", "unload", "pin", "unpin"])
def test_a_model_that_is_not_here_is_named(what: OrderKind) -> None:
    """No order about it is taken."""
    node = Node()
    assert reason(node, order(node, what, ModelId("none"))) == "model_not_found"
    assert node.fresh() == []


def test_a_node_that_drains_loads_nothing_more() -> None:
    """It unloads what is idle all the same."""
    node = Node()
    node.serve(1)
    node.take(node.agent.on_drain(node.now))
    assert reason(node, order(node, "load")) == "draining"
    job = order(node, "unload")
    node.gone()
    assert seen(node, job).done


def test_orders_are_bounded() -> None:
    """So many are under way, so many are told of, and one that comes twice is one."""
    node = Node(SETTINGS, offer(), offer(OTHER))
    node.run(1)
    jobs = [order(node, "unload", wait_s=600.0) for _ in range(OPEN_MAX)]
    assert reason(node, order(node, "unload", wait_s=600.0)) == "node_busy"
    for _ in range(2 * VIEWS_MAX):
        order(node, "pin", OTHER)
    views = node.agent.status().orders
    assert views is not None
    assert len(views) <= VIEWS_MAX
    assert {view.job for view in views} >= set(jobs)
    same = Order(jobs[0], MODEL, "unload", wait_s=600.0)
    node.take(node.agent.on_order(same, node.now))
    assert len(node.agent.status().orders or ()) == len(views)
