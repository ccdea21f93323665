"""Claims about named conversations and dropped text: each finds what breaks it, and only that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roost.core.ids import ModelId, RequestId
from roost.sim.claims.checkers import check
from roost.sim.history import History, Rest
from roost.sim.node_facts import Run
from roost.sim.request_facts import Opened, Trace
from tests.sim.test_checkers import TALK_CLAIMS, A, history, opened

Turns = tuple[Trace, Trace]


def turn(name: str, at_s: float, past: tuple[str, ...], asked: str) -> Trace:
    """A turn of a named conversation that was served whole and kept."""
    one = Trace(RequestId(name), ModelId("m"), 1, at_s, ("aa ", "bb "), "aa bb ", True)
    one.first_byte_s, one.over_s = at_s + 0.5, at_s + 1.0
    first: Opened = opened(at_s)
    first.over_s, first.epoch = at_s + 1.0, round(at_s)
    one.opened, one.endings = [first], [("complete", None)]
    one.conversation, one.asked, one.past = b"c", asked, (*past, asked)
    one.came_s = one.began_s = at_s
    one.reached, one.kept = one.text, True
    return one


def two_turns() -> tuple[History, Turns]:
    """Two turns of one conversation, as they should be."""
    first = turn("r1", 1.0, (), "one")
    second = turn("r2", 5.0, ("one", "aa bb "), "two")
    return history(first, second), (first, second)


def _overlap(_: History, turns: Turns) -> None:
    turns[1].began_s = 1.5


def _overtake(_: History, turns: Turns) -> None:
    turns[1].came_s = 0.5


def _forget(_: History, turns: Turns) -> None:
    turns[1].past = ("two",)


def _invent(_: History, turns: Turns) -> None:
    turns[1].past = ("one", "aa bb cc ", "two")


def _keep_the_unheard(_: History, turns: Turns) -> None:
    turns[0].reached = ""


def _tell_too_early(_: History, turns: Turns) -> None:
    turns[0].told_unkept = True


def _drop_unasked(_: History, turns: Turns) -> None:
    turns[0].text = turns[0].reached = "bb "
    turns[1].past = ("one", "bb ", "two")
    turns[0].dropped = 1


def _drop_the_newest(h: History, turns: Turns) -> None:
    h.drops = True
    turns[0].text = turns[0].reached = "aa "
    turns[1].past = ("one", "aa ", "two")
    turns[0].dropped = 1


def _count_too_many(h: History, turns: Turns) -> None:
    h.drops = True
    turns[0].dropped = 1


def _mix(h: History, turns: Turns) -> None:
    h.drops = True
    turns[0].text = turns[0].reached = "bb aa bb "
    turns[1].past = ("one", "bb aa bb ", "two")
    turns[0].dropped = 1


BROKEN = [
    ("turns_take_turns", _overlap),
    ("turns_take_turns", _overtake),
    ("conversations_never_fork", _forget),
    ("conversations_never_fork", _invent),
    ("conversations_never_fork", _keep_the_unheard),
    ("ends_are_kept", _tell_too_early),
    ("drops_are_told", _drop_unasked),
    ("drops_are_told", _drop_the_newest),
    ("drops_are_told", _count_too_many),
    ("drops_are_told", _mix),
]


@pytest.mark.parametrize(("name", "harm"), BROKEN)
def test_each_claim_can_be_broken(name: str, harm: Callable[[History, Turns], None]) -> None:
    """One harm, one violation, of the claim that is meant."""
    run, turns = two_turns()
    harm(run, turns)
    assert {violation.checker for violation in check(run)} == {name}


def test_every_claim_is_exercised_here() -> None:
    """A new claim comes with a history that breaks it."""
    assert {name for name, _ in BROKEN} == TALK_CLAIMS


def test_a_good_conversation_breaks_nothing() -> None:
    """Turns in order with the right past are fine, and so is text that was dropped as agreed."""
    run, turns = two_turns()
    assert check(run) == []
    run.drops = True
    turns[0].text = turns[0].reached = "bb "
    turns[0].dropped = 1
    turns[1].past = ("one", "bb ", "two")
    assert check(run) == []


def test_a_run_is_the_usual_one() -> None:
    """The history these tests start from has a run for each turn, and comes to rest."""
    run, turns = two_turns()
    assert run.runs == [Run(one.request, A, 0, one.arrived_s, one.over_s) for one in turns]
    assert run.rest == Rest(0, 0, 0, 1, 1, 0, 0, alive=1, nodes=1)
