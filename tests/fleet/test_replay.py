"""What the coordinator makes of a death in mid-answer, where the answer may be gone on with."""

from __future__ import annotations

import msgspec
import pytest

from roost.core.events import Delta, Finished, Started, Usage
from roost.core.ids import ModelId, NodeId, RequestId, TenantId
from roost.core.request import Terms
from roost.core.snapshots import NodeStatus
from roost.errors import Failure
from roost.fleet.effects import Dispatch, Effect, Report
from roost.fleet.settings import FleetSettings
from roost.fleet.streams.said import Said
from roost.fleet.watching.receipts import Receipt
from tests.fleet.kit import BUSY, DIED, Fleet, dispatched, idle, of, offer, reasons, running, status

ERROR = Failure("runtime_error", "The runtime reported an error.")
SETTINGS = FleetSettings(retry_floor=99)


def having(weights: str, slots: int = 2, ctx: int = 4096, runtime: str = "") -> NodeStatus:
    """A node's report of the model with these weights."""
    one = msgspec.structs.replace(offer(slots=slots), digest=weights, ctx=ctx)
    return status(one, runtimes=(running(runtime),) if runtime else ())


class Talk:
    """One request that may be replayed."""

    def __init__(self, fleet: Fleet, name: str = "r", most: int = 100) -> None:
        self.fleet, self.name = fleet, name
        self.said = Said(most)
        self.attempt = 1
        given = Terms(RequestId(name), TenantId("t"), on_loss="replay", max_tokens=50)
        self.first = fleet.machine.on_request(given, ModelId("m"), fleet.now, self.said)

    def say(self, tokens: int, prompt: int = 30) -> list[Effect]:
        """Let the current attempt say so much."""
        rid, machine, now = RequestId(self.name), self.fleet.machine, self.fleet.now
        effects = machine.on_started(rid, self.attempt, Started(prompt, 0, 0), now)
        self.said.add(Delta("x" * tokens, tokens, ids=tuple(range(tokens))))
        return effects + machine.on_first_token(rid, self.attempt, now)

    def die(self, failure: Failure = DIED) -> list[Effect]:
        """Let the current attempt end in a failure, and its place come back."""
        effects = self.fleet.fail(self.name, self.attempt, failure)
        effects += self.fleet.free(self.name, self.attempt)
        self.attempt += 1
        return effects

    def receipt(self) -> Receipt:
        """What became of it."""
        receipt = self.fleet.machine.receipt(RequestId(self.name), self.fleet.now)
        assert receipt is not None
        return receipt


def pair(settings: FleetSettings = SETTINGS) -> Fleet:
    """A fleet of `a` alone, so that it gets the first request; others join behind that."""
    fleet = Fleet(settings)
    fleet.join("a", report=having("w", runtime="r1"))
    return fleet


def test_an_answer_goes_on_elsewhere_behind_its_last_token() -> None:
    """With what was said as part of the prompt, and a receipt that tells."""
    fleet = pair()
    talk = Talk(fleet)
    fleet.join("b", report=having("w"))
    talk.say(7)
    effects = talk.die()
    (report,) = of(effects, Report)
    assert (report.event, report.node, report.reason) == ("request_cut", "a", "runtime_died")
    (again,) = of(effects, Dispatch)
    assert (again.node, again.resumes_at, again.lost_to) == (NodeId("b"), 7, "runtime_died")
    assert again.digest == "w"
    assert fleet.machine.statistics().replayed == 0
    (report,) = of(talk.say(2, prompt=37), Report)
    assert (report.event, report.node, report.reason) == ("request_replayed", "b", "runtime_died")
    finished = Finished("stop", Usage(37, 0, 2))
    fleet.machine.on_finished(RequestId("r"), 2, finished, "text", fleet.now)
    fleet.free("r", 2)
    assert talk.receipt().completion_tokens == 9
    assert [one.resumes_at for one in talk.receipt().attempts] == [0, 7]
    assert fleet.machine.statistics().replayed == 1
    idle(fleet)


