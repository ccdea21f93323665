"""How many nodes what is asked for needs: at once more, and fewer only after calm."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roost.core.ids import ModelId, NodeId, RuntimeId
from roost.core.snapshots import LinkState, ModelOffer, RuntimeView, SlotView
from roost.fleet.watching.scaling import MODELS_MAX, ModelScaling, Scaling, ScalingSettings
from roost.fleet.watching.views import NodeView

MODEL, OTHER = ModelId("m"), ModelId("other")


def node(
    name: str,
    models: tuple[ModelId, ...] = (MODEL,),
    slots: int = 4,
    state: LinkState = "alive",
    *,
    draining: bool = False,
) -> NodeView:
    """A node that could run these models and runs the first."""
    places = tuple(SlotView(number, busy=False, tokens=0) for number in range(slots))
    return NodeView(
        id=NodeId(name),
        name=name,
        state=state,
        in_flight=0,
        draining=draining,
        models=tuple(ModelOffer(model, slots, 64) for model in models),
        runtimes=(RuntimeView(models[0], "b", "ready", RuntimeId("r"), places),),
        reported=True,
    )


def looks(scaling: Scaling, since: int, until: int, *nodes: NodeView, **load: int) -> None:
    """Look once a second; `running` and `waiting` are of the model."""
    running, waiting = {MODEL: load.get("running", 0)}, {MODEL: load.get("waiting", 0)}
    for now in range(since, until):
        scaling.on_look(nodes, running, waiting, float(now))


def of(scaling: Scaling, model: ModelId = MODEL) -> ModelScaling:
    """What is said of a model."""
    (found,) = [one for one in scaling.view().models if one.model == model]
    return found


def test_a_fleet_that_is_used_as_it_should_be_is_right_as_it_is() -> None:
    """Four slots of which three are used: 3 / 0.8 is just under four."""
    scaling = Scaling(ScalingSettings())
    looks(scaling, 0, 60, node("a"), running=3)
    view = scaling.view()
    assert (view.nodes, view.wanted_nodes, view.advice) == (1, 1, 0)
    assert (of(scaling).slots, of(scaling).demand_slots, of(scaling).wanted_slots) == (4, 3.0, 4)


def test_who_waits_needs_a_slot_too() -> None:
    """Four run and six wait: ten slots are asked for, twelve and a half should be there."""
    scaling = Scaling(ScalingSettings())
    looks(scaling, 0, 60, node("a"), running=4, waiting=6)
    view = scaling.view()
    assert (of(scaling).demand_slots, of(scaling).wanted_slots) == (10.0, 13)
    assert (view.wanted_nodes, view.advice) == (4, 3)


def test_the_refused_count_by_what_they_would_have_taken() -> None:
    """Two in a second that would have run for three seconds each are six slots."""
    scaling = Scaling(ScalingSettings(target_share=1.0))
    scaling.on_served(MODEL, 3.0)
    for tenth in range(120):
        scaling.on_refused(MODEL, "queue_full", tenth / 2)
    looks(scaling, 59, 60, node("a"), running=4)
    assert of(scaling).unmet == pytest.approx(120, abs=2)
    assert of(scaling).demand_slots == pytest.approx(10, abs=0.2)
    assert scaling.view().wanted_nodes == 3
    looks(scaling, 120, 121, node("a"), running=4)
    assert of(scaling).unmet == 0


def test_who_looks_often_changes_nothing() -> None:
    """A busy second is a second of the minute, and takes no room, however often it is looked at."""
    seen = []
    for polls in (0, 2000):
        scaling = Scaling(ScalingSettings())
        looks(scaling, 0, 59, node("a"), running=1)
        looks(scaling, 59, 60, node("a"), running=100)
        for _ in range(polls):
            scaling.on_look((node("a"),), {MODEL: 100}, {}, 59.5)
        assert scaling.is_due(60.0)
        seen.append(scaling.view())
    assert seen[0] == seen[1]


@pytest.mark.parametrize("reason", ["bad_request", "rate_limit_exceeded", "cancelled", "deadline"])
def test_what_no_node_would_have_helped_does_not_count(reason: str) -> None:
    """A wrong request, a key's own limit, a client that has left."""
    scaling = Scaling(ScalingSettings())
    scaling.on_refused(MODEL, reason, 0.0)
    looks(scaling, 0, 1, node("a"))
    assert (of(scaling).unmet, scaling.view().wanted_nodes) == (0, 0)


