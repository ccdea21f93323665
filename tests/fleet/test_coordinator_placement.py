"""Placement in the coordinator: one load for all, where it is cheapest, and more when it pays."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.ids import ModelId, NodeId, RequestId, RuntimeId, TenantId
from roost.core.request import Terms
from roost.core.snapshots import LoadView, NodeStatus, RuntimeView
from roost.fleet.effects import Answer, Dispatch, Effect, Waiting, Want
from roost.fleet.settings import FleetSettings
from roost.fleet.watching.views import PlacementView, SiteView
from tests.fleet.kit import MODEL, Fleet, of, offer, running, status

OTHER = ModelId("other")
ONE = FleetSettings(replicas=1)


def report(*runtimes: RuntimeView, loads: tuple[LoadView, ...] = (), slots: int = 2) -> NodeStatus:
    """A node that says what loads would take; it offers both models."""
    made = status(offer(slots=slots), offer("other", slots), runtimes=runtimes)
    return msgspec.structs.replace(made, loads=loads)


def coming(progress: float | None = None, model: str = "m") -> RuntimeView:
    """A runtime on its way up."""
    return RuntimeView(ModelId(model), "scripted", "loading", RuntimeId("x#1"), progress=progress)


def ran(load_s: float, idle_s: float | None = 0.0, model: str = "m") -> RuntimeView:
    """A runtime that is ready, after a load of that length."""
    name = RuntimeId(f"{model}#1")
    return RuntimeView(ModelId(model), "s", "ready", name, load_s=load_s, idle_s=idle_s)


def taken() -> NodeStatus:
    """A node whose one place has another model in it, which nobody has wanted for ages."""
    return report(ran(2.0, 1e9, "other"), loads=(LoadView(MODEL, (OTHER,)),))


def started(settings: FleetSettings = ONE, /, **nodes: NodeStatus) -> Fleet:
    """A fleet of these nodes, by name."""
    fleet = Fleet(settings)
    for name, said in nodes.items():
        fleet.join(name, report=said)
    return fleet


def where(effects: list[Effect]) -> list[str]:
    """The nodes that requests were sent to."""
    return [effect.node for effect in of(effects, Dispatch)]


def later(fleet: Fleet, seconds: float, **reports: NodeStatus) -> list[Effect]:
    """Time passes, and nodes report."""
    fleet.now += seconds
    effects: list[Effect] = []
    for name, said in reports.items():
        effects += fleet.report(name, said)
    return effects + fleet.machine.on_tick(fleet.now)


# Requests.


def test_ten_requests_on_eight_idle_nodes_start_one_load() -> None:
    """The first starts it, as many as fit wait for it there, and the rest in the line."""
    fleet = started(**{f"n{number}": report() for number in range(8)})
    effects = [effect for number in range(10) for effect in fleet.ask(f"r{number}")]
    assert len(set(where(effects))) == 1
    assert len(where(effects)) == 2
    assert len(of(effects, Waiting)) == 8
    assert of(effects, Want) == []


def embedder(*runtimes: RuntimeView, slots: int = 2) -> NodeStatus:
    """A node whose model of that name makes vectors."""
    made = status(msgspec.structs.replace(offer(slots=slots), mode="embed"), runtimes=runtimes)
    return msgspec.structs.replace(made, loads=())


def ask_vectors(fleet: Fleet, name: str) -> list[Effect]:
    """Let a request for vectors arrive."""
    terms = Terms(RequestId(name), TenantId("t"), mode="embed")
    return fleet.machine.on_request(terms, MODEL, fleet.now)


def test_a_runtime_for_vectors_keeps_no_chat_from_its_load() -> None:
    """Under one name two nodes may have different things, and each has loads of its own."""
    fleet = started(a=embedder(running("m#1")), b=report())
    assert where(fleet.ask("r1")) == ["b"]
    assert where(ask_vectors(fleet, "r2")) == ["a"]


def test_who_can_be_counted_on_for_vectors_says_nothing_of_chats() -> None:
    """A node whose last load failed is asked where no other one could chat."""
    broken = msgspec.structs.replace(report(), models=(offer(usable=False),))
    fleet = started(FleetSettings(), a=embedder(), b=broken)
    assert where(fleet.ask("r1")) == ["b"]


def test_who_waits_for_vectors_keeps_no_chat_waiting() -> None:
    """That somebody waits for a model says nothing of those nodes where it does something else."""
    fleet = started(FleetSettings(), a=embedder(slots=1))
    assert where(ask_vectors(fleet, "r1")) == ["a"]
    assert where(ask_vectors(fleet, "r2")) == []
    fleet.join("b", report=report())
    assert where(fleet.ask("r3")) == ["b"]


def test_a_runtime_more_is_loaded_for_what_is_asked() -> None:
    """Where all places for vectors are taken nobody loads what only chats."""
    nodes = {"a": embedder(ran(1.0), slots=1), "b": report(), "c": embedder()}
    fleet = started(**nodes)
    assert where(ask_vectors(fleet, "r1")) == ["a"]
    effects = [*later(fleet, 1.0, **nodes), *later(fleet, 1.0, **nodes)]
    assert {want.node for want in of(effects, Want)} == {NodeId("c")}
    view = next(one for one in fleet.machine.placement(fleet.now) if one.model == MODEL)
    assert (view.ready, view.loading) == (1, 1)


@pytest.mark.parametrize("policy", ["least_inflight", "round_robin", "random", "predicted"])
def test_where_one_runs_nobody_starts_another(policy: str) -> None:
    """Whatever the policy makes of an idle node without a runtime."""
    settings = msgspec.convert({"replicas": 1, "policy": policy}, FleetSettings)
    fleet = started(settings, a=report(), b=report(running("m#1")), c=report())
    assert where(fleet.ask("r1") + fleet.ask("r2") + fleet.ask("r3")) == ["b", "b"]


def test_where_one_loads_the_next_wait_for_it() -> None:
    """First there, as long as it has room; when it is ready those in line go on."""
    fleet = started(a=report(), b=report(coming(0.4)))
    assert where(fleet.ask("r1") + fleet.ask("r2") + fleet.ask("r3")) == ["b", "b"]
    fleet.report("b", report(ran(2.0)))
    assert where(fleet.finish("r1")) == ["b"]


def test_two_loads_where_two_are_allowed() -> None:
    """The second goes elsewhere; the third waits for either."""
    fleet = started(FleetSettings(replicas=2), a=report(), b=report(), c=report())
    effects = [effect for number in range(6) for effect in fleet.ask(f"r{number}")]
    assert len(where(effects)) == 4
    assert len(set(where(effects))) == 2


def test_every_node_may_load_where_there_is_no_limit() -> None:
    """0 spreads requests over idle nodes, each with a load of its own."""
    fleet = started(FleetSettings(replicas=0), a=report(), b=report())
    assert sorted(where(fleet.ask("r1") + fleet.ask("r2"))) == ["a", "b"]


def test_the_load_happens_where_it_is_cheapest() -> None:
    """What a node would have to evict counts, by how recently it was used."""
    lately, long_ago = ran(9.0, 1.0, "other"), ran(9.0, 1e6, "other")
    gone = (LoadView(MODEL, (OTHER,)),)
    fleet = started(a=report(lately, loads=gone), b=report(long_ago, loads=gone))
    assert where(fleet.ask("r1")) == ["b"]


def test_a_node_without_room_is_not_sent_a_load() -> None:
    """Its runtimes are in use; a node that is merely slower gets it."""
    stuck = (LoadView(MODEL, (), "busy"),)
    fleet = started(a=report(loads=stuck), b=report())
    assert where(fleet.ask("r1") + fleet.ask("r2")) == ["b", "b"]


def test_a_runtime_that_stops_is_none() -> None:
    """It makes room for another model: the next load is elsewhere."""
    stopping = RuntimeView(MODEL, "scripted", "stopping", RuntimeId("m#1"))
    fleet = started(a=report(stopping), b=report())
    assert where(fleet.ask("r1")) == ["b"]


def test_a_silent_runtime_keeps_nobody_from_loading() -> None:
    """When the only node that runs the model has gone silent, another one loads it."""
    fleet = started(a=report(running("m#1")), b=report())
    later(fleet, 2.1, b=report())
    fleet.hear("b")
    assert where(fleet.ask("r1")) == ["b"]


def test_who_was_failed_by_the_only_runtime_may_start_another() -> None:
    """A retry goes elsewhere even if that takes a load."""
    fleet = started(a=report(running("m#1")), b=report())
    fleet.ask("r1")
    assert where(fleet.fail("r1")) == ["b"]


def test_who_was_refused_by_the_only_runtime_waits_for_it() -> None:
    """Lack of room is no failure of the node, and no reason for a load."""
    fleet = started(a=report(running("m#1")), b=report())
    fleet.ask("r1")
    assert where(fleet.refuse("r1")) == []
    fleet.now += 0.3
    assert where(fleet.machine.on_tick(fleet.now)) == ["a"]


# Wishes.


def test_a_long_line_wants_one_more_and_one_at_a_time() -> None:
    """Once those who wait have waited longer than a load, the cheapest node is asked."""
    fleet = started(a=report(ran(2.0)), b=taken(), c=taken())
    for number in range(4):
        fleet.ask(f"r{number}")
    now = {"a": report(ran(2.0)), "b": taken(), "c": taken()}
    assert of(later(fleet, 1.0, **now) + later(fleet, 1.9, **now), Want) == []
    (want,) = of(later(fleet, 0.3, **now), Want)
    assert (want.model, want.node in {"b", "c"}) == (MODEL, True)
    assert of(later(fleet, 1.0, **now), Want) == []
    now[want.node] = report(coming())
    assert of(later(fleet, 1.0, **now), Want) == []
    now[want.node] = report(ran(2.0))
    assert where(later(fleet, 1.0, **now)) == [want.node, want.node]


def test_a_line_that_moves_faster_than_a_load_wants_nothing() -> None:
    """Places become free twice a second: waiting is cheaper than a load of two seconds."""
    fleet = started(a=report(ran(2.0)), b=taken())
    for number in range(30):
        fleet.ask(f"r{number}")
        fleet.ask(f"s{number}")
        assert of(later(fleet, 0.5, a=report(ran(2.0)), b=taken()), Want) == []
        fleet.finish(f"r{number}")
        fleet.finish(f"s{number}")


def test_a_node_that_does_nothing_is_asked_again_after_a_while() -> None:
    """A wish may be lost with its link, or not be granted."""
    fleet = started(a=report(ran(2.0)), b=taken())
    for number in range(3):
        fleet.ask(f"r{number}")
    later(fleet, 1.0, a=report(ran(2.0)))
    assert of(later(fleet, 2.1, a=report(ran(2.0)), b=taken()), Want) == [Want(NodeId("b"), MODEL)]
    effects = []
    for _ in range(6):
        effects += of(later(fleet, 1.0, a=report(ran(2.0)), b=taken()), Want)
    assert effects == [Want(NodeId("b"), MODEL)]


def test_a_full_runtime_wants_another_where_there_is_room_for_it() -> None:
    """Nobody waits yet; nobody loses anything by it, and no second wish while it loads."""
    fleet = started(a=report(ran(2.0)), b=report(), c=taken())
    now = {"a": report(ran(2.0)), "b": report(), "c": taken()}
    fleet.ask("r1")
    assert of(later(fleet, 1.0, **now), Want) == []
    fleet.ask("r2")
    assert of(later(fleet, 1.0, **now), Want) == [Want(NodeId("b"), MODEL)]
    now["b"] = report(coming())
    assert of(later(fleet, 1.0, **now), Want) == []


def test_a_fleet_without_a_line_grows_too() -> None:
    """Where nobody may wait, who is refused would never show as a line."""
    fleet = started(FleetSettings(replicas=1, queue_length=0), a=report(ran(2.0)), b=report())
    for number in range(3):
        fleet.ask(f"r{number}")
    now = {"a": report(ran(2.0)), "b": report()}
    assert of(later(fleet, 1.0, **now), Want) == [Want(NodeId("b"), MODEL)]


def test_a_model_without_room_is_asked_for_where_models_take_turns() -> None:
    """All nodes are busy with others: one of them is told who waits."""
    stuck = (LoadView(MODEL, (), "busy"),)
    fleet = started(a=report(ran(2.0, None, "other"), loads=stuck))
    assert where(fleet.ask("r1")) == []
    assert of(later(fleet, 1.0), Want) == [Want(NodeId("a"), MODEL)]


def test_a_cap_on_the_fleet_is_no_reason_for_a_load() -> None:
    """Another runtime would not be allowed to serve anybody."""
    settings = FleetSettings(replicas=1, max_decodes=1)
    fleet = started(settings, a=report(ran(1.0)), b=report())
    fleet.ask("r1")
    fleet.ask("r2")
    for _ in range(8):
        assert of(later(fleet, 1.0, a=report(ran(1.0)), b=report()), Want) == []


def test_models_are_kept_where_there_is_room() -> None:
    """Loaded before anybody asks, one at each look, and never in place of another model."""
    settings = FleetSettings(replicas=1, keep={"m": 2})
    evicting = (LoadView(MODEL, (OTHER,)),)
    fleet = Fleet(settings)
    effects = fleet.join("a", report=report(ran(9.0, 1e9, "other"), loads=evicting))
    effects += fleet.join("b", report=report())
    effects += later(fleet, 1.0, a=report(ran(9.0, 1e9, "other"), loads=evicting))
    assert of(effects, Want) == [Want(NodeId("b"), MODEL)]
    effects = fleet.join("c", report=report())
    effects += later(fleet, 1.0, b=report(coming()))
    assert of(effects, Want) == [Want(NodeId("c"), MODEL)]


def test_a_node_that_does_not_know_wishes_is_not_asked() -> None:
    """Its reports say nothing of loads; it loads when a request comes."""
    fleet = Fleet(FleetSettings(replicas=1, keep={"m": 1}))
    assert of(fleet.join("a"), Want) == []
    assert of(later(fleet, 1.0), Want) == []
    assert where(fleet.ask("r1")) == ["a"]


def test_a_model_that_fits_nowhere_is_refused_in_the_end() -> None:
    """Nobody waits for ever: the line's own limit ends it."""
    fleet = started(a=report(loads=(LoadView(MODEL, (), "too_large"),)))
    fleet.ask("r1")
    (answer,) = of(later(fleet, 61.0), Answer)
    assert answer.failure.reason == "queue_timeout"