def test_a_node_that_refuses_to_go_on_has_not_gone_on() -> None:
    """Two dispatches behind the loss, one of which starts: one replay, however it is counted."""
    fleet = pair()
    talk = Talk(fleet)
    fleet.join("b", report=having("w"))
    fleet.join("c", report=having("w"))
    talk.say(7)
    (again,) = of(talk.die(), Dispatch)
    effects = fleet.refuse("r", 2)
    (third,) = of(effects, Dispatch)
    assert {again.node, third.node} == {"b", "c"}
    assert fleet.machine.statistics().replayed == 0
    talk.attempt = 3
    reports = of(talk.say(1, prompt=37), Report)
    assert [report.event for report in reports] == ["request_replayed"]
    assert fleet.machine.statistics().replayed == 1
    assert [one.started_s is not None for one in talk.receipt().attempts] == [True, False, True]


def test_without_being_asked_nobody_goes_on() -> None:
    """The default is an error."""
    fleet = pair()
    fleet.ask("r")
    fleet.join("b", report=having("w"))
    fleet.token("r")
    assert reasons(fleet.fail("r")) == [("r", "runtime_died")]


@pytest.mark.parametrize("weights", ["other", ""])
def test_only_the_same_weights_go_on(weights: str) -> None:
    """To others the ids mean something else; nobody waits for what will not come."""
    fleet = pair()
    talk = Talk(fleet)
    fleet.join("b", report=having(weights))
    talk.say(7)
    assert reasons(fleet.leave("a")) == [("r", "node_lost")]


def test_where_weights_are_not_known_nobody_goes_on() -> None:
    """Two nodes that do not say what they have may have different things."""
    fleet = Fleet(SETTINGS)
    fleet.join("a", report=having(""))
    talk = Talk(fleet)
    fleet.join("b", report=having(""))
    talk.say(7)
    assert reasons(talk.die()) == [("r", "runtime_died")]


def test_of_several_the_one_with_the_weights_is_taken() -> None:
    """However idle the others are, and it is waited for while it is full."""
    fleet = pair()
    talk = Talk(fleet)
    fleet.join("b", "c", report=having("other"))
    fleet.join("d", report=having("w", slots=1))
    talk.say(7)
    filled = [dispatched(fleet.ask(f"f{n}")) for n in range(6)]
    assert [("d") for one in filled for _, node in one if node == "d"] == ["d"]
    assert dispatched(talk.die()) == []
    (busy,) = [name for one in filled for name, node in one if node == "d"]
    assert dispatched(fleet.finish(busy)) == [("r", "d")]


@pytest.mark.parametrize("failure", [ERROR, BUSY, Failure("deadline", "Too late.")])
def test_only_deaths_are_survived(failure: Failure) -> None:
    """What a living runtime says of an answer it has begun is the end of it."""
    fleet = pair()
    talk = Talk(fleet)
    fleet.join("b", report=having("w"))
    talk.say(7)
    assert reasons(talk.die(failure)) == [("r", failure.reason)]


def test_too_long_an_answer_ends_with_its_runtime() -> None:
    """What is kept of it is bounded, and a part of it would be no use."""
    fleet = pair()
    talk = Talk(fleet, most=6)
    fleet.join("b", report=having("w"))
    talk.say(7)
    assert reasons(talk.die()) == [("r", "runtime_died")]


def test_an_answer_that_has_killed_two_is_not_given_a_third() -> None:
    """Quarantine counts deaths on both sides of the seam."""
    fleet = pair()
    talk = Talk(fleet)
    fleet.join("b", "c", report=having("w"))
    talk.say(7)
    assert len(dispatched(talk.die())) == 1
    talk.say(3, prompt=37)
    assert reasons(talk.die()) == [("r", "runtime_died")]


def test_replays_are_paid_out_of_the_same_budget() -> None:
    """With nothing left of it the failure is the answer."""
    fleet = pair(FleetSettings(retry_floor=1, retry_ratio=0.0))
    talks = [Talk(fleet, f"r{n}") for n in range(2)]
    fleet.join("b", report=having("w"))
    for talk in talks:
        talk.say(7)
    assert dispatched(talks[0].die()) == [("r0", "b")]
    assert reasons(talks[1].die()) == [("r1", "runtime_died")]