def test_a_burst_is_no_reason_for_a_node() -> None:
    """Ten requests for two seconds in a minute are a third of a slot."""
    scaling = Scaling(ScalingSettings())
    looks(scaling, 0, 58, node("a"), running=1)
    looks(scaling, 58, 60, node("a"), running=10)
    assert scaling.view().wanted_nodes == 1


def test_fewer_are_wanted_only_after_calm() -> None:
    """What was needed within the last five minutes stays wanted; then it goes down to nothing."""
    scaling = Scaling(ScalingSettings())
    nodes = node("a"), node("b")
    looks(scaling, 0, 60, *nodes, running=6)
    assert scaling.view().wanted_nodes == 2
    looks(scaling, 60, 340, *nodes)
    assert scaling.view().wanted_nodes == 2
    looks(scaling, 340, 430, *nodes)
    view = scaling.view()
    assert (view.wanted_nodes, view.advice) == (0, -2)
    assert of(scaling).slots == 8


def test_only_nodes_that_take_work_count() -> None:
    """Neither one that is drained nor one whose link is gone."""
    scaling = Scaling(ScalingSettings())
    nodes = node("a"), node("b", draining=True), node("c", state="dead")
    looks(scaling, 0, 60, *nodes, running=8)
    view = scaling.view()
    assert (view.nodes, view.wanted_nodes, of(scaling).slots) == (1, 3, 4)


def test_models_share_nodes_by_their_parts() -> None:
    """Half a node's slots of one model and half of another's are one node."""
    scaling = Scaling(ScalingSettings(target_share=1.0))
    both = node("a", (MODEL, OTHER))
    for now in range(60):
        scaling.on_look([both], {MODEL: 2, OTHER: 2}, {}, float(now))
    assert scaling.view().wanted_nodes == 1
    assert (of(scaling).slots, of(scaling, OTHER).slots) == (4, 0)


def test_a_fleet_without_nodes_wants_one_for_whoever_is_refused() -> None:
    """What a node would bring is remembered of those that were there."""
    scaling = Scaling(ScalingSettings())
    looks(scaling, 0, 10, node("a"))
    for now in range(60):
        scaling.on_refused(MODEL, "no_nodes", 10.0 + now)
    looks(scaling, 69, 70)
    view = scaling.view()
    assert (view.nodes, view.wanted_nodes, of(scaling).node_slots) == (0, 1, 4.0)


def test_models_that_nobody_has_are_forgotten_and_bounded() -> None:
    """A client that makes names up fills no memory."""
    scaling = Scaling(ScalingSettings(calm_s=60))
    for number in range(2 * MODELS_MAX):
        scaling.on_refused(ModelId(f"made-up-{number}"), "no_nodes", 0.0)
    scaling.on_look((), {}, {}, 0.0)
    assert len(scaling.view().models) == MODELS_MAX
    for now in (1.0, 61.0, 122.0):
        scaling.on_look((), {}, {}, now)
    assert scaling.view().models == ()


LOADS = st.lists(st.integers(0, 40), min_size=1, max_size=80)


@given(LOADS, LOADS)
def test_more_is_never_wanted_for_less(one: list[int], more: list[int]) -> None:
    """With as much or more asked for at each look, as many or more nodes are wanted."""
    larger = [a + b for a, b in zip(one, more, strict=False)] + one[len(more) :]
    wanted = []
    for loads in (one, larger):
        scaling = Scaling(ScalingSettings())
        for now, load in enumerate(loads):
            scaling.on_look([node("a")], {MODEL: load}, {}, float(now))
        wanted.append(scaling.view().wanted_nodes)
    assert wanted[0] <= wanted[1]


def test_looks_are_a_second_apart() -> None:
    """Whoever offers them more often is told not to."""
    scaling = Scaling(ScalingSettings())
    due: Callable[[float], bool] = scaling.is_due
    assert due(5.0)
    scaling.on_look((), {}, {}, 5.0)
    assert not due(5.9)
    assert due(6.0)
