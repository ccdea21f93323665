"""How long idle runtimes stay: times, pins, and that nobody goes who is used."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.events import Delta
from roost.node.effects import Unload
from roost.node.models.ledger import RoomSettings
from roost.node.models.stays import LINGER_S, StaySettings
from tests.node.kit import ANSWER, FIRST, MODEL, OTHER, SETTINGS, Node, offer
from tests.node.test_orders import order, runtime, seen


def keeping(keep_alive_s: float, **models: float) -> Node:
    """A node that keeps idle runtimes for so long."""
    stay, room = StaySettings(keep_alive_s, models), RoomSettings(min_resident_s=2.0)
    settings = msgspec.structs.replace(SETTINGS, stay=stay, room=room)
    return Node(settings, offer(), offer(OTHER))


def unloaded(node: Node) -> bool:
    """Whether any runtime was told to stop."""
    return any(isinstance(effect, Unload) for effect in node.all)


def test_an_idle_runtime_goes_when_its_time_is_over() -> None:
    """The report counts down; a request before the end begins the time anew."""
    node = keeping(60.0)
    node.serve(1)
    assert runtime(node).unload_in_s == 60.0
    node.tick(50.0)
    assert runtime(node).unload_in_s == 10.0
    node.serve(2)
    node.tick(59.0)
    assert not unloaded(node)
    assert (node.agent.next_tick() or 0.0) <= node.now + 1.0
    node.tick(1.5)
    assert Unload(FIRST) in node.all
    node.gone()
    node.serve(3)
    assert node.agent.statistics().loads == 2


def test_a_runtime_in_use_stays_however_long_that_takes() -> None:
    """Its time begins with the end of the last stream."""
    node = keeping(5.0)
    node.run(1)
    for _ in range(20):
        node.event(1, Delta("a"))
        node.tick(1.0)
    assert runtime(node).unload_in_s is None
    node.event(1, *ANSWER)
    node.closed(1)
    assert runtime(node).unload_in_s == 5.0
    node.tick(4.5)
    assert not unloaded(node)


def test_0_lets_it_go_as_soon_as_it_is_idle_and_has_stayed_a_while() -> None:
    """Not before the next in a gateway's line could be here, nor before its load was worth it."""
    node = keeping(0.0)
    node.serve(1)
    assert runtime(node).unload_in_s == 2.0
    node.tick(1.0)
    assert not unloaded(node)
    node.tick(1.1)
    assert unloaded(node)
    node.gone()
    node.run(2)
    for _ in range(10):
        node.event(2, Delta("a"))
        node.tick(1.0)
    node.event(2, *ANSWER)
    node.closed(2)
    assert runtime(node).unload_in_s == LINGER_S


@pytest.mark.parametrize("keep_alive_s", [-1.0, -0.5])
def test_less_than_0_is_for_ever(keep_alive_s: float) -> None:
    """A day later it is still there."""
    node = keeping(keep_alive_s)
    node.serve(1)
    assert runtime(node).unload_in_s is None
    node.now += 86_400.0
    node.tick(1.0)
    assert not unloaded(node)


def test_models_have_times_of_their_own() -> None:
    """What is said of one counts for it alone."""
    node = keeping(10.0, other=-1.0)
    node.serve(1)
    node.serve(2, model=OTHER)
    node.tick(30.0)
    assert [view.state for view in node.agent.status().runtimes] == ["stopping", "ready"]


def test_a_pinned_runtime_does_not_go_by_time() -> None:
    """Once it is not pinned any more it does."""
    node = keeping(10.0)
    node.serve(1)
    order(node, "pin")
    node.tick(30.0)
    assert not unloaded(node)
    assert runtime(node).unload_in_s is None
    order(node, "unpin")
    node.tick(0.1)
    assert unloaded(node)


def test_a_pin_goes_with_the_model() -> None:
    """One that is removed and installed anew is not pinned."""
    node = keeping(10.0)
    order(node, "pin")
    node.take(node.agent.on_models([offer(OTHER)], node.now))
    node.take(node.agent.on_models([offer(MODEL), offer(OTHER)], node.now))
    node.serve(1)
    assert not runtime(node).pinned


def test_a_model_may_have_a_time_of_its_own_by_order() -> None:
    """It counts more than the settings, until the next word about it."""
    node = keeping(60.0)
    node.serve(1)
    assert seen(node, order(node, "unpin", keep_s=5.0)).done
    assert runtime(node).unload_in_s == 5.0
    assert seen(node, order(node, "pin")).done
    assert runtime(node).unload_in_s is None
    assert seen(node, order(node, "unpin", keep_s=300.0)).done
    assert runtime(node).unload_in_s == 300.0
    assert seen(node, order(node, "unpin")).done
    assert runtime(node).unload_in_s == 60.0
    order(node, "unpin", keep_s=5.0)
    assert (node.agent.next_tick() or 0.0) <= node.now + 5.0
    node.tick(5.5)
    assert Unload(FIRST) in node.all