# What people see.


def test_what_nobody_can_do_any_more_is_not_wanted() -> None:
    """A kind of a model that only a node had that has gone; who has both is counted for both."""
    fleet = Fleet(msgspec.structs.replace(ONE, keep={"m": 2}))
    fleet.join("says", report=report())
    vectors = msgspec.structs.replace(offer(), mode="embed")
    fleet.join("embeds", report=status(vectors))
    assert fleet.machine.placement(fleet.now)[0].wanted == 4
    fleet.leave("embeds")
    assert fleet.machine.placement(fleet.now)[0].wanted == 2


def test_the_view_shows_what_runs_and_what_a_load_would_cost() -> None:
    """Per model and node: state, price, who would go, and why not; unknown is None."""
    fleet = started(
        a=report(ran(4.0)),
        b=report(coming(0.5)),
        c=report(ran(8.0, 60.0, "other"), loads=(LoadView(MODEL, (OTHER,), "young", 1.0),)),
        d=report(ran(8.0, None, "other"), loads=(LoadView(MODEL, (), "busy"),)),
    )
    fleet.machine.on_drain_node(NodeId("b"), fleet.now)
    model = fleet.machine.placement(fleet.now)[0]
    assert model == PlacementView(
        model=MODEL,
        wanted=0,
        ready=1,
        loading=0,
        waiting=0,
        queue_s=None,
        nodes=(
            SiteView(NodeId("a"), "ready", None, 4.0, 0.0, 0.0, (), 0.0, "", idle_s=0.0),
            SiteView(NodeId("b"), "closed", 0.5, 4.0, None, 0.0, (), 0.0, "draining"),
            SiteView(NodeId("c"), "cold", None, 4.0, 7.0, 1.0, (OTHER,), 2.0, "young"),
            SiteView(NodeId("d"), "cold", None, 4.0, None, None, (), 0.0, "busy"),
        ),
    )
