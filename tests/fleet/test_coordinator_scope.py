"""Nodes that do not serve everything: who may go there, who waits for others, what is told."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.ids import NodeId, RequestId, TenantId
from roost.core.request import Scope, Terms
from roost.core.snapshots import NodeStatus
from roost.errors import Failure
from roost.fleet.effects import Answer, Dispatch, Effect
from roost.fleet.settings import FleetSettings
from tests.fleet.kit import MODEL, Fleet, of, offer, running, status


def serving(scope: Scope, slots: int = 1) -> NodeStatus:
    """The report of a node whose model serves this much."""
    what = msgspec.structs.replace(offer(slots=slots), serves=scope)
    return status(what, runtimes=(running("r"),))


def ask(fleet: Fleet, name: str, needs: Scope) -> list[Effect]:
    """Let a request arrive that needs this much."""
    terms = Terms(RequestId(name), TenantId("t"), needs=needs)
    return fleet.machine.on_request(terms, MODEL, fleet.now)


def placed(effects: list[Effect]) -> str | None:
    """Where a request went, if anywhere."""
    sent = of(effects, Dispatch)
    return sent[0].node if sent else None


@pytest.mark.parametrize("needs", ["plain_turns", "turns", "all"])
@pytest.mark.parametrize("serves", ["plain_turns", "turns", "all"])
def test_a_node_gets_what_it_serves_and_nothing_else(needs: Scope, serves: Scope) -> None:
    """Each includes those before; what nobody who is there can do is said at once."""
    order = ("plain_turns", "turns", "all")
    fleet = Fleet()
    fleet.join("w", report=serving(serves))
    effects = ask(fleet, "r1", needs)
    if order.index(needs) <= order.index(serves):
        assert placed(effects) == "w"
    else:
        (answer,) = of(effects, Answer)
        assert answer.failure.reason == "unsupported"
        assert answer.failure.param == "model"


def test_a_node_that_serves_everything_is_waited_for() -> None:
    """A free worker is of no use to a chat; a turn takes it while the chat still waits."""
    fleet = Fleet()
    fleet.join("n", report=serving("all"))
    fleet.join("w", report=serving("plain_turns"))
    assert placed(ask(fleet, "r1", "all")) == "n"
    assert placed(ask(fleet, "r2", "all")) is None
    assert placed(ask(fleet, "r3", "turns")) is None
    assert placed(ask(fleet, "r4", "plain_turns")) == "w"
    fleet.token("r1")
    assert placed(fleet.finish("r1")) == "n"


def test_a_chat_that_waited_before_the_worker_came_holds_up_no_turn() -> None:
    """Whether it would take any node is asked anew with every look at the line."""
    fleet = Fleet()
    fleet.join("n", report=serving("all"))
    ask(fleet, "r1", "all")
    ask(fleet, "r2", "all")
    ask(fleet, "r3", "plain_turns")
    effects = fleet.join("w", report=serving("plain_turns"))
    assert [(sent.request, sent.node) for sent in of(effects, Dispatch)] == [("r3", "w")]


def test_nothing_is_narrow_any_more_when_the_worker_serves_all_or_is_gone() -> None:
    """A node is what its last report says."""
    fleet = Fleet()
    fleet.join("w", report=serving("plain_turns"))
    fleet.report("w", serving("all"))
    assert placed(ask(fleet, "r1", "all")) == "w"


def test_a_failed_attempt_goes_to_nobody_who_could_not_serve_it() -> None:
    """Also where a retry finds only such a node free."""
    fleet = Fleet()
    fleet.join("n", report=serving("all"))
    fleet.join("w", report=serving("plain_turns"))
    assert placed(ask(fleet, "r1", "all")) == "n"
    effects = fleet.fail("r1", failure=Failure("runtime_error", "It failed."))
    assert placed(effects) is None
    assert of(effects, Answer)


def test_a_model_is_offered_by_whoever_serves_most_of_it() -> None:
    """Lists show what can be asked for at any address where somebody serves that."""
    fleet = Fleet()
    fleet.join("w", report=serving("plain_turns"))
    assert [one.serves for one in fleet.machine.models()] == ["plain_turns"]
    fleet.join("n", report=serving("all"))
    assert [one.serves for one in fleet.machine.models()] == ["all"]


def test_the_pace_of_a_prefill_is_not_learned_from_who_hides_it() -> None:
    """Such a node starts when its prefill is over: its speed stays unknown, and nobody trusts it.

    So a model that such nodes serve is given to the idlest, and a conversation to its home.
    """
    fleet = Fleet(FleetSettings(pace_least=1))
    fleet.join("w", report=serving("turns", slots=2))
    for number in range(3):
        ask(fleet, f"r{number}", "turns")
        fleet.start(f"r{number}")
        fleet.token(f"r{number}")
        fleet.finish(f"r{number}")
    (sent,) = of(ask(fleet, "r9", "turns"), Dispatch)
    assert sent.predicted_s is None
    assert sent.node == "w"


def unfit_for(fleet: Fleet, name: str, *nodes: str) -> list[Effect]:
    """Let a request arrive for which these nodes lack something."""
    unfit = frozenset(map(NodeId, nodes))
    terms = Terms(RequestId(name), TenantId("t"), unfit=unfit)
    return fleet.machine.on_request(terms, MODEL, fleet.now)


def test_a_node_that_cannot_is_passed_over_for_one_that_can() -> None:
    """Who needs more waits for the able one, and holds up nobody who needs less."""
    fleet = Fleet()
    fleet.join("plain", report=serving("all"))
    fleet.join("able", report=serving("all"))
    assert placed(unfit_for(fleet, "r1", "plain")) == "able"
    assert placed(unfit_for(fleet, "r2", "plain")) is None
    assert placed(ask(fleet, "r3", "all")) == "plain"
    fleet.token("r1")
    effects = fleet.finish("r1")
    sent = {(one.request, one.node) for one in of(effects, Dispatch)}
    assert sent == {("r2", "able")}


def test_who_joins_later_has_to_have_it_for_the_same() -> None:
    """A node of an older release has the model to generate with, and could not read the request."""
    fleet = Fleet()
    fleet.join("older", report=serving("all"))
    terms = Terms(RequestId("r1"), TenantId("t"), mode="embed")
    (answer,) = of(fleet.machine.on_request(terms, MODEL, fleet.now), Answer)
    assert answer.failure.kind.status == 503
    report = serving("all")
    offer = msgspec.structs.replace(report.models[0], mode="embed")
    fleet.join("newer", report=msgspec.structs.replace(report, models=(offer,)))
    terms = Terms(RequestId("r2"), TenantId("t"), mode="embed")
    assert placed(fleet.machine.on_request(terms, MODEL, fleet.now)) == "newer"


def test_without_the_able_one_nobody_can() -> None:
    """It has gone since the request was looked at: there is nobody, and that is said."""
    fleet = Fleet()
    fleet.join("plain", report=serving("all"))
    (answer,) = of(unfit_for(fleet, "r1", "plain"), Answer)
    assert answer.failure.kind.status == 503