def test_a_node_without_room_is_no_loss() -> None:
    """Before it has said anything new, an attempt to go on bounces and fails like any other."""
    fleet = pair()
    talk = Talk(fleet)
    fleet.join("b", "c", report=having("w"))
    talk.say(7)
    talk.die()
    talk.die(BUSY)
    fleet.wait(1.0, "a", "b", "c")
    assert talk.receipt().attempts[-1].resumes_at == 7
    assert reasons(talk.die(ERROR)) == []
    assert talk.receipt().attempts[-1].resumes_at == 7


def test_a_lone_node_goes_on_when_its_runtime_is_another() -> None:
    """One machine is enough to survive the death of a runtime."""
    fleet = pair()
    talk = Talk(fleet)
    talk.say(7)
    assert dispatched(talk.die()) == []
    (again,) = of(fleet.report("a", having("w", runtime="r2")), Dispatch)
    assert (again.why, again.resumes_at) == ("runtime_back", 7)


def test_a_silent_node_is_left_behind() -> None:
    """The replay begins when its node is stale, and the old attempt is withdrawn first."""
    fleet = pair()
    talk = Talk(fleet)
    fleet.join("b", report=having("w"))
    talk.say(7)
    effects = fleet.wait(5.5, "b")
    kinds = [type(one).__name__ for one in effects if getattr(one, "request", None) == "r"]
    assert kinds == ["Withdraw", "Report", "Dispatch"]
    assert of(effects, Dispatch)[0].lost_to == "node_lost"


def test_the_shorter_ones_go_first_and_a_few_at_a_time() -> None:
    """They are back the sooner; the longest waits until the others have said something."""
    fleet = Fleet(SETTINGS)
    fleet.join("a", report=having("w", slots=4))
    talks = [Talk(fleet, f"r{n}") for n in range(4)]
    fleet.join("b", report=having("w", slots=8))
    for talk, tokens in zip(talks, (40, 10, 30, 20), strict=True):
        talk.say(tokens)
    assert dispatched(fleet.leave("a")) == [("r1", "b"), ("r3", "b")]
    for talk in talks:
        talk.attempt = 2
    assert dispatched(talks[1].say(1)) == [("r2", "b")]
    assert dispatched(talks[3].say(1)) == [("r0", "b")]


def test_a_context_that_is_too_small_for_the_rest_is_no_candidate() -> None:
    """Prompt and answer so far are known exactly by now."""
    fleet = pair()
    talk = Talk(fleet)
    fleet.join("b", report=having("w", ctx=36))
    talk.say(7, prompt=30)
    assert len(dispatched(talk.die())) == 0
    fleet = pair()
    talk = Talk(fleet)
    fleet.join("b", report=having("w", ctx=37))
    talk.say(7, prompt=30)
    assert dispatched(talk.die()) == [("r", "b")], "complete perhaps, and there it is told"


def test_who_waits_in_vain_to_go_on_hears_of_the_loss() -> None:
    """Not of a queue that its client never stood in."""
    fleet = pair(FleetSettings(queue_wait_s=3.0))
    talk = Talk(fleet)
    talk.say(7)
    talk.die()
    assert reasons(fleet.wait(4.0, "a")) == [("r", "runtime_died")]


def test_what_is_wrong_with_going_on_is_not_its_clients_affair() -> None:
    """A client that has half an answer hears of the loss, and not that its prompt is too long."""
    fleet = pair()
    talk = Talk(fleet)
    fleet.join("b", report=having("w"))
    talk.say(7)
    talk.die()
    assert reasons(talk.die(Failure("model_not_found", "Other weights."))) == [
        ("r", "runtime_died")
    ]


def test_a_node_that_leaves_hands_its_answers_over() -> None:
    """Its grace is over: that costs no retry, and is held against nobody."""
    fleet = pair(FleetSettings(retry_floor=0, retry_ratio=0.0))
    talk = Talk(fleet)
    fleet.join("b", report=having("w"))
    talk.say(7)
    fleet.report("a", msgspec.structs.replace(having("w"), draining=True))
    (again,) = of(talk.die(Failure("draining", "The node is shutting down.")), Dispatch)
    assert (again.node, again.resumes_at, again.lost_to) == (NodeId("b"), 7, "draining")
    talk.say(3, prompt=37)
    fleet.join("c", report=having("w"))
    assert reasons(talk.die()) == [("r", "runtime_died")], "this one would cost a retry"
