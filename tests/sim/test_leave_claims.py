"""Claims about owners, places and nodes that are left: each finds what breaks it, and only that."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from roost.core.ids import NodeId
from roost.sim.claims import leaving as leave_claims
from roost.sim.claims.checkers import check
from roost.sim.history import History
from roost.sim.node_facts import Cells, Drain, Run, Trouble
from roost.sim.request_facts import Trace
from tests.sim.test_checkers import A, B, trace
from tests.sim.test_talk_claims import two_turns

Harm = Callable[[History, tuple[Trace, Trace]], None]


def _talking() -> tuple[History, tuple[Trace, Trace]]:
    """Two turns of a conversation with a drain of another node between them."""
    run, turns = two_turns()
    for one in run.runs:
        one.life = "a/1"
    run.drains = [Drain(B, 10.0, told_s=11.0, until_s=25.0)]
    run.troubles = [Trouble(B, "park_node", 10.0, 40.0)]
    run.cells = [Cells(A, "m#1", 0, 30, 31, 4096), Cells(A, "m#1", 1, 0, 9, 4096)]
    return run, turns


def _move(turns: tuple[Trace, Trace], at_s: float) -> Trace:
    """The conversation is computed anew elsewhere, for half a second."""
    move = trace("move", at_s)
    move.own, move.moves, move.over_s = True, turns[0].conversation, at_s + 0.5
    move.opened[0].over_s = at_s + 0.5
    return move


def _no_newer(_: History, turns: tuple[Trace, Trace]) -> None:
    turns[1].opened[0].epoch = 1


def _older_over_a_restart(_: History, turns: tuple[Trace, Trace]) -> None:
    turns[0].opened[0].life = 2


def _run_elsewhere(h: History, _: tuple[Trace, Trace]) -> None:
    h.runs[1].node = B


def _run_before_it_was_sent(h: History, turns: tuple[Trace, Trace]) -> None:
    h.runs.append(Run(turns[1].request, A, 1, 2.0, 2.1, life="a/1"))


def _moved_meanwhile(h: History, turns: tuple[Trace, Trace]) -> None:
    move = _move(turns, 4.8)
    h.traces[move.request] = move


def _told_too_early(h: History, _: tuple[Trace, Trace]) -> None:
    h.drains[0].left_when_told = 1


def _not_told(h: History, _: tuple[Trace, Trace]) -> None:
    h.drains[0].told_s = None


def _keeps_some(h: History, _: tuple[Trace, Trace]) -> None:
    h.drains[0].sessions, h.drains[0].busy = 2, 1


def _leaves_some(h: History, _: tuple[Trace, Trace]) -> None:
    h.drains[0].left = 1


def _counts_wrong(h: History, _: tuple[Trace, Trace]) -> None:
    h.cells[0].told = 28


def _overflows(h: History, _: tuple[Trace, Trace]) -> None:
    h.cells[0].ctx = 30


BROKEN: list[tuple[str, Harm]] = [
    ("owners_succeed", _no_newer),
    ("owners_succeed", _older_over_a_restart),
    ("work_is_where_it_was_sent", _run_elsewhere),
    ("work_is_where_it_was_sent", _run_before_it_was_sent),
    ("moves_take_turns", _moved_meanwhile),
    ("drained_nodes_are_empty", _told_too_early),
    ("drained_nodes_are_empty", _not_told),
    ("drained_nodes_are_empty", _keeps_some),
    ("drained_nodes_are_empty", _leaves_some),
    ("cells_are_conserved", _counts_wrong),
    ("cells_are_conserved", _overflows),
]


@pytest.mark.parametrize(("name", "harm"), BROKEN)
def test_each_claim_can_be_broken(name: str, harm: Harm) -> None:
    """One harm, one violation, of the claim that is meant."""
    run, turns = _talking()
    harm(run, turns)
    assert {violation.checker for violation in check(run)} == {name}


def test_every_claim_is_exercised_here() -> None:
    """A new claim comes with a history that breaks it."""
    assert {name for name, _ in BROKEN} == {name for name, _, _ in leave_claims.CLAIMS}


def test_a_good_history_breaks_nothing() -> None:
    """Turns with ever newer owners, a move between them, and a node that was emptied."""
    run, turns = _talking()
    assert check(run) == []
    move = _move(turns, 3.0)
    run.traces[move.request] = move
    assert check(run) == []
    turns[1].opened[0].life, turns[1].opened[0].epoch = 2, 1
    assert check(run) == []


@pytest.mark.parametrize("harm", [_not_told, _leaves_some])
@pytest.mark.parametrize("who", [A, NodeId("gateway")])
def test_who_has_nobody_to_give_them_to_is_not_blamed(harm: Harm, who: NodeId) -> None:
    """With another node or the gateway in trouble a drain may take longer."""
    run, turns = _talking()
    harm(run, turns)
    run.troubles.append(Trouble(who, "pause_node", 12.0, 20.0))
    assert check(run) == []


def test_a_short_drain_may_end_before_everybody_has_moved() -> None:
    """An operator who changes their mind at once has not been promised anything."""
    run, turns = _talking()
    run.drains[0].until_s = 15.0
    _not_told(run, turns)
    _leaves_some(run, turns)
    assert check(run) == []
